"""`thresher plan`: the best sampling rate and threshold for a target, and what will be seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from thresher.charts.numbers import percent
from thresher.cli import options
from thresher.cli.output import check_files, print_json, say
from thresher.cli.row_tables import show_table
from thresher.privacy import Adjacency, Plan
from thresher.privacy import plan as make_plan
from thresher.privacy.planner import Objective
from thresher.privacy.settings import check_count

_PROBABILITIES = (0.05, 0.5, 0.95, 0.999)


def plan(
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    sampling_rate: options.SamplingRate = None,
    threshold: options.Threshold = None,
    rounds: options.Rounds = 1,
    contributions: options.Contributions = 1,
    adjacency: options.Adjacency = "replace",
    population: Annotated[
        int | None,
        typer.Option(help="How many units there are: adds sample sizes and shares.", show_default=False),
    ] = None,
    objective: Annotated[str, typer.Option(help="visible, error or sample: what is best.")] = "visible",
    count: Annotated[
        int | None, typer.Option(help="Bucket size for the objectives error and sample.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Write the trade-off to a .png, .svg or .html file.", show_default=False),
    ] = None,
    json: options.Json = False,
) -> None:
    """The best sampling rate and threshold for a target, and what will be seen."""
    check_files(plot)
    if population is not None:
        check_count(population, setting="population", least=1)
    made = make_plan(
        epsilon,
        delta,
        sampling_rate=sampling_rate,
        threshold=threshold,
        rounds=rounds,
        contributions=contributions,
        adjacency=cast(Adjacency, adjacency),
        objective=cast(Objective, objective),
        count=count,
    )
    if plot is not None:
        draw(made, plot)
    if json:
        print_json(plan_content(made, population))
        return
    show_plan(made, population)
    if plot is not None:
        say(f"The trade-off is drawn in {plot}.")


def show_plan(made: Plan, population: int | None = None) -> None:
    """A plan for the terminal: what it is, what will be seen with it, and what it guarantees."""
    say(str(made))
    say("")
    _show_seen(made, population)
    say(made.guarantee.in_words(), "dim")


def draw(made: Plan, path: Path) -> None:
    """The frontier of the plan's target with the plan and the paper's rule marked on it."""
    from thresher import charts

    paper = made.versus_paper()
    points = [(point.threshold, point.sampling_rate, point.smallest_visible) for point in made.frontier()]
    chart = charts.frontier(
        points,
        (made.threshold, made.sampling_rate, made.smallest_visible()),
        (paper.threshold, paper.sampling_rate, paper.smallest_visible),
        title="What the target allows",
        subtitle=str(made.guarantee),
    )
    charts.show(chart, path)


def _rows(made: Plan) -> list[tuple[int, float, float]]:
    """Bucket sizes around what can be seen, the probability of seeing each, and its relative error."""
    sizes = {made.smallest_visible(probability) for probability in _PROBABILITIES}
    largest = max(sizes)
    sizes |= {10**exponent for exponent in range(2, 7) if 10**exponent > largest}
    return [(size, made.sees(size), made.relative_error(size)) for size in sorted(sizes)]


def _show_seen(made: Plan, population: int | None) -> None:
    headings = ("bucket of", *(["share"] if population else []), "is released", "typical error")
    rows = [
        (f"{size:,}", *([percent(size / population)] if population else []), percent(probability), percent(error))
        for size, probability, error in _rows(made)
    ]
    show_table(headings, rows, right=headings, title="What will be seen")
    if population:
        sample = population * made.sampling_rate
        say(f"Expected sample: {sample:,.0f} of {population:,} units in each round.", "dim italic")


def plan_content(made: Plan, population: int | None = None) -> dict[str, Any]:
    """A plan and what will be seen with it, as JSON has it."""
    paper = made.versus_paper()
    content: dict[str, Any] = {
        "plan": made.to_dict(),
        "guarantee": made.guarantee.to_dict(),
        "smallest_visible": made.smallest_visible(),
        "seen": [
            {"count": size, "released": probability, "relative_error": error}
            for size, probability, error in _rows(made)
        ],
        "paper": {name: getattr(paper, name) for name in type(paper).__slots__},
    }
    if population:
        content["population"] = population
        content["expected_sample"] = population * made.sampling_rate
    return content

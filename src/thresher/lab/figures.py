"""The figures of the experiments, as PNG and SVG: the paper's two grids, rule against plan, sweeps, words, quantiles.

A line has the same look in all of them. In the grids rivals are on the paper rule's sample, as in the paper;
sample-and-threshold is shown under both rules, each on its own sample.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from thresher.errors import require
from thresher.lab.experiments import comparison, heavy_hitters, interval_widths, mechanisms, quantile_errors, sweeps
from thresher.lab.experiments.runner import Row
from thresher.lab.experiments.settings import DELTA, POPULATION, Settings
from thresher.lab.line_grid import Axes, Panel, Point, grid

RULE_NAMES = {"paper": "paper's rule", "exact": "exact plan"}
OURS = {rule: f"sample-and-threshold, {name}" for rule, name in RULE_NAMES.items()}
LINES = {
    OURS["paper"]: 0,
    OURS["exact"]: 1,
    mechanisms.LAPLACE: 2,
    mechanisms.STABILITY: 3,
    mechanisms.HADAMARD: 5,
    mechanisms.SHUFFLED: 4,
    mechanisms.SHUFFLED_SMALLEST: 7,
    mechanisms.SAMPLED: 6,
}
"""The lines of the grids and sweeps, in the legend's order, each with the number of its style."""
SPAN = 1000.0
"""Panels of errors show this factor from the smallest error up; lines that are worse run out of them."""
_WIDE = (330, 230)


def figures(results: dict[str, list[Row]], settings: Settings) -> dict[str, Any]:
    """Every figure that the results allow, by name."""
    made: dict[str, Any] = {}
    if rows := results.get("accuracy"):
        made["accuracy"] = accuracy(rows, settings)
        made["recall"] = recall(rows, settings)
        made["rules"] = rules(rows, settings)
    if rows := results.get("sweeps"):
        made["population"] = sweep(rows, settings, "population")
        made["delta"] = sweep(rows, settings, "delta")
    if rows := results.get("heavy"):
        made["heavy"] = words(rows, settings)
    if rows := results.get("quantiles"):
        made["quantiles"] = quantiles(rows, settings)
    if rows := results.get("intervals"):
        made["intervals"] = intervals(rows, settings)
    return made


def drawn(chart: Any) -> str:
    """The figure as SVG text."""
    page = io.StringIO()
    chart.save(page, format="svg")
    return page.getvalue()


def write(svg: str, name: str, output: Path) -> None:
    """The figure as .svg and, rendered from it, as .png."""
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{name}.svg").write_text(svg, encoding="utf-8")
    (output / f"{name}.png").write_bytes(require("vl_convert", "plot").svg_to_png(svg, scale=2))


def accuracy(rows: Sequence[Row], settings: Settings) -> Any:
    """Error over epsilon: a row a histogram size, a column a dataset."""

    def limits(points: Sequence[Point]) -> tuple[float, float] | None:
        if not points:
            return None
        low, high = min(point.y for point in points), max(point.y for point in points)
        return 0.7 * low, min(1.4 * high, SPAN * low)

    return _over_epsilon(
        rows, settings, "mae", settings.accuracy_buckets, limits,
        Axes("ε", "mean error ÷ n", log_up=True, up_format=".0e", places=_places(settings)),
        "Mean absolute error per bucket, as a part of all people",
        f"Logarithmic; a panel spans a factor of up to {SPAN:g}, and lines that are worse run out of it.",
    )  # fmt: skip


def recall(rows: Sequence[Row], settings: Settings) -> Any:
    """Recall over epsilon: a row a histogram size, a column a dataset."""
    return _over_epsilon(
        rows, settings, "recall", settings.recall_buckets, lambda _: (0.0, 1.05),
        Axes("ε", "recall", places=_places(settings)),
        "Recall of the largest tenth of all buckets",
        "Ties at the k-th true count all belong to the top; empty buckets never do; what is not released is missed.",
    )  # fmt: skip


def _over_epsilon(
    rows: Sequence[Row],
    settings: Settings,
    field: str,
    sizes: Sequence[int],
    limits: Callable[[Sequence[Point]], tuple[float, float] | None],
    axes: Axes,
    title: str,
    note: str,
) -> Any:
    """The paper's grid of one field of the accuracy experiment."""

    def panel(dataset: str, buckets: int) -> Panel:
        points = _points(rows, _mechanism, "epsilon", field, dataset=dataset, buckets=buckets)
        return Panel(f"{dataset.title()}, {_size(buckets)}", points, limits(points))

    panels = [[panel(dataset, buckets) for dataset in settings.datasets] for buckets in sizes]
    subtitle = [
        f"n = {POPULATION:,} (Shakespeare: all words), δ = {DELTA:g}, α = 1/6. {_repeated(settings)}",
        f"Rivals use the paper rule's sample. {_credit(settings)}",
        note,
    ]
    return grid(panels, LINES, axes, title=title, subtitle=subtitle)


def rules(rows: Sequence[Row], settings: Settings) -> Any:
    """The exact plan ÷ the paper's rule: error above, recall below."""
    found = comparison.compared(rows)

    def panel(dataset: str, field: str, name: str) -> Panel:
        points = _points(found, lambda row: _size(row["buckets"]), "epsilon", field, dataset=dataset)
        low, high = min((point.y for point in points), default=1.0), max((point.y for point in points), default=1.0)
        around = (min(0.3, 0.9 * low), max(1.05, 1.1 * high)) if field == "mae_ratio" else (0.9 * low, 1.1 * high)
        return Panel(dataset.title(), points, around, up=f"{name}, exact ÷ paper")

    fields = {"mae_ratio": "error", "recall_ratio": "recall"}
    panels = [[panel(dataset, field, name) for dataset in settings.datasets] for field, name in fields.items()]
    return grid(
        panels, {_size(buckets): place for place, buckets in enumerate(settings.buckets)},
        Axes("ε", "exact ÷ paper", places=_places(settings)),
        title="What the exact plan changes at the same (ε, δ)",
        subtitle=["Sample-and-threshold, exact plan ÷ paper's rule: errors below 1 and recall above 1 are better.",
                  _repeated(settings)],
    )  # fmt: skip


def sweep(rows: Sequence[Row], settings: Settings, axis: str) -> Any:
    """Error along population size or delta, for two datasets."""
    panels = [
        Panel(
            f"{dataset.title()}, {_size(sweeps.BUCKETS)}",
            _points(rows, _mechanism, axis, "mae", sweep=axis, dataset=dataset),
        )
        for dataset in sweeps.DATASETS
    ]
    people = axis == "population"
    fixed = f"ε = {sweeps.EPSILON:g}, " + (f"δ = {DELTA:g}" if people else f"n = {POPULATION:,}")
    coins = "Fair coins stand in for the shuffle's noise where more would be needed."
    return grid(
        [panels], {name: style for name, style in LINES.items() if name in (*OURS.values(), *sweeps.NAMES)},
        Axes("people, n" if people else "δ", "mean error ÷ n", log_across=True, log_up=True, up_format=".0e",
             across_format=".0e", places=tuple(map(float, settings.populations if people else settings.deltas))),
        title=f"Mean absolute error per bucket along {'the number of people' if people else 'δ'}",
        subtitle=[f"{fixed}. {_repeated(settings)}", f"{_credit(settings)} {coins}"], size=_WIDE,
    )  # fmt: skip


def words(rows: Sequence[Row], settings: Settings) -> Any:
    """Recall and count error of the largest words over the total epsilon."""
    top, levels = heavy_hitters.TOP, heavy_hitters.LEVELS
    no_counts = f"{heavy_hitters.TRIE} (no counts)"

    def line(row: Row) -> str:
        return no_counts if row["method"] == heavy_hitters.TRIE else _method(row)

    panels = [
        Panel(heading, _points(rows, line, "epsilon", field), (0.0, 1.05), up=up)
        for heading, field, up in (
            (f"Recall of the {top} largest words", "recall", "recall"),
            ("Error of their counts", "count_error", "mean relative error"),
        )
    ]
    return grid(
        [panels], _methods(heavy_hitters.ONE_SHOT, heavy_hitters.TRIE_PLUS) | {no_counts: 4},
        Axes("total ε", "", log_across=True, places=settings.total_epsilons),
        title=f"Common words of {POPULATION:,} people",
        subtitle=[
            f"Zipf's law over 10,000 made-up words; δ = {DELTA:g}; tries of {levels} levels share the budget.",
            f"A word that is not found counts as an error of 1. {_repeated(settings)}",
        ], size=_WIDE,
    )  # fmt: skip


def quantiles(rows: Sequence[Row], settings: Settings) -> Any:
    """Rank errors over the total epsilon, for two kinds of values."""
    panels = [
        Panel(f"{values.capitalize()} values", _points(rows, _method, "epsilon", "rank_error", values=values))
        for values in quantile_errors.VALUES
    ]
    return grid(
        [panels], _methods(*quantile_errors.METHODS),
        Axes("total ε", "mean absolute rank error", log_across=True, log_up=True, places=settings.total_epsilons),
        title=f"Rank errors of quantiles of {POPULATION:,} people",
        subtitle=[
            f"The quantile of rank {quantile_errors.WANTED:g}; δ = {DELTA:g}, "
            f"{quantile_errors.ROUNDS} rounds, hierarchies with β = 2.",
            _repeated(settings, quantile_errors.TIMES),
        ], size=_WIDE,
    )  # fmt: skip


def intervals(rows: Sequence[Row], settings: Settings) -> Any:
    """Widths in the first row, coverage in the second, over the number of people: a column a kind of values."""
    pairs = [(method, answer) for method in interval_widths.METHODS for answer in interval_widths.ANSWERS]
    lines = {_interval({"answer": answer, "method": method}): style for style, (method, answer) in enumerate(pairs)}
    places = tuple(sorted({float(row["people"]) for row in rows}))
    widths, coverage = (
        Axes("people", title, log_across=True, log_up=logarithmic, up_format=form, across_format="~s", places=places)
        for title, logarithmic, form in (("stated bound ÷ actual error", True, "~g"), ("coverage", False, ".0%"))
    )
    panels = [
        [
            Panel(values.capitalize(), _points(rows, _interval, "people", field, values=values), limits, axes=axes)
            for values in dict.fromkeys(row["values"] for row in rows)
        ]
        for field, limits, axes in (("times", (0.9, 8.0), widths), ("coverage", (0.9, 1.0), coverage))
    ]
    return grid(
        panels, lines, widths,
        title="Intervals of ranks and quantiles: how wide they are, and how often they hold",
        subtitle=[
            f"Six levels with β = 4 between 0 and {interval_widths.UPPER:,.0f}; ε = {interval_widths.EPSILON:g}, "
            f"δ = {DELTA:g}. The actual error is the 95th percentile of {interval_widths.TIMES * settings.repetitions} "
            "repetitions; 1 is perfect.",
            "Intervals should hold in 95 %. Delays are whole minutes: their quantiles are mostly exact, "
            "and widths of these are left out.",
        ], size=(170, 170),
    )  # fmt: skip


def _interval(row: Row) -> str:
    return f"{row['answer']}, {row['method']}"


def _points(
    rows: Sequence[Row], line: Callable[[Row], str | None], across: str, field: str, **where: object
) -> list[Point]:
    """A point for each row with these values that has the field and belongs to a line."""
    return [
        Point(name, row[across], row[field], row[f"{field}_se"])
        for row in rows
        if all(row[key] == value for key, value in where.items())
        and row[field] is not None
        and (name := line(row)) is not None
    ]


def _mechanism(row: Row) -> str | None:
    """The line of a mechanism; None if it is not shown, as rivals on the exact plan's sample."""
    name, rule = row["mechanism"], row["rule"]
    if name == mechanisms.THRESHOLD:
        return OURS[rule]
    return str(name) if rule == "paper" and name in LINES else None


def _method(row: Row) -> str:
    return f"{row['method']}, {RULE_NAMES[row['rule']]}"


def _methods(*methods: str) -> dict[str, int]:
    """A line for each method and rule, with the number of its style."""
    names = [f"{method}, {rule}" for method in methods for rule in RULE_NAMES.values()]
    return {name: style for style, name in enumerate(names)}


def _size(buckets: int) -> str:
    return f"B = {buckets:,}"


def _places(settings: Settings) -> tuple[float, ...]:
    return tuple(epsilon for epsilon in settings.epsilons if round(10 * epsilon) % 2 == 0 or epsilon in (0.1, 1.0))


def _repeated(settings: Settings, times: int = 1) -> str:
    return f"Means of {times * settings.repetitions} repetitions; bars are standard errors."


def _credit(settings: Settings) -> str:
    return f"Amplification by sampling is {'' if settings.credit_amplification else 'not '}credited to rivals."

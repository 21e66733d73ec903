"""`thresher lab figures|table|run`: the paper's experiments, figures, tables and numeric examples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from thresher.cli import options
from thresher.cli.command_making import Commands
from thresher.cli.output import print_json, say
from thresher.cli.progress import progress_bar
from thresher.cli.row_tables import show_table
from thresher.lab import experiments, figures, report, shakespeare
from thresher.lab.experiments import runner as running

app = typer.Typer(
    help="The paper's experiments, with its rule and with exact plans.", no_args_is_help=True, cls=Commands
)

Fast = Annotated[bool, typer.Option("--fast", help="Fewer points and repetitions, for a first look.")]
Output = Annotated[Path, typer.Option(help="The folder for results; finished parts in it are not run again.")]
Seed = Annotated[int, typer.Option(min=0, help="The seed of every draw.")]
Text = Annotated[
    Path | None,
    typer.Option(help="A text file in place of Shakespeare's complete works.", show_default=False, dir_okay=False),
]
Credit = Annotated[bool, typer.Option("--credit-amplification", help="Let rivals profit from the sampling.")]
Processes = Annotated[int, typer.Option(min=1, help="How many processes work at once.")]

_FOLDER = Path("out/figures")
_NAMES = ", ".join([*experiments.EXPERIMENTS, *experiments.OTHERS])


@app.command("figures")
def make_figures(
    fast: Fast = False,
    output: Output = _FOLDER,
    seed: Seed = 1,
    text: Text = None,
    credit_amplification: Credit = False,
    processes: Processes = 2,
) -> None:
    """Run every experiment; write figures (PNG, SVG), results (CSV) and a report that stands alone (HTML)."""
    settings = _settings(fast, seed, text, credit_amplification)
    with _progress() as progress:
        results = experiments.run_experiments(
            list(experiments.EXPERIMENTS), settings, output, processes=processes, progress=progress
        )
        made = figures.figures(results, settings)
        drawings: dict[str, str] = {}
        for number, name in enumerate(made):
            progress(number, len(made) + 1, f"drawing {name}")
            drawings[name] = figures.drawn(made[name])
            figures.write(drawings[name], name, output)
        progress(len(made), len(made) + 1, "writing the report")
        experiments.write_tables(results["accuracy"], output)
        report.write(output / "report.html", results, drawings, settings)
        progress(len(made) + 1, len(made) + 1, "done")
    _show_verdicts(results["accuracy"])
    say(f"Figures, CSV files and report.html are in {output}.")


@app.command("table")
def table(json: options.Json = False) -> None:
    """Every numeric example of the paper: its value, what its formula gives, and the corrected value."""
    found = experiments.examples()
    if json:
        print_json([asdict(example) for example in found])
        return
    rows = [
        (
            example.place,
            example.quantity,
            example.printed,
            f"{example.computed:.4g}",
            f"{example.corrected:.4g}",
            "✓" if example.agrees else "✗",
        )
        for example in found
    ]
    headings = ("section", "quantity", "paper", "formula", "corrected", "")
    show_table(headings, rows, right=("formula", "corrected"), remarks=[example.remark for example in found])


@app.command("run")
def run(
    name: Annotated[str, typer.Argument(help=f"One of: {_NAMES}.", show_default=False)],
    fast: Fast = False,
    output: Output = _FOLDER,
    seed: Seed = 1,
    text: Text = None,
    credit_amplification: Credit = False,
    processes: Processes = 2,
    json: options.Json = False,
) -> None:
    """Run one experiment and write its results as CSV."""
    settings = _settings(fast, seed, text, credit_amplification)
    with _progress() as progress:
        results = experiments.run_experiments([name], settings, output, processes=processes, progress=progress)
    if json:
        print_json(results[name])
        return
    if name == "accuracy":
        _show_verdicts(results[name])
    say(f"{len(results[name]):,} rows are in {output / name}.csv.")


def _settings(fast: bool, seed: int, text: Path | None, credit_amplification: bool) -> experiments.Settings:
    if not fast:
        return experiments.full(seed=seed, text=text, credit_amplification=credit_amplification)
    cached = (shakespeare.cache_folder() / shakespeare.ARCHIVE).is_file()
    return experiments.fast(seed=seed, text=text, credit_amplification=credit_amplification, shakespeare=cached)


def _show_verdicts(rows: list[running.Row]) -> None:
    verdicts = experiments.judge(rows)
    shown = [
        (each.claim, each.verdict + (f": {'; '.join(each.exceptions)}" if each.exceptions else "")) for each in verdicts
    ]
    title = "The paper's claims, with its rule"
    show_table(("claim", "verdict"), shown, title=title, remarks=[each.numbers for each in verdicts])


@contextmanager
def _progress() -> Iterator[running.Progress]:
    """What experiments tell how far they are."""
    with progress_bar(False, "experiments") as report:
        yield report or (lambda done, total, what: None)

"""`thresher audit`: attacks on the mechanism as it is shipped, beside what is claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.text import Text

from thresher.charts.numbers import percent
from thresher.cli import options
from thresher.cli.output import print_json, say
from thresher.cli.privacy import Rate, Threshold
from thresher.cli.progress import progress_bar
from thresher.cli.row_tables import show_table
from thresher.privacy import Adjacency as AdjacencyName

if TYPE_CHECKING:
    from thresher.lab.audit import AuditReport


def audit(
    sampling_rate: Rate,
    threshold: Threshold,
    epsilon: Annotated[float, typer.Option(help="Epsilon.", show_default=False)],
    adjacency: options.Adjacency = "replace",
    rounds: options.Rounds = 1,
    contributions: options.Contributions = 1,
    path: Annotated[
        str,
        typer.Option(
            help="What is attacked: counts, table, device, all of these; or fleet (over HTTP), injected (a collector "
            "that adds reports of its own to those of one person), or ledger (many queries until it refuses).",
        ),
    ] = "all",
    trials: Annotated[int, typer.Option(help="Draws of either population for each measurement.")] = 2_000_000,
    confidence: Annotated[float, typer.Option(help="How sure a violation must be.")] = 0.999,
    json: options.Json = False,
) -> None:
    """Attack the shipped mechanism and compare what the attacks prove with what is claimed.

    Exits with 5 if a violation is found.
    """
    from thresher.lab.audit import PATHS
    from thresher.lab.audit import audit as run

    with progress_bar(json) as progress:
        report = run(
            sampling_rate,
            threshold,
            epsilon,
            adjacency=cast(AdjacencyName, adjacency),
            rounds=rounds,
            contributions=contributions,
            paths=PATHS if path == "all" else (path,),
            trials=trials,
            confidence=confidence,
            progress=progress,
        )
    if json:
        print_json(report.to_dict())
    else:
        _show_findings(report)
        for finding in report.findings:
            say(f"{finding.path}: {finding.best.event}; {finding.best.populations}", "dim")
        say(report.in_words())
    report.verify()


_NUMBERS = ("trials", "claimed delta", "delta at least", "of claim", "epsilon at least")


def _show_findings(report: AuditReport) -> None:
    rounds = f", {report.rounds} rounds" if report.rounds > 1 else ""
    values = f", {report.contributions} values a unit" if report.contributions > 1 else ""
    setting = f"p = {report.sampling_rate:g}, τ = {report.threshold}, epsilon = {report.epsilon:g}"
    rows = []
    for finding in report.findings:
        style = "bold red" if finding.violation else "green" if finding.measurable else "yellow"
        numbers = (
            f"{finding.trials:,}",
            f"{finding.claimed_delta:.3g}",
            f"{finding.delta_lower:.3g}",
            percent(finding.ratio),
            f"{finding.epsilon_lower:.3g}",
        )
        rows.append((finding.path, *numbers, Text(finding.verdict, style=style)))
    title = f"{setting}, {report.adjacency}{rounds}{values}"
    show_table(("path", *_NUMBERS, "verdict"), rows, right=_NUMBERS, title=title)

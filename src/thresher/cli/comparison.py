"""A simulation for the terminal: what was released beside what is true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from thresher.cli.output import say
from thresher.cli.row_tables import show_table

if TYPE_CHECKING:
    from thresher.simulator.report import Comparison, Result

_MOST_LINES = 25


def show(result: Result) -> None:
    """A simulation for the terminal: what was released beside the truth, then how the server answered."""
    if result.comparison is not None:
        show_comparison(result.comparison)
        fewest = min((each.asked for each in result.comparison.rounds), default=result.devices)
        if fewest < result.devices:
            say(
                f"A round closed when it had asked {fewest:,} of {result.devices:,} devices: its estimates are for "
                "those, the truth is for all. Give it more --seconds or --completions.",
                "bold",
            )
        if len(result.comparison.lines) > _MOST_LINES:
            say("Use --json for all lines.", "dim")
    rate = result.requests / result.seconds if result.seconds else 0.0
    say(
        f"{result.devices:,} devices"
        + (f" and {result.hostile:,} hostile clients" if result.hostile else "")
        + f" sent {result.requests:,} requests in {result.seconds:,.1f} s ({rate:,.0f} a second); "
        f"{result.reports:,} reports were acknowledged."
    )
    rows = []
    answers: list[tuple[tuple[str, int | str], int]] = [
        *sorted(result.outcomes.answers.items()),
        *sorted(result.outcomes.reports.items()),
    ]
    for (what, status), count in answers:
        odd = result.outcomes.unexpected.get((what, status), 0)
        rows.append((what, str(status or "–"), f"{count:,}", Text("unexpected" if odd else "", style="bold red")))
    show_table(("sent", "answered", "times", ""), rows, right=("answered", "times"))


def show_comparison(comparison: Comparison, most: int = _MOST_LINES) -> None:
    """Released beside true, in lines and in words, and the promise."""
    numbers = ("estimate", "95 % interval", "truth")
    rows = [
        (
            line.what,
            f"{line.estimate:,.0f}",
            f"{line.lower:,.0f} – {line.upper:,.0f}",
            f"{line.truth:,.0f}",
            "" if line.inside else "outside",
        )
        for line in comparison.lines[:most]
    ]
    show_table((comparison.verb, *numbers, ""), rows, right=numbers)
    if len(comparison.lines) > most:
        say(f"… and {len(comparison.lines) - most:,} more", "dim")
    said = f"The truth lies in {comparison.inside} of {len(comparison.lines)} intervals."
    if comparison.held:
        said = (
            f"{len(comparison.lines):,} of {comparison.held:,} values that devices hold were released, among them "
            f"{comparison.large_released} of the {comparison.large} held by {comparison.plan.smallest_visible():,} or "
            f"more devices; {comparison.invented or 'none'} that nobody holds. " + said
        )
    say(said)
    held = comparison.guarantees
    for sentence in [comparison.guarantee.in_words()] if held is None else held.in_words():
        say(sentence, "dim")

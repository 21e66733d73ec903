"""Data errors on the command line, for whoever holds the data."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from thresher.cli.output import print_json, say
from thresher.tables import DataErrors

_FOUND = 2
"""The exit code where there are some: that of input that is wrong."""


def show_doubts(doubts: Sequence[str]) -> None:
    """What must be said first, because it puts all else in doubt."""
    for doubt in doubts:
        say(doubt, "bold yellow")


def show_found(found: DataErrors, json: bool) -> None:
    """What cannot be read; ends the command with an exit code where there is something."""
    if json:
        print_json(found.to_dict())
    else:
        say(found.summary, "yellow")
        for error in found:
            say(f"  {error.in_words}.")
            say(f"    {error.cause.remedy}", "dim")
    if found:
        raise typer.Exit(_FOUND)

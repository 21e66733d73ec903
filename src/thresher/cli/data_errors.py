"""Data errors on the command line, for whoever holds the data."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from thresher.cli.output import console, print_json
from thresher.tables import DataErrors

_FOUND = 2
"""The exit code where there are some: that of input that is wrong."""


def show_doubts(doubts: Sequence[str]) -> None:
    """What must be said first, because it puts all else in doubt."""
    for doubt in doubts:
        console.print(doubt, style="bold yellow", soft_wrap=True, markup=False)


def show_found(found: DataErrors, json: bool) -> None:
    """What cannot be read; ends the command with an exit code where there is something."""
    if json:
        print_json(found.to_dict())
    else:
        console.print(found.summary, style="yellow", soft_wrap=True, markup=False)
        for error in found:
            console.print(f"  {error.in_words}.", soft_wrap=True, markup=False)
            console.print(f"    {error.cause.remedy}", style="dim", soft_wrap=True, markup=False)
    if found:
        raise typer.Exit(_FOUND)

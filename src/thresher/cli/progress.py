"""How far a command is, on standard error: a bar where a person watches, now and then a line where nobody does.

Both say which part of a file was read and how many rounds were asked, which is public, and nothing that was counted.
With `--json` or `--quiet` there is neither.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from thresher.cli.output import errors
from thresher.client.query_progress import Watch, bars, describe_rounds
from thresher.verbs import Progress as Report

if TYPE_CHECKING:
    from thresher.protocol.analyst_messages import QueryStatus

_SECONDS = 10.0
"""A line comes after so many seconds, and after each further so many: short commands write none."""


class Lines:
    """Lines on standard error, as "reading and counting: 40 %", not more often than every few seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def report(self, done: int, total: int, what: str) -> None:
        """How much is done, in percent."""
        self._say(lambda: f"{what}: {100 * done // total if total else 0} %")

    def watch(self, status: QueryStatus) -> None:
        """How many devices have completed the open rounds of a fleet's query."""
        self._say(lambda: f"{status.what}: {describe_rounds(status.rounds, time.time())}")

    def _say(self, words: Callable[[], str]) -> None:
        now = self._clock()
        if now - self._last < _SECONDS:
            return
        self._last = now
        with contextlib.suppress(OSError, ValueError):  # whoever read it has left
            print(words(), file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress_bar(quiet: bool, start: str = "reading and counting") -> Iterator[Report | None]:
    """A function to tell how much is done; None where nothing shall be said. `start` stands there at first."""
    if quiet or sys.stderr is None:
        yield None
        return
    if not errors.is_terminal:
        yield Lines().report
        return
    columns: tuple[Any, ...] = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(start, total=None)

        def report(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what or start)

        yield report


@contextlib.contextmanager
def round_bars(quiet: bool) -> Iterator[Watch | None]:
    """The same for a fleet's query: a function to call with every status."""
    if quiet or sys.stderr is None:
        yield None
    elif errors.is_terminal:
        with bars(errors) as watch:
            yield watch
    else:
        yield Lines().watch

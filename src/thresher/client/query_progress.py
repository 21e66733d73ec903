"""The progress of a query: how many rounds are released, and how many devices have completed the open one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from thresher.protocol.states import RoundState
from thresher.verbs import Progress

if TYPE_CHECKING:
    from rich.console import Console

    from thresher.protocol.analyst_messages import QueryStatus, RoundStatus

Watch = Callable[["QueryStatus"], None]


@contextlib.contextmanager
def watching(progress: Progress | None) -> Iterator[Watch | None]:
    """A function to call with every status: it reports to `progress`, or draws a bar where a person is watching."""
    if progress is not None:
        yield _reporting(progress)
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with bars(console) as watch:
        yield watch


@contextlib.contextmanager
def bars(console: Console) -> Iterator[Watch]:
    """A bar over the rounds, and a line on the round that is open."""
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[round]}", markup=False, style="dim"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=console, transient=True) as shown:
        task = shown.add_task("submitted", total=None, round="")

        def watch(status: QueryStatus) -> None:
            done = _released(status)
            line = describe_round(status.rounds[-1], time.time()) if status.rounds else ""
            shown.update(task, description=status.what, completed=done, total=status.rounds_planned, round=line)

        yield watch


def describe_round(round: RoundStatus, now: float) -> str:
    """A round in a few words."""
    numbers = f"{round.completed:,} of {round.contacted:,} contacted have completed"
    if round.state != RoundState.OPEN:
        return f"round {round.index + 1} {round.state}: {numbers}"
    left = max(0.0, round.deadline - now)
    enough = "" if round.target is None else f" or at {round.target:,} completed"
    return f"round {round.index + 1}: {numbers}, closes in {left:,.0f} s{enough}"


def _released(status: QueryStatus) -> int:
    return sum(round.state == RoundState.RELEASED for round in status.rounds)


def _reporting(progress: Progress) -> Watch:
    told = 0

    def watch(status: QueryStatus) -> None:
        nonlocal told
        done = _released(status)
        for number in range(told + 1, done + 1):
            progress(number, status.rounds_planned, status.what)
        told = max(told, done)

    return watch

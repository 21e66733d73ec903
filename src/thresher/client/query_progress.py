"""The progress of a query: how many rounds are released, and how many devices have completed the open ones."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from thresher.mechanism.response import span
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
    """A bar over the rounds, and a line on the rounds that are open and on how long the query takes in all."""
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
            line = " ".join(filter(None, [describe_rounds(status.rounds, time.time()), status.in_all]))
            shown.update(task, description=status.what, completed=done, total=status.rounds_planned, round=line)

        yield watch


def describe_rounds(rounds: Sequence[RoundStatus], now: float) -> str:
    """The rounds that are not released in a few words; where all are, the last one. Empty if there is none."""
    if not rounds:
        return ""
    shown = [round for round in rounds if round.state != RoundState.RELEASED] or [rounds[-1]]
    which = f"round {shown[0].index + 1}" if len(shown) == 1 else f"rounds {span([round.index + 1 for round in shown])}"
    completed, contacted = (span([getattr(round, name) for round in shown]) for name in ("completed", "contacted"))
    numbers = f"{completed} of {contacted} contacted have completed"
    waiting = [round for round in shown if round.state == RoundState.OPEN]
    if not waiting:
        return f"{which} {shown[-1].state}: {numbers}."
    left = max(0.0, max(round.deadline for round in waiting) - now)
    target = waiting[0].target
    enough = "" if target is None else f" or at {target:,} completed"
    return f"{which}: {numbers}, closes in {left:,.0f} s{enough}."


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

"""From an answer that has been paid for to whoever asked: nothing that fails on the way loses it."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from thresher.cli.output import as_json, errors, print_json, say
from thresher.errors import ThresherError
from thresher.files import write_whole
from thresher.verbs.answer import json_value

if TYPE_CHECKING:
    from thresher.ledger import Ledger


def deliver(
    answer: Any,
    show: Callable[[], None],
    *,
    plot: Path | None,
    output: Path | None,
    json: bool,
    ranges: Sequence[Mapping[str, Any]] = (),
    shown: Callable[[Any], Any] = lambda content: content,
    again: str | None = None,
) -> None:
    """Write an answer to every place that was asked for.

    Args:
        answer: what a verb returned; its JSON is what is kept, with what `thresher.load` needs.
        show: prints it for people; used without `json`.
        plot: where its picture goes.
        output: where its JSON goes, in a form that `thresher.load` reads.
        json: whether standard output gets the JSON.
        ranges: ranges that were read off, which the JSON has besides the answer's own.
        shown: wraps the JSON that is printed.
        again: a command that shows the answer again. Without one, an answer that could not be written where it was
            asked for is kept in a file of its own, and the message says where.

    Raises: `typer.Exit` with 1 if any of these failed, after all others were tried.
    """
    failed: list[str] = []
    content = answer.document() | {"ranges": json_value(ranges)}
    try:
        if output is not None:
            with _noted(failed, f"{str(output)!r} could not be written"):
                write_whole(output, as_json(answer.saved(content)) + "\n")
        written = output is not None and not failed
        with _noted(failed, "standard output could not be written"), _nothing_left_in_the_buffer():
            if json:
                print_json(shown(content))
            else:
                show()
            _flush()
        if plot is not None:
            with _noted(failed, f"the picture {str(plot)!r} could not be made"):
                answer.plot(plot)
    except KeyboardInterrupt:
        failed.append("interrupted")
        written = False
        raise
    finally:
        if failed:
            where = f"it is in {str(output)!r}" if written else again or _kept(as_json(answer.saved(content)))
            _say(f"{'; '.join(failed)}. The answer is not lost: {where}.")
    if failed:
        raise typer.Exit(1)


@contextlib.contextmanager
def said_if_charged(ledger: Ledger | None) -> Iterator[None]:
    """If the block fails after the ledger was charged, say so: what was spent stays spent."""
    before = 0 if ledger is None else len(ledger.history())
    try:
        yield
    except BaseException:
        with contextlib.suppress(ThresherError):
            if ledger is not None and len(ledger.history()) > before:
                _say("The ledger had been charged before this. Nothing was released; what was drawn stays charged.")
        raise


@contextlib.contextmanager
def _noted(failed: list[str], what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever it is: the answer was paid for, and the next place may still take it
        failed.append(f"{what} ({_reason(error)})")


@contextlib.contextmanager
def _nothing_left_in_the_buffer() -> Iterator[None]:
    """What standard output did not take, for want of a reader or of space, does not fail again as the process ends."""
    try:
        yield
    except OSError:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _reason(error: Exception) -> str:
    """Why, without any value: an error's own text may quote what it could not write."""
    if isinstance(error, ThresherError):
        return error.message.removesuffix(".")
    return error.strerror or "it cannot be reached" if isinstance(error, OSError) else type(error).__name__


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _kept(text: str) -> str:
    """Keep the answer in a file of its own; where."""
    try:
        handle, name = tempfile.mkstemp(prefix="thresher-answer-", suffix=".json")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError:
        return f"it follows.\n{text}\nThat was it"
    return f"it is in {name!r}"


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        say(text, on=errors)

"""What leaves an engine when it fails: nothing that people hold, and an interrupt as an interrupt.

Errors of engines may quote people's values. They are replaced by errors that quote nothing. Frames of a traceback hold
tallies in their local variables, which some reporters of errors write down. They are emptied.
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from thresher.errors import InvalidSetting, ThresherError

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def guarded(engine: str, action: Callable[[], T]) -> T:
    """Run `action` in an engine; every error that it raises is replaced by the same `InvalidSetting`.

    Guarantee: that of `withheld`. The type of the engine's error is not shown either, since it depends on values.
    """
    return withheld(
        action,
        lambda _: InvalidSetting(
            "data",
            f"could not be read by {engine}",
            hint="Its message is withheld, since it may quote people's values. Look for a damaged file, a file that is "
            "not what its name says, or an engine that has stopped.",
        ),
    )


def withheld(action: Callable[[], T], instead: Callable[[str], ThresherError]) -> T:
    """Run `action`; an error that it raises is replaced by the one that `instead` makes of the error's type name.

    Guarantee: the new error has neither cause nor context, so that no log of it holds what the first one quoted.
    Edge cases: Thresher's own errors, `MemoryError` and interrupts pass through.
    """
    try:
        return heeded(action)
    except (ThresherError, MemoryError):
        raise
    except BaseException as error:
        kind = type(error).__name__
        # A panic of a library in Rust is an error too, although it is no `Exception`.
        if not isinstance(error, Exception) and kind != "PanicException":
            raise
    # Outside of the except block, so that the first error does not become the context of this one.
    raise instead(kind)


def heeded(action: Callable[[], T]) -> T:
    """Run `action`; what a signal's handler raises meanwhile leaves it, whatever an engine makes of that.

    A handler is called in the middle of an engine's work. DuckDB makes of its `KeyboardInterrupt` an error like any
    other, and so do readers of streams: then a count would be tried again in another way, charged and answered.

    Edge cases: a handler that raises nothing changes nothing, nor does a signal while another thread runs this.
    """
    noted: list[_Noted] = []
    if threading.current_thread() is threading.main_thread():
        handlers = [(number, signal.getsignal(number)) for number in _SIGNALS]
        noted = [_Noted(number, handler) for number, handler in handlers if callable(handler)]
    result: list[T] = []
    try:
        for each in noted:
            signal.signal(each.number, each)
        result.append(action())
    except BaseException:
        if all(each.raised is None for each in noted):
            raise
    finally:
        for each in noted:
            current: Any = signal.getsignal(each.number)
            if current is each:
                signal.signal(each.number, each.handler)
    for error in (each.raised for each in noted if each.raised is not None):
        # It was raised in an engine's frames, perhaps after an error that quotes values.
        error.__context__ = error.__cause__ = None
        raise error.with_traceback(None)
    return result[0]


class _Noted:
    """A handler of a signal that remembers what it raised."""

    def __init__(self, number: signal.Signals, handler: Callable[[int, Any], Any]) -> None:
        self.number = number
        self.handler = handler
        self.raised: BaseException | None = None

    def __call__(self, number: int, frame: Any) -> None:
        try:
            self.handler(number, frame)
        except BaseException as error:
            self.raised = error
            raise


@contextmanager
def emptied() -> Iterator[None]:
    """Empty the frames of an error that leaves the block: none of its local variables is left, as a tally may be.

    Guarantee: causes and contexts are emptied too. Which line raised it is still said.
    """
    try:
        yield
    except BaseException as error:
        for each in _chained(error):
            traceback.clear_frames(each.__traceback__)
        raise


def _chained(error: BaseException) -> list[BaseException]:
    """An error with its causes, contexts and the errors of its group."""
    found, waiting = [], [error]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.append(each)
            others = (each.__cause__, each.__context__, *getattr(each, "exceptions", ()))
            waiting += [other for other in others if isinstance(other, BaseException)]
    return found

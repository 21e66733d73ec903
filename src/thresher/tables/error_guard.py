"""Errors of engines may quote people's values. They are replaced by errors that quote nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from thresher.errors import InvalidSetting, ThresherError

T = TypeVar("T")


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
        return action()
    except (ThresherError, MemoryError):
        raise
    except BaseException as error:
        kind = type(error).__name__
        # A panic of a library in Rust is an error too, although it is no `Exception`.
        if not isinstance(error, Exception) and kind != "PanicException":
            raise
    # Outside of the except block, so that the first error does not become the context of this one.
    raise instead(kind)

"""Engine errors may quote people's values; the errors that leave this package never do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from thresher.errors import InvalidSetting, ThresherError

T = TypeVar("T")


def guarded(engine: str, action: Callable[[], T]) -> T:
    """Run something in an engine; whatever it raises becomes one and the same error.

    Guarantee: that of `withheld`. Not even the kind of the engine's error is told, since it depends on values.
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
    """Run something; what it raises becomes the error that `instead` makes of its type's name.

    Guarantee: the new error has neither cause nor context, so that no log of it holds what the first one quoted.
    Edge cases: Thresher's own errors, running out of memory and interrupts pass through.
    """
    try:
        return action()
    except (ThresherError, MemoryError):
        raise
    except BaseException as error:
        kind = type(error).__name__
        # What a library in Rust calls a panic is not an `Exception`, but is one all the same.
        if not isinstance(error, Exception) and kind != "PanicException":
            raise
    # Outside of the except block, so that the first error is not even the context of this one.
    raise instead(kind)

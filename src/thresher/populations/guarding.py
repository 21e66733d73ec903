"""Engine errors may quote people's values; the errors that leave this package never do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from thresher.errors import InvalidSetting, ThresherError

T = TypeVar("T")


def guarded(engine: str, action: Callable[[], T]) -> T:
    """Run something in an engine; whatever it raises becomes an error without the engine's words.

    Guarantee: that of `withheld`.
    """
    return withheld(
        action,
        lambda kind: InvalidSetting(
            "data",
            f"could not be read: {engine} stopped with {kind}",
            hint="Its message is withheld, since it may quote people's values. Look for rows that do not fit their "
            "column's type, broken text encoding, or a damaged file.",
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
    except Exception as error:
        kind = type(error).__name__
    # Outside of the except block, so that the first error is not even the context of this one.
    raise instead(kind)

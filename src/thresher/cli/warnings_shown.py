"""Python's warnings on the command line: a line on standard error each, in the words of this door."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from thresher.cli.output import errors, say
from thresher.errors import WeakGuarantee

HOW_TO_SWITCH_OFF = "To switch this warning off: thresher --no-warnings, before the command."


@contextlib.contextmanager
def warnings_shown() -> Iterator[None]:
    """Inside, warnings of Thresher are shown like this; others as Python shows them."""
    with warnings.catch_warnings():
        as_usual = warnings.showwarning

        def show(message: Warning | str, *given: Any, **more: Any) -> None:
            if isinstance(message, WeakGuarantee):
                said(WeakGuarantee.code, f"{message.reason} {HOW_TO_SWITCH_OFF}")
            else:
                as_usual(message, *given, **more)

        warnings.showwarning = show
        yield


def said(code: str, text: str) -> None:
    """A warning on standard error."""
    say(Text.assemble(("warning", "bold yellow"), f" ({code}): {text}"), on=errors)


def switch_off() -> None:
    """Show no `WeakGuarantee` while this command runs."""
    warnings.simplefilter("ignore", WeakGuarantee)


def switched_off() -> bool:
    """Whether `--no-warnings` was given."""
    return any(each[0] == "ignore" and each[2] is WeakGuarantee for each in warnings.filters)

"""Where something that may take seconds is computed: here, or in another process; and on whose behalf."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

Compute = Callable[..., Any]
"""Calls a function of this package with arguments, and returns what it returns or raises what it raises."""

_caller: ContextVar[bytes] = ContextVar("caller", default=b"")


def here(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in this process."""
    return function(*arguments)


@contextlib.contextmanager
def on_behalf_of(caller: bytes) -> Iterator[None]:
    """Say who asked for what is computed in this block, and in threads that are started in it."""
    before = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(before)


def current_caller() -> bytes:
    """Who asked for what is being computed: a token's hash; empty where nobody was named."""
    return _caller.get()

"""Where functions that may take seconds run: in this process or in another one; and for which caller."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

Compute = Callable[..., Any]
"""Calls a function of this package with arguments, here or elsewhere; its result or its error comes back."""

_caller: ContextVar[bytes] = ContextVar("caller", default=b"")


def here(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in this process."""
    return function(*arguments)


@contextlib.contextmanager
def on_behalf_of(caller: bytes) -> Iterator[None]:
    """Name the caller for whom this block computes, and the threads that are started in it."""
    before = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(before)


def current_caller() -> bytes:
    """The caller of the current computation: the hash of a token; empty where nobody was named."""
    return _caller.get()

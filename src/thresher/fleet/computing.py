"""Where something that may take seconds is computed: here, or in another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Compute = Callable[..., Any]
"""Calls a function of this package with arguments, and returns what it returns or raises what it raises."""


def here(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in this process."""
    return function(*arguments)

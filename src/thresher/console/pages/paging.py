"""Long lists, one page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_ROWS = 50


def page_number(text: str) -> int:
    """A page's number from an address; anything else is the first page."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1


def paged(rows: Sequence[Any], asked: str, each: int = _ROWS) -> dict[str, Any]:
    """One page for a template: its `rows`, its `number` and the `last` number. `asked` is the number in the address."""
    last = max(1, -(-len(rows) // each))
    number = min(max(page_number(asked), 1), last)
    return {"rows": rows[(number - 1) * each : number * each], "number": number, "last": last}

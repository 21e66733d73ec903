"""The combining marks of which text may have no more than 30 in a row, as ranges of code points."""

from __future__ import annotations

from typing import Any

from thresher.questions.normal_form import mark_ranges


def marks() -> list[dict[str, Any]]:
    """Each range with its first and its last code point, in hexadecimal."""
    return [{"first": f"{first:04X}", "last": f"{last:04X}"} for first, last in mark_ranges()]

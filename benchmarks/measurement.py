"""What a benchmark reports."""

from __future__ import annotations

from typing import TypedDict


class Measurement(TypedDict):
    """One number; `target` is None where a number is only there to compare with."""

    name: str
    value: float
    unit: str
    target: float | None
    note: str

"""What a benchmark reports, and the most memory that a process has had."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypedDict


class Measurement(TypedDict):
    """One number; `target` is None where a number is only there to compare with."""

    name: str
    value: float
    unit: str
    target: float | None
    note: str


def peak_mb(process: int | str = "self") -> float:
    """The most memory that a process has had, in MB.

    Not `getrusage`, in which a process begins with the peak of the one that started it.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024

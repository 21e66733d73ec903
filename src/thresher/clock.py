"""Time as an argument: the roles never read the machine's clock themselves."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since 1970, UTC."""

    def now(self) -> float:
        """The time."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """The time."""
        return time.time()

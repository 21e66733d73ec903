"""How long the search for a lonely value is: a little in every run, as long as one likes with THRESHER_LONELY=100."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, Phase, settings

TIMES = max(1, int(os.environ.get("THRESHER_LONELY", "1")))
"""By how much the number of examples is multiplied."""


def bounded(examples: int) -> Any:
    """Settings for so many examples. Without THRESHER_LONELY they are the same ones in every run."""
    return settings(
        max_examples=examples * TIMES,
        deadline=None,
        database=None,
        derandomize=TIMES == 1,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )

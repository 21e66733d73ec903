"""Guarantees that are too weak to mean much: allowed, since a caller may know why, and never without a word.

The total over all rounds counts, as a plan or a budget states it. Both limits are far above what is usual.
"""

from __future__ import annotations

import functools
import math
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec

from thresher.errors import WeakGuarantee

if TYPE_CHECKING:
    from thresher.privacy.plans import Plan

P = ParamSpec("P")

LARGEST_EPSILON = 10
SMALLEST_DELTA = 1e-3


def weakness(epsilon: float, delta: float) -> str:
    """Why a guarantee is weak and what to choose, in some sentences; empty where it is not.

    Edge cases: an epsilon of 10 is not weak, a delta of 1/1000 is.
    """
    found = []
    if epsilon > LARGEST_EPSILON:
        found.append(
            f"epsilon = {epsilon:g} is above {LARGEST_EPSILON}: what one unit holds may make an answer up to "
            f"e^{epsilon:g} times as likely (e^{LARGEST_EPSILON} is {math.exp(LARGEST_EPSILON):,.0f}), so whoever "
            "suspects what it holds can become almost certain. Usual are 0.1 to 3."
        )
    if delta >= SMALLEST_DELTA:
        found.append(
            f"delta = {delta:g} is 1/1000 or more: whoever published each unit's value openly with a probability of "
            f"1 in {1 / delta:,.0f} would keep such a guarantee. Choose a delta well below one in the number of units, "
            "as 1e-8."
        )
    return " ".join(found)


def warn_if_weak(epsilon: float, delta: float) -> None:
    """Draw a `WeakGuarantee`, one for both limits, at the line outside of Thresher that asked for it."""
    if said := weakness(epsilon, delta):
        warnings.warn(WeakGuarantee(said), stacklevel=_callers() + 1)


def warning_if_weak(planner: Callable[P, Plan]) -> Callable[P, Plan]:
    """A function that makes plans, as the public `plan`, which warns where the plan is weak."""

    @functools.wraps(planner)
    def plan(*given: P.args, **named: P.kwargs) -> Plan:
        made = planner(*given, **named)
        warn_if_weak(made.epsilon, made.delta)
        return made

    plan.__name__ = plan.__qualname__ = "plan"
    return plan


def _callers() -> int:
    """How many frames there are between the caller of this function and the first one that is not Thresher's."""
    number, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "thresher":
        number, frame = number + 1, frame.f_back
    return number

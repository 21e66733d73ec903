"""Whether a plan keeps what is stated of it: computed anew, once for each plan, and remembered good or bad.

This is the expensive part of checking a round: up to seconds for a plan of many rounds. Devices therefore do it last,
and only a few times a visit (`device_effort`).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

from thresher.errors import ThresherError
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan
from thresher.privacy.rates import Rates, contact_list_guarantee, injected_guarantee

Stated: TypeAlias = tuple[Guarantee, Guarantee | None]
"""What a round states against whoever knows who was contacted and, from version 2 on, whoever can add reports."""
_KEPT = 256
_verdicts: OrderedDict[tuple[Plan, Rates, Stated], bool] = OrderedDict()


def known(plan: Plan, rates: Rates, stated: Stated) -> bool | None:
    """What `holds` said of these before, or None."""
    return _verdicts.get((plan, rates, stated))


def holds(plan: Plan, rates: Rates, stated: Stated) -> bool:
    """Whether the plan's delta and the stated guarantees are what rates, threshold and rounds give.

    Guarantee: recomputed once for many rounds and many devices of this process, also where the answer is no.
    """
    verdict = known(plan, rates, stated)
    if verdict is None:
        verdict = _verdicts[plan, rates, stated] = _recomputed(plan, rates, stated)
        while len(_verdicts) > _KEPT:
            _verdicts.popitem(last=False)
    return verdict


def _recomputed(plan: Plan, rates: Rates, stated: Stated) -> bool:
    try:
        plan.verify()
        contact_list, injected = stated
        return contact_list == contact_list_guarantee(plan, rates) and (
            injected is None or injected == injected_guarantee(plan, rates)
        )
    except (ThresherError, TypeError, ValueError, ArithmeticError):
        return False

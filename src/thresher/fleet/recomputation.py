"""Whether a plan keeps what is stated of it: computed anew, once for each plan, and remembered good or bad.

This is the expensive part of checking a round: up to seconds for a plan of many rounds. Devices therefore do it last,
and only a few times a visit (`device_effort`).
"""

from __future__ import annotations

from collections import OrderedDict

from thresher.errors import ThresherError
from thresher.fleet.rates import Rates, contact_list_guarantee
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan

_KEPT = 256
_verdicts: OrderedDict[tuple[Plan, Rates, Guarantee], bool] = OrderedDict()


def known(plan: Plan, rates: Rates, contact_list: Guarantee) -> bool | None:
    """What `holds` said of these before, or None."""
    return _verdicts.get((plan, rates, contact_list))


def holds(plan: Plan, rates: Rates, contact_list: Guarantee) -> bool:
    """Whether the plan's delta and the stated contact-list guarantee are what rate, threshold and rounds give.

    Guarantee: recomputed once for many rounds and many devices of this process, also where the answer is no.
    """
    verdict = known(plan, rates, contact_list)
    if verdict is None:
        verdict = _verdicts[plan, rates, contact_list] = _recomputed(plan, rates, contact_list)
        while len(_verdicts) > _KEPT:
            _verdicts.popitem(last=False)
    return verdict


def _recomputed(plan: Plan, rates: Rates, contact_list: Guarantee) -> bool:
    try:
        plan.verify()
        return contact_list == contact_list_guarantee(plan, rates)
    except (ThresherError, TypeError, ValueError, ArithmeticError):
        return False

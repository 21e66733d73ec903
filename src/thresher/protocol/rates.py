"""How a plan's sampling rate is split into the rates of the three coins, and which plans a fleet accepts."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Literal, get_args

from thresher.errors import InvalidSetting
from thresher.privacy.plans import Plan
from thresher.privacy.rates import CONTACT_BITS, Rates, check_contacted
from thresher.privacy.settings import dyadic
from thresher.privacy.whole_numbers import ONE
from thresher.protocol.readable import LARGEST_THRESHOLD, MOST_ROUNDS

SampledBy = Literal["aggregator", "device"]
SAMPLED_BY: SampledBy = "aggregator"
"""Who tosses the coins by default: what is promised then also holds against whoever adds devices or reports."""


def check_bounded(plan: Plan) -> None:
    """Refuse plans that no query needs and whose guarantee takes long to recompute, as every device does."""
    if not (plan.threshold <= LARGEST_THRESHOLD and plan.epsilon >= 1e-4 and plan.rounds <= MOST_ROUNDS):
        raise InvalidSetting(
            "plan",
            f"must have a threshold of at most {LARGEST_THRESHOLD:,}, an epsilon of at least 1e-4, "
            f"at most {MOST_ROUNDS:,} rounds",
        )
    if not plan.rounds * plan.contributions <= MOST_ROUNDS:
        raise InvalidSetting(
            "contributions", f"times {plan.rounds:,} rounds must be at most {MOST_ROUNDS:,} in a fleet"
        )


def share(plan: Plan, contact_rate: float = 1.0, sampled_by: SampledBy = SAMPLED_BY) -> tuple[Rates, Plan]:
    """Split a plan's rate into three rates; returns them and the plan for their exact product.

    Guarantee: the product is at most the plan's rate, and a smaller rate never has a larger delta, so the returned plan
    keeps the total (epsilon, delta) of the given one.
    """
    check_bounded(plan)
    if not plan.sampling_rate <= contact_rate <= 1:
        raise InvalidSetting(
            "contact_rate",
            f"must be from the plan's sampling rate, {plan.sampling_rate:.4g}, to 1",
            hint="Devices that are not contacted cannot be sampled.",
        )
    if sampled_by not in get_args(SampledBy):
        raise InvalidSetting("sampled_by", "must be 'aggregator' or 'device'")
    contact = ONE if contact_rate == 1 else int(dyadic(contact_rate, significant_bits=CONTACT_BITS) * ONE)
    if not contact:
        raise InvalidSetting("contact_rate", "must be at least 2^-32")
    kept = math.floor(Fraction(plan.sampling_rate) * ONE * ONE / contact)
    if not kept:
        raise InvalidSetting("contact_rate", "is so large that the devices' own rate would be below 2^-32")
    kept = min(kept, ONE)
    rates = Rates(contact, kept, ONE) if sampled_by == "device" else Rates(contact, ONE, kept)
    check_contacted(plan, rates)
    return rates, replace(plan, sampling_rate=float(rates.sampling_rate))

"""How a plan's sampling rate is shared out: contact × device × aggregator = p, exactly.

Each factor is a whole number of 2^-32. A contact rate has at most 20 significant bits and the factor it is multiplied
with at most 32, so their product has at most 52: it fits a float and the 64 bits that coins compare with, and the
plan's guarantee is computed for the very rate that is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, get_args

from thresher.errors import InvalidSetting
from thresher.privacy.guarantee import Guarantee, delta
from thresher.privacy.plans import Plan
from thresher.privacy.settings import dyadic

SampledBy = Literal["device", "aggregator"]
ONE = 1 << 32
"""The numerator of a rate of 1."""
MOST_ROUNDS = 1_000
"""Of one query in a fleet."""
_CONTACT_BITS = 20


@dataclass(frozen=True, slots=True)
class Rates:
    """Three numerators over 2^32."""

    contact: int
    device: int
    aggregator: int

    def __post_init__(self) -> None:
        if not all(1 <= rate <= ONE for rate in (self.contact, self.device, self.aggregator)):
            raise InvalidSetting("rates", "must be whole numbers of 2^-32, above 0 and at most 1")
        if self.device != ONE and self.aggregator != ONE:
            raise InvalidSetting("rates", "must sample at the device or at the aggregator, not at both")

    @property
    def sampling_rate(self) -> Fraction:
        """The product: the probability that a device's answer is counted, if it completes."""
        return Fraction(self.contact * self.device * self.aggregator, ONE**3)

    @property
    def kept(self) -> float:
        """The probability that the answer of a device that was contacted and completed is counted."""
        return self.device * self.aggregator / ONE**2


def check_bounded(plan: Plan) -> None:
    """Refuse plans that no query needs and whose guarantee takes long to recompute: every device does that."""
    if not (plan.threshold <= 100_000 and plan.epsilon >= 1e-4 and plan.rounds <= MOST_ROUNDS):
        raise InvalidSetting(
            "plan",
            f"must have a threshold of at most 100,000, an epsilon of at least 1e-4, at most {MOST_ROUNDS:,} rounds",
        )


def share(plan: Plan, contact_rate: float = 1.0, sampled_by: SampledBy = "device") -> tuple[Rates, Plan]:
    """The factors for a plan, and the plan for their product.

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
        raise InvalidSetting("sampled_by", "must be 'device' or 'aggregator'")
    contact = ONE if contact_rate == 1 else int(dyadic(contact_rate, significant_bits=_CONTACT_BITS) * ONE)
    if not contact:
        raise InvalidSetting("contact_rate", "must be at least 2^-32")
    kept = math.floor(Fraction(plan.sampling_rate) * ONE * ONE / contact)
    if not kept:
        raise InvalidSetting("contact_rate", "is so large that the devices' own rate would be below 2^-32")
    kept = min(kept, ONE)
    rates = Rates(contact, kept, ONE) if sampled_by == "device" else Rates(contact, ONE, kept)
    return rates, replace(plan, sampling_rate=float(rates.sampling_rate))


def contact_list_guarantee(plan: Plan, rates: Rates) -> Guarantee:
    """What holds against somebody who knows who was contacted: the same epsilon at the rate p ÷ contact.

    Edge cases: where everybody is contacted it is the plan's own; where every contacted device is sampled nothing
    is guaranteed, and delta is 1.
    """
    if rates.contact == ONE:
        return plan.guarantee
    if rates.kept == 1:
        return Guarantee(plan.epsilon, 1.0, plan.adjacency, plan.rounds)
    worst = delta(
        sampling_rate=rates.kept,
        threshold=plan.threshold,
        epsilon=plan.epsilon,
        adjacency=plan.adjacency,
        rounds=plan.rounds,
    )
    return Guarantee(plan.epsilon, max(worst, plan.delta), plan.adjacency, plan.rounds)

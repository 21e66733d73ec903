"""Who tosses which coins: contact × device × aggregator = p, exactly, and what is guaranteed against whom.

Each factor is a whole number of 2^-32. A contact rate has at most 20 significant bits and the factor it is multiplied
with at most 32, so their product has at most 52: it fits a float and the 64 bits that coins compare with, and the
plan's guarantee is computed for the very rate that is used.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from thresher.errors import InvalidSetting
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan, delta_reached
from thresher.privacy.units import DEVICE
from thresher.privacy.whole_numbers import ONE

CONTACT_BITS = 20
"""Significant bits of a contact rate, at most."""
Adversary = Literal["analyst", "contact_list", "injected"]
"""Whom a guarantee holds against: the keys of `AGAINST`, which says it in words."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Three numerators over 2^32: the coins of the collector, of each device, and of the aggregator."""

    contact: int
    device: int
    aggregator: int

    def __post_init__(self) -> None:
        for rate in (self.contact, self.device, self.aggregator):
            if type(rate) is not int or not 1 <= rate <= ONE:
                raise InvalidSetting("rates", "must be whole numbers of 2^-32, above 0 and at most 1")
        if self.device != ONE and self.aggregator != ONE:
            raise InvalidSetting("rates", "must sample at the device or at the aggregator, not at both")
        if not (self.contact // (self.contact & -self.contact)).bit_length() <= CONTACT_BITS:
            raise InvalidSetting("rates", f"must have a contact rate of at most {CONTACT_BITS} significant bits")

    @property
    def sampling_rate(self) -> Fraction:
        """The product: the probability that a device's answer is counted, if it completes."""
        return Fraction(self.contact * self.device * self.aggregator, ONE**3)

    @property
    def kept(self) -> float:
        """The probability that the answer of a device that was contacted and completed is counted."""
        return self.device * self.aggregator / ONE**2

    def against(self, whom: Adversary) -> float:
        """The rate of those coins that protect against an adversary, exactly; 1 where none does."""
        match whom:
            case "analyst":
                return float(self.sampling_rate)
            case "contact_list":
                return self.kept
            case "injected":
                return self.aggregator / ONE


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What a plan whose coins are tossed at these rates guarantees one device, and against whom (`AGAINST`)."""

    analyst: Guarantee
    contact_list: Guarantee
    injected: Guarantee

    @classmethod
    def of(cls, plan: Plan, rates: Rates) -> Guarantees:
        """All three, each computed for the coins that count against its adversary.

        Edge cases: where those are all coins, it is what the plan states, which `Plan.verify` recomputes. Raises as
        `check_contacted` does.
        """
        check_contacted(plan, rates)
        analyst = plan.stated.for_unit(DEVICE)
        return cls(analyst, contact_list_guarantee(plan, rates), injected_guarantee(plan, rates))

    def against(self) -> dict[str, Guarantee]:
        """Each guarantee under the adversary whom it holds against."""
        return {whom: getattr(self, name) for name, whom in AGAINST.items()}

    def against_in_words(self) -> list[str]:
        """A line for each guarantee, with all adversaries whom it holds against."""
        held: dict[str, list[str]] = {}
        for whom, guarantee in self.against().items():
            held.setdefault(str(guarantee), []).append(f"against {whom}")
        lines = [f"{', '.join(whom[:-1])}{' and ' * (len(whom) > 1)}{whom[-1]}" for whom in held.values()]
        return [f"{line.capitalize()}: {each}." for line, each in zip(lines, held, strict=True)]

    def in_words(self) -> list[str]:
        """The promise, then what of it holds against those who know or can do more."""
        return [self.analyst.in_words(), self._knowing(), self._adding()]

    def _knowing(self) -> str:
        if self.contact_list == self.analyst:
            return "The same holds against somebody who also knows who was contacted, since every device is contacted."
        return f"Against somebody who also knows who was contacted: {self.contact_list}."

    def _adding(self) -> str:
        if not self.injected.delta < 1:
            return (
                "Whoever can add devices or reports can test what one device holds: nothing is promised against them, "
                "since the aggregator tosses no coin."
            )
        if self.injected == self.analyst:
            return "The same holds against whoever can add devices or reports, since the aggregator tosses the coins."
        return f"Against whoever can add devices or reports: {self.injected}."


def check_contacted(plan: Plan, rates: Rates) -> None:
    """Refuse a contact coin where several values of a device count, each of which needs a coin of its own.

    The contact coin is one coin for all values of a device: they would be counted or left out together, and the rate p
    would promise too much (docs/protocol.md, section 2).
    """
    if plan.contributions > 1 and rates.contact != ONE:
        raise InvalidSetting(
            "contact_rate",
            "must be 1 where contributions are more than 1",
            hint="The contact coin would be one coin for all values of a device, and each value needs its own.",
        )


AGAINST = {
    "analyst": "whoever sees the release",
    "contact_list": "somebody who also knows who was contacted",
    "injected": "whoever can add devices or reports",
}
"""The adversary of each guarantee, in words; the keys are the fields of `Guarantees`."""


def contact_list_guarantee(plan: Plan, rates: Rates) -> Guarantee:
    """What holds against somebody who knows who was contacted: the same epsilon at the rate p ÷ contact.

    Edge cases: where everybody is contacted it is the plan's own; where every contacted device is sampled nothing
    is guaranteed, and delta is 1.
    """
    return guarantee_against("contact_list", plan, rates)


def injected_guarantee(plan: Plan, rates: Rates) -> Guarantee:
    """What holds against whoever can add reports: the same epsilon at the aggregator's own rate.

    That is somebody with devices of their own, or a collector that seals reports itself, withholds others and knows who
    was contacted. No coin protects against them but the aggregator's, which thins the target's report and theirs alike.

    Guarantee: delta is never below that of `contact_list_guarantee`: the aggregator's rate is at least p ÷ contact.
    Edge cases: where the aggregator tosses no coin nothing is guaranteed, and delta is 1.
    Reference: docs/privacy.md, section 3; docs/protocol.md, section 6.
    """
    return guarantee_against("injected", plan, rates)


def guarantee_against(whom: Adversary, plan: Plan, rates: Rates) -> Guarantee:
    """What holds against an adversary: the plan's epsilon, and the delta at the rate of the coins that protect."""
    return _at_rate(plan, rates.against(whom))


@functools.lru_cache(maxsize=256)
def _at_rate(plan: Plan, rate: float) -> Guarantee:
    """What the plan's threshold and rounds guarantee where only coins of this rate count.

    Many devices may share this process: computed once for a plan and a rate.
    """
    if rate == plan.sampling_rate:
        return plan.stated.for_unit(DEVICE)
    if rate == 1:
        return replace(plan.stated, delta=1.0, unit=DEVICE)
    worst = max(delta_reached(plan, rate), plan.delta)
    return replace(plan.stated, delta=worst, unit=DEVICE)

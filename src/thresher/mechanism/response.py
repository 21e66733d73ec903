"""The numbers of a fleet's round, and its response: the numbers together with the rates of the round's coins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from thresher.errors import InvalidFormat, InvalidSetting, VerificationFailed
from thresher.privacy.plans import Plan
from thresher.privacy.rates import Rates, check_contacted
from thresher.privacy.settings import check_count
from thresher.privacy.whole_numbers import ONE

_COINS = ("contact_rate", "device_rate", "aggregator_rate")
_COINS_OF_SOMEBODY = ("contact_rate", "kept_rate")


def stands_for(responses: Iterable[Response | None]) -> str | None:
    """For whom the numbers of an answer stand, in words; None for a table, where they stand for everybody in it.

    An estimate divides by the part of the asked devices that was sampled, so it stands for those that checked in while
    the round was open: few where a round closes early. Those that completed it are taken for a random part of them.
    The numbers of several rounds stand for the devices of the round that asked the most; see `common_rates`.
    """
    known = [response for response in responses if response is not None]
    if not known:
        return None
    most, completed = max(each.asked for each in known), span([each.completed for each in known])
    if any(each.asked < most for each in known):
        return (
            f"the {most:,} devices that checked in while the round with the most devices was open, "
            f"from the {completed} devices that completed each round"
        )
    when = "the round was" if len(known) == 1 else "each round was"
    return f"the {most:,} devices that checked in while {when} open, from the {completed} of them that completed it"


def span(numbers: Sequence[int]) -> str:
    """Numbers of several rounds as the least and the greatest of them; just one where all are equal."""
    least, most = min(numbers), max(numbers)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


@dataclass(frozen=True, slots=True)
class RoundNumbers:
    """How many devices took part in one round of a fleet, as they were counted or stored; `Response` checks them.

    Guarantee: none of the numbers depends on what a device holds, since those without an answer complete too
    (docs/protocol.md, section 4). They are public.
    """

    asked: int
    """Devices that checked in while the round was open."""
    contacted: int
    """Asked devices that the round was shown to."""
    completed: int
    """Contacted devices whose report was taken."""

    @property
    def numbers(self) -> dict[str, int]:
        """The three numbers by name."""
        return {name: getattr(self, name) for name in _NUMBERS}


_NUMBERS = tuple(field.name for field in fields(RoundNumbers))


@dataclass(frozen=True, slots=True)
class Response(RoundNumbers):
    """The numbers of one round, checked, and the rates of its coins.

    All who could have been sampled are the `asked`; of them completed ÷ asked were, each kept with `kept_rate`.
    `coins_recorded` is False for a release that Thresher 0.1.0 stored, which says how many were kept and not whether
    the devices or the aggregator tossed for it: `rates` then has the devices', against which less is guaranteed.
    """

    rates: Rates
    coins_recorded: bool = True

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            check_count(getattr(self, name), setting=name)
        if not self.completed <= self.contacted <= self.asked:
            raise InvalidSetting("completed", "must be at most contacted, and that at most asked")
        if not isinstance(self.rates, Rates):
            raise InvalidSetting("rates", "must be the rates of three coins")

    @classmethod
    def of(cls, numbers: RoundNumbers, rates: Rates) -> Response:
        """The response of a round with these numbers, whose coins were tossed at these rates."""
        return cls(numbers.asked, numbers.contacted, numbers.completed, rates)

    @property
    def kept_rate(self) -> float:
        """The probability that the answer of a device that completed was counted."""
        return self.rates.kept

    @property
    def rate(self) -> float | None:
        """The part of the asked devices that was sampled; None where nobody completed."""
        return self.kept_rate * self.completed / self.asked if self.completed else None

    @property
    def coins(self) -> dict[str, int]:
        """Who tossed at which rate, in whole numbers of 2^-32."""
        if self.coins_recorded:
            return dict(zip(_COINS, (self.rates.contact, self.rates.device, self.rates.aggregator), strict=True))
        return dict(zip(_COINS_OF_SOMEBODY, (self.rates.contact, self.rates.device), strict=True))

    def verify(self, plan: Plan) -> None:
        """Raise `VerificationFailed` unless these are the coins of a round of this plan."""
        if self.rates.sampling_rate != plan.exact_rate:
            raise VerificationFailed("The rates of the coins that were tossed do not multiply to the plan's rate.")
        try:
            check_contacted(plan, self.rates)
        except InvalidSetting as error:
            raise VerificationFailed(f"No round of this plan can have had these coins: {error.message}") from None
        if self.rates.contact == ONE and self.contacted != self.asked:
            raise VerificationFailed("Every device was to be contacted, and not every device that was asked was.")

    def to_dict(self) -> dict[str, int]:
        """Plain values that `from_dict` reads back exactly."""
        return self.numbers | self.coins

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Response:
        """Read what `to_dict` wrote. Anything unknown, missing or out of range is an error."""
        recorded = set(content) == {*_NUMBERS, *_COINS}
        if not (recorded or set(content) == {*_NUMBERS, *_COINS_OF_SOMEBODY}):
            raise InvalidFormat("This response has missing or unknown fields.")
        rates = Rates(
            content["contact_rate"],
            content["device_rate" if recorded else "kept_rate"],
            content["aggregator_rate"] if recorded else ONE,
        )
        return cls(content["asked"], content["contacted"], content["completed"], rates, recorded)

    @classmethod
    def from_version_2(cls, content: Mapping[str, Any], plan: Plan) -> Response:
        """Read what Thresher 0.1.0 wrote: the numbers and `kept_rate`. The contact rate follows from it and the plan.

        Edge cases: `VerificationFailed` where there is no contact rate with which these devices were kept at the plan's
        rate. A `kept_rate` of 1 says that the collector's coin was the only one, and is taken only if the plan's rate
        can be a contact rate (at most 20 significant bits).
        """
        if set(content) != {*_NUMBERS, "kept_rate"}:
            raise InvalidFormat("This response has missing or unknown fields.")
        stated = content["kept_rate"]
        if isinstance(stated, bool) or not isinstance(stated, int | float) or not 0 < stated <= 1:
            raise InvalidFormat("This response has no rate at which answers were kept.")
        kept = Fraction(stated)
        contact = plan.exact_rate / kept * ONE
        try:
            if (kept * ONE).denominator != 1 or contact.denominator != 1:
                raise InvalidSetting("kept_rate", "must be a whole number of 2^-32, and so must the contact rate")
            rates = Rates(int(contact), int(kept * ONE), ONE)
        except InvalidSetting:
            raise VerificationFailed("The rate at which answers were kept does not follow from the plan.") from None
        return cls(content["asked"], content["contacted"], content["completed"], rates, coins_recorded=False)

    def to_version_2(self) -> dict[str, Any]:
        """As Thresher 0.1.0 had it in its certificates."""
        return self.numbers | {"kept_rate": self.kept_rate}

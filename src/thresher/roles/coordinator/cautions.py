"""Reasons not to ask a query: it would give nothing, or protect hardly anybody. They are known before the charge.

They follow from public numbers: how many devices were active, the policy and the attributes that the operator states,
and the ledger. Nothing here depends on what any device holds.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from thresher.device.policy import Policy
from thresher.device.spending import fit
from thresher.device.terms import Terms, terms_of
from thresher.errors import WeakGuarantee
from thresher.ledger import Entry, Ledger
from thresher.privacy.plans import Plan
from thresher.privacy.round_prices import Bounds, foreign_cost, whole_rate
from thresher.privacy.weak_guarantees import weakness
from thresher.privacy.whole_numbers import ONE, PERIOD
from thresher.protocol.analyst_messages import Caution
from thresher.roles.coordinator.admission import Admitted

_SURE, _LIKELY = 0.95, 0.5


@dataclass(frozen=True, slots=True)
class Public:
    """What is publicly known of a fleet when a query is planned."""

    active: int
    """Devices that enrolled or checked in during the last day."""
    policy: Policy
    """What devices agree to, as the operator states it; `attributes` are those that devices hold."""
    recent: tuple[int, ...] = ()
    """What each query of the policy's last period cost a device that answered it."""
    come_back: float = 0.0
    """After how many seconds devices are told to come again; 0 where that is not known."""

    @classmethod
    def of(cls, active: int, policy: Policy, ledger: Ledger, *, now: float, come_back: float = 0.0) -> Public:
        """What is known now, with the charges of this ledger. Rounds that were drawn in the policy's period count."""
        drawn = ledger.drawn_since(now - policy.period)
        recent = (
            charged_to_devices(policy, entry, drawn[entry.reference])
            for entry in ledger.history()
            if entry.reference in drawn
        )
        return cls(active, policy, tuple(recent), come_back)


def charged_to_devices(policy: Policy, entry: Entry, rounds: int) -> int:
    """What so many rounds of a ledger's entry cost a device that answered them.

    An entry has the plan's rate and not those of the three coins: this is right where every device is contacted, which
    is the default, and too low for a policy that does not rely on the contact coin. Where only the total
    (epsilon, delta) was recorded, it is the cost of the worst mechanism with that total.
    """
    if entry.sampling_rate is None or entry.threshold is None:
        return foreign_cost(Bounds(*policy.bounds), entry.epsilon, entry.delta)
    rate = whole_rate(entry.sampling_rate)
    return policy.cost(Terms(rounds, entry.contributions, entry.threshold, ONE, ONE, rate))


def cautions(admitted: Admitted, public: Public, total: Plan | None = None) -> list[Caution]:
    """What speaks against this query; an empty list if there is nothing. `total` is what a series of it costs."""
    found = [
        _weak(total or admitted.plan),
        _few_devices(admitted, public),
        _short_round(admitted, public),
        _unknown_attribute(admitted, public),
        _filtered_attribute(admitted, public),
        _refused(admitted, public),
    ]
    return [caution for caution in found if caution is not None]


def _weak(total: Plan) -> Caution | None:
    said = weakness(total.epsilon, total.delta)
    return Caution(code=WeakGuarantee.code, text=said) if said else None


def _few_devices(admitted: Admitted, public: Public) -> Caution | None:
    """Where fewer devices take part than must hold a value for it to be seen."""
    plan, completions = admitted.plan, admitted.settings.completions
    needed = plan.smallest_visible(_SURE)
    taking_part, who = public.active, _devices(public.active, "active in the last day")
    contact_rate = admitted.settings.contact_rate or 1.0
    if completions is not None and completions / contact_rate < taking_part:
        taking_part = int(completions / contact_rate)
        who = f"A round closes when {completions:,} devices have completed it"
    if taking_part >= needed:
        return None
    seen = float(plan.sees(taking_part)) if taking_part else 0.0
    return Caution(
        code="few-devices",
        text=f"{who}; a value must be held by {needed:,} to be released with 95 % probability. Even a value that all "
        f"of them hold is released with {_percent(seen)}: "
        + ("expect an empty answer." if seen < _LIKELY else "the answer may well be empty."),
    )


def _short_round(admitted: Admitted, public: Public) -> Caution | None:
    """Where a round closes before every device that is there has visited."""
    seconds = admitted.settings.seconds or 0.0
    if seconds >= public.come_back:
        return None
    return Caution(
        code="short-round",
        text=f"A round is open for {seconds:g} s, and devices visit every {public.come_back:g} s: expect about "
        f"{_percent(seconds / public.come_back)} of those that are there. {admitted.in_all}",
    )


def _unknown_attribute(admitted: Admitted, public: Public) -> Caution | None:
    known = public.policy.attributes
    asked = admitted.query.first_question.columns
    unknown = [] if known is None else [name for name in asked if name not in known]
    if not unknown:
        return None
    listed = ", ".join(sorted(known or ())[:12]) or "none"
    close = difflib.get_close_matches(unknown[0], sorted(known or ()), n=3)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"They answer about: {listed}."
    return Caution(
        code="unknown-attribute",
        text=f"Devices do not answer about {', '.join(unknown)}, as the operator lists what they hold. {hint}",
    )


def _filtered_attribute(admitted: Admitted, public: Public) -> Caution | None:
    allowed = public.policy.filterable
    refused = [] if allowed is None else [name for name in admitted.query.first_question.filters if name not in allowed]
    if not refused:
        return None
    listed = ", ".join(sorted(allowed or ())[:12]) or "none"
    return Caution(
        code="filtered-attribute",
        text=f"Devices answer no question that is filtered by {', '.join(refused)}, under the policy that the operator "
        f"states for them. They allow filters by: {listed}.",
    )


def _refused(admitted: Admitted, public: Public) -> Caution | None:
    policy, terms = public.policy, terms_of(admitted.plan, admitted.rates)
    if objection := policy.objection(terms):  # attributes have a caution of their own
        return Caution(
            code="policy",
            text="Devices will not answer: under the policy that the operator states for them, "
            f"{policy.in_words(objection)}.",
        )
    if not fit([policy.cost(terms), *public.recent]):
        return Caution(
            code="device-budget",
            text=f"Devices that answered the queries of the last {policy.period_days:g} days will not answer this one: "
            f"their own budget (epsilon {policy.period_epsilon:g}, delta {policy.period_delta:g}) has too little left.",
        )
    return None


def series_cautions(release: Admitted, public: Public, releases: int, total: Plan) -> list[Caution]:
    """What speaks against a series; `releases` is how many it has in a period of the policy, `total` what it costs."""
    found, policy = cautions(release, public, total), public.policy
    terms = terms_of(release.plan, release.rates)
    answered = max(PERIOD // policy.cost(terms), 1)
    if policy.objection(terms) is None and answered < releases:
        found.append(
            Caution(
                code="device-budget",
                text=f"Of about {releases:,} releases in {policy.period_days:g} days, a device answers {answered:,}: "
                f"then its own budget (epsilon {policy.period_epsilon:g}, delta {policy.period_delta:g}) has too "
                "little left. Ask less often, or with a smaller epsilon.",
            )
        )
    return found


def _devices(number: int, what: str) -> str:
    return f"No device was {what}" if not number else f"{number:,} device{'s were' if number > 1 else ' was'} {what}"


def _percent(part: float) -> str:
    return "less than 0.1 %" if part < 0.001 else f"{100 * part:.3g} %"

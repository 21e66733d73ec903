"""The preview of a query: what it would cost, guarantee and show, before anything is charged."""

from __future__ import annotations

from thresher.ledger.durations import in_words
from thresher.privacy.budget import Budget, Charge
from thresher.protocol.analyst_messages import PlanPreview, QueryRequest, RoundSettings
from thresher.roles.coordinator.admission import Admitted, admit
from thresher.roles.coordinator.cautions import Public, cautions

_SIZES = (100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000)


def preview(request: QueryRequest | bytes, defaults: RoundSettings, budget: Budget, public: Public) -> PlanPreview:
    """The preview of a request, which is checked first, in a fleet of which this is known."""
    return preview_admitted(admit(request, defaults), budget, public)


def preview_admitted(admitted: Admitted, budget: Budget, public: Public) -> PlanPreview:
    """The preview of a query that was checked."""
    plan, query = admitted.plan, admitted.query
    contact_rate = admitted.settings.contact_rate or 1.0
    charge = budget.price(plan)
    return PlanPreview(
        verb=query.verb,
        what=query.what,
        sampling_rate=plan.sampling_rate,
        threshold=plan.threshold,
        rounds=plan.rounds,
        contact_rate=contact_rate,
        devices=public.active,
        contacted=public.active * contact_rate,
        smallest_visible=plan.smallest_visible(),
        sees=[(size, float(plan.sees(size))) for size in _SIZES],
        relative_error=[(size, plan.relative_error(size)) for size in _SIZES],
        guarantees=admitted.guarantees,
        words=_words(admitted),
        cost_epsilon=plan.epsilon,
        cost_delta=plan.delta,
        left_epsilon=budget.left_epsilon,
        left_delta=budget.left_delta,
        fits=budget.allows(charge),
        takes=budget.takes(charge),
        left_share=budget.left_share,
        affords=budget.affords(charge),
        price=price_in_words(budget, charge),
        warnings=cautions(admitted, public),
        steps=admitted.steps,
        seconds=admitted.lasting,
    )


def _words(admitted: Admitted) -> list[str]:
    """The query in sentences."""
    plan, settings = admitted.plan, admitted.settings
    rounds = "One round" if plan.rounds == 1 else f"Each of up to {plan.rounds} rounds"
    coin = "each tosses its own coin" if settings.sampled_by == "device" else "the aggregator tosses their coins"
    guarantees = admitted.guarantees.values
    whole = settings.contact_rate == 1
    who = "every device that checks in" if whole else f"{settings.contact_rate:.4g} of the devices that check in"
    return [
        f"{rounds} contacts {who}; {coin}, and {plan.sampling_rate:.4g} of all are counted.",
        f"Counts below {plan.threshold} are dropped. A value that {plan.smallest_visible():,} devices hold is released "
        "with 95 % probability.",
        *guarantees.in_words(),
        admitted.in_all,
        f"A round is open for {in_words(settings.seconds or 0)}"
        + _closes_early(settings)
        + ". Numbers stand for the devices that check in until then, not for the whole fleet.",
    ]


def _closes_early(settings: RoundSettings) -> str:
    """When a round closes before its time is over."""
    enough = "" if settings.completions is None else f", or until {settings.completions:,} devices have completed it"
    return enough + (", or until every device that is active has answered" if settings.until_all else "")


def price_in_words(budget: Budget, charge: Charge) -> str:
    """What the query takes of the budget, in a sentence."""
    if not budget.allows(charge):
        return budget.exceeded(charge).message
    back = (
        "Nothing is given back, whatever comes of it."
        if budget.filter is None
        else "Rounds that are never asked are given back."
    )
    return f"{budget.in_words(charge)} {back}"

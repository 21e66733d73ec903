"""Policies: a device believes nothing that it can recompute, and gives away no more than it agreed to."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from device_cases import KEY, ONCE, PLAN, START, configuration, terms_of

from thresher.device.policy import Policy
from thresher.device.spending import Charged, Spend
from thresher.device.terms import query_key, read_terms
from thresher.errors import InvalidFormat, InvalidSetting
from thresher.privacy.budget import Charge
from thresher.privacy.guarantee import delta
from thresher.privacy.plans import Plan
from thresher.protocol import messages
from thresher.protocol.sealing import PrivateKey
from thresher.questions import Among, Filtered, Values, Where

DAY = 86_400.0


def refusal(under: Policy, of: messages.RoundConfiguration, spends: dict[str, Spend] | None = None, now: float = START):
    terms, charged = terms_of(of), Charged(under.budget, under.counting(spends or {}, set(), now))
    return under.refusal(terms, charged, now) or under.overspending(terms, charged)


def answered(under: Policy, spends: dict[str, Spend], of: messages.RoundConfiguration, now: float = START) -> None:
    """Answer a round, if the policy allows it."""
    if refusal(under, of, spends, now) is None:
        known = under.counting(spends, set(), now).get(query_key(of))
        spends[query_key(of)] = under.spend(terms_of(of), known, now)


def test_the_defaults_answer_an_ordinary_round_and_are_finite():
    assert refusal(Policy(), configuration()) is None
    assert Policy().max_epsilon <= 4
    assert Policy().max_delta <= 1e-5
    assert Policy().period_epsilon < 100
    assert Policy().min_threshold >= 5


@pytest.mark.parametrize(
    ("under", "reason"),
    [
        (Policy(max_epsilon=0.99), "epsilon"),
        (Policy(max_delta=9.9e-9), "delta"),
        (Policy(min_threshold=13), "threshold"),
        (Policy(attributes=frozenset({"colour"})), "attribute"),
        (Policy(attributes=frozenset()), "attribute"),
        (Policy(pinned_key=bytes(32)), "key"),
        (Policy(period_epsilon=0.2), "budget"),
        (Policy(period_epsilon=0.8, period_delta=5e-9), "budget"),
    ],
)
def test_each_limit_refuses(under, reason):
    assert reason in refusal(under, configuration())


@pytest.mark.parametrize(
    "under",
    [
        Policy(max_epsilon=1, max_delta=1e-8, min_threshold=12, period_epsilon=1, period_delta=1e-8),
        Policy(attributes=frozenset({"word", "colour"})),
        Policy(attributes={"word"}),
        Policy(pinned_key=KEY.public.raw),
    ],
)
def test_each_limit_allows_what_just_meets_it(under):
    assert refusal(under, configuration()) is None


def test_attributes_of_filters_must_be_allowed_too():
    filtered = configuration(question=Filtered(Values(("word",)), Where((Among("colour", ("red",)),))))
    reason = "it filters by an attribute that is not allowed"
    assert refusal(Policy(), filtered) is None
    assert refusal(Policy(attributes=frozenset({"word"})), filtered) == reason
    assert refusal(Policy(attributes=frozenset({"word", "colour"})), filtered) is None
    assert refusal(Policy(filters=frozenset()), filtered) == reason
    assert refusal(Policy(filters=frozenset({"word"})), filtered) == reason
    assert refusal(Policy(attributes=frozenset({"word"}), filters={"colour"}), filtered) is None
    # What may be filtered by need not be what may be asked for.
    assert refusal(Policy(attributes=frozenset({"colour"}), filters={"colour"}), filtered) != reason
    assert refusal(Policy(filters=frozenset()), configuration()) is None
    with pytest.raises(InvalidSetting, match="set of names"):
        Policy(filters="word")


def test_all_attributes_of_a_question_must_be_allowed():
    both = configuration(question=Values(("word", "colour")))
    assert refusal(Policy(attributes=frozenset({"word"})), both) is not None
    assert refusal(Policy(attributes=frozenset({"word", "colour"})), both) is None


def test_a_substituted_key_is_refused_by_a_pin_only():
    other = configuration(key=PrivateKey.generate("other"))
    assert refusal(Policy(), other) is None
    assert refusal(Policy(pinned_key=KEY.public.raw), other) == "its key is not the pinned one"


def test_hiding_from_the_contact_list_bounds_the_larger_delta():
    half = configuration(contact_rate=0.5)
    known = delta(sampling_rate=2 / 16, threshold=12, epsilon=1.0, rounds=3)
    assert known > 1e-8  # otherwise this test shows nothing
    assert refusal(Policy(max_delta=known * 0.99, hide_from_contact_list=False), half) is None
    assert "delta" in refusal(Policy(max_delta=known * 0.99), half)
    assert refusal(Policy(max_delta=known), half) is None
    all_sampled = configuration(contact_rate=1 / 16)
    assert "delta" in refusal(Policy(max_delta=0.99), all_sampled)


def test_counting_on_the_aggregators_coins_alone():
    """Against whoever adds reports: refused where the aggregator tosses none, charged at its own rate elsewhere."""
    under = Policy(coins="aggregator")
    assert refusal(under, configuration(sampled_by="aggregator")) is None
    assert refusal(Policy(), configuration()) is None
    assert refusal(under, configuration()) == "its coins are not the aggregator's"
    assert refusal(under, configuration(contact_rate=1 / 16, sampled_by="aggregator")) is not None
    half = configuration(contact_rate=0.5, sampled_by="aggregator")
    alone = delta(sampling_rate=2 / 16, threshold=12, epsilon=1.0, rounds=3)
    assert alone > 1e-8  # otherwise this test shows nothing
    strict = {"coins": "aggregator", "hide_from_contact_list": False}
    assert "delta" in refusal(Policy(max_delta=alone * 0.99, **strict), half)
    assert refusal(Policy(max_delta=alone, **strict), half) is None
    assert Policy(**strict).cost(terms_of(half).guarantees) == (1.0, alone)
    assert Policy(hide_from_contact_list=False).cost(terms_of(half).guarantees) == (1.0, 1e-8)


# A query is charged once


def test_a_query_is_charged_once_for_all_its_rounds():
    under, spends = ONCE, {}
    for index in range(3):
        of = configuration(f"round-{index}", index=index)
        assert refusal(under, of, spends) is None
        answered(under, spends, of)
    assert [(spend.epsilon, spend.delta, spend.indexes) for spend in spends.values()] == [(1.0, 1e-8, (0, 1, 2))]
    assert "budget" in refusal(under, configuration("round-9", query="query-1"), spends)


def test_a_round_of_a_query_is_answered_once_under_any_name():
    spends: dict[str, Spend] = {}
    answered(Policy(), spends, configuration())
    assert "answered before" in refusal(Policy(), configuration("round-again"), spends)
    assert refusal(Policy(), configuration("round-1", index=1), spends) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": replace(PLAN, epsilon=1.5)},
        {"plan": replace(PLAN, delta=1e-7)},
        {"plan": replace(PLAN, threshold=13)},
        {"plan": replace(PLAN, sampling_rate=1 / 32)},
        {"plan": replace(PLAN, rounds=2)},
        {"contact_rate": 0.5},
        {"sampled_by": "aggregator"},
    ],
)
def test_a_query_cannot_change_its_terms(changes):
    spends: dict[str, Spend] = {}
    answered(Policy(), spends, configuration())
    assert "other terms" in refusal(Policy(), configuration("round-1", index=1, **changes), spends)


def test_queries_of_two_fleets_are_two_queries():
    spends: dict[str, Spend] = {}
    answered(Policy(), spends, configuration())
    answered(Policy(), spends, configuration("round-1", fleet="other"))
    assert len(spends) == 2


def test_a_charge_ends_with_its_period():
    under, spends = ONCE, {}
    answered(under, spends, configuration())
    later = configuration("round-1", query="query-1")
    assert refusal(under, later, spends, START + 30 * DAY - 1) is not None
    assert refusal(under, later, spends, START + 30 * DAY) is None
    assert refusal(under, later, spends, START - 5 * DAY) is not None  # a clock that was set back opens nothing


def test_a_query_that_goes_on_stays_charged_from_its_latest_answer():
    under, spends = ONCE, {}
    answered(under, spends, configuration())
    answered(under, spends, configuration("round-1", index=1), START + 29 * DAY)
    assert refusal(under, configuration("round-9", query="query-1"), spends, START + 31 * DAY) is not None


def test_a_query_older_than_the_period_is_charged_anew():
    under, spends = ONCE, {}
    answered(under, spends, configuration())
    answered(under, spends, configuration("round-9", query="query-1"), START + 31 * DAY)
    assert "budget" in refusal(under, configuration("round-1", index=1), spends, START + 32 * DAY)
    answered(under, spends, configuration("round-1", index=1), START + 70 * DAY)
    assert spends[query_key(configuration())].indexes == (1,)


def test_tenths_add_up_as_written():
    tenth = Charge(0.1, 1e-8, renyi=1.0, bad=0.1)  # too dear for the filter
    under = Policy(period_epsilon=0.3)
    assert under.affords([tenth] * 3)
    assert not under.affords([tenth] * 4)


# Believing nothing


def test_claims_are_recomputed():
    honest = configuration()
    lying = msgspec.structs.replace(honest, plan={**honest.plan, "threshold": 5})
    with pytest.raises(InvalidFormat):
        terms_of(lying)
    with pytest.raises(InvalidFormat):
        terms_of(lying)  # remembered as bad
    assert terms_of(honest).plan == PLAN


def test_a_key_that_nobody_can_seal_for_is_refused():
    with pytest.raises(InvalidFormat):
        terms_of(msgspec.structs.replace(configuration(), public_key="00" * 32))


def test_a_plan_is_verified_once_for_many_devices(monkeypatch):
    verified = []
    real = Plan.verify
    monkeypatch.setattr(Plan, "verify", lambda plan: verified.append(plan) or real(plan))
    plan = Plan(1 / 64, 15, 0.875, 1e-8, "replace", 2)
    bodies = [messages.encode(configuration(f"round-{index}", plan=plan, index=index)) for index in (0, 1)]
    for _ in range(50):
        for body in bodies:
            assert terms_of(messages.decode(messages.RoundConfiguration, body)).plan == plan
    assert verified == [plan]


def test_what_is_remembered_is_bounded():
    for number in range(200):
        terms_of(configuration(f"round-{number}"))
    assert read_terms.cache_info().currsize <= 64
    assert terms_of(configuration("round-3")).configuration.round == "round-3"


@pytest.mark.parametrize(
    "settings",
    [
        {"max_epsilon": 0},
        {"max_epsilon": float("nan")},
        {"max_delta": 1},
        {"period_epsilon": 0},
        {"period_epsilon": float("inf")},
        {"period_epsilon": 1e7},
        {"period_epsilon": float("nan")},
        {"period_delta": 0},
        {"period_days": 0},
        {"period_days": float("nan")},
        {"min_threshold": 0},
        {"attributes": "word"},
        {"pinned_key": b"short"},
        {"coins": "device"},
        {"coins": True},
    ],
)
def test_policies_that_make_no_sense_are_refused(settings):
    with pytest.raises(InvalidSetting):
        Policy(**settings)

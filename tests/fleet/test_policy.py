"""Policies: a device believes nothing that a server states, and gives away no more than it agreed to."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from device_cases import KEY, ONCE, PLAN, START, configuration, device, round_of, shown, take

from thresher.device.policy import Policy, Reason
from thresher.device.spending import Spend
from thresher.device.terms import Terms, query_key, terms_of
from thresher.errors import InvalidSetting
from thresher.privacy.guarantee import delta
from thresher.privacy.plans import Plan
from thresher.privacy.whole_numbers import BEYOND, ONE
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.readable import short_rounds
from thresher.protocol.sealing import PrivateKey
from thresher.questions import Among, Filtered, Values, Where

DAY = 86_400.0


def refusal(under: Policy, of: RoundConfiguration, spends: dict[str, Spend] | None = None, now: float = START):
    charged = under.charged(under.counting(spends or {}, set(), now))
    return under.refusal(round_of(of), charged, now)


def answered(under: Policy, spends: dict[str, Spend], of: RoundConfiguration, now: float = START) -> None:
    """Answer a round, if the policy allows it."""
    if refusal(under, of, spends, now) is None:
        charged = under.charged(under.counting(spends, set(), now))
        under.charge(round_of(of), charged, now)
        spends |= charged.spends


def key_of(of: RoundConfiguration) -> str:
    return query_key(round_of(of))


def test_the_defaults_answer_an_ordinary_round_and_are_finite():
    assert refusal(Policy(), configuration()) is None
    assert Policy().max_epsilon <= 4
    assert Policy().max_delta <= 1e-5
    assert Policy().period_epsilon < 100
    assert Policy().min_threshold >= 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("under", "reason"),
    [
        (Policy(max_epsilon=0.01), "limit"),
        (Policy(max_epsilon=1.0, max_delta=9.9e-18), "limit"),
        (Policy(min_threshold=13), "threshold"),
        (Policy(attributes=frozenset({"colour"})), "attribute"),
        (Policy(attributes=frozenset()), "attribute"),
        (Policy(pinned_key=bytes(32)), "key"),
        (Policy(period_epsilon=0.01), "limit"),
        (Policy(period_epsilon=0.8, period_delta=5e-18), "limit"),
    ],
)
def test_each_limit_refuses(under, reason):
    assert refusal(under, configuration()) == reason
    assert under.in_words(reason) != reason


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
    reason = "filter"
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
    assert refusal(Policy(pinned_key=KEY.public.raw), other) == "key"


@pytest.mark.slow
def test_hiding_from_the_contact_list_bounds_the_larger_delta():
    half = configuration(contact_rate=0.5)
    known = delta(sampling_rate=2 / 16, threshold=12, epsilon=1.0, rounds=3)
    assert known > 1e-8  # otherwise this test shows nothing
    assert refusal(Policy(1.0, max_delta=known * 0.99, hide_from_contact_list=False), half) is None
    assert refusal(Policy(1.0, max_delta=known * 0.99), half) == "limit"
    assert refusal(Policy(1.0, max_delta=known), half) is None
    all_sampled = configuration(contact_rate=1 / 16)
    assert refusal(Policy(max_delta=0.99), all_sampled) == "limit"


def test_counting_on_the_aggregators_coins_alone():
    """Against whoever adds reports: refused where the aggregator tosses none, charged at its own rate elsewhere."""
    under = Policy(coins="aggregator")
    assert refusal(under, configuration(sampled_by="aggregator")) is None
    assert refusal(Policy(), configuration()) is None
    assert refusal(under, configuration()) == "coins"
    assert refusal(under, configuration(contact_rate=1 / 16, sampled_by="aggregator")) is not None
    half = configuration(contact_rate=0.5, sampled_by="aggregator")
    alone = delta(sampling_rate=2 / 16, threshold=12, epsilon=1.0, rounds=3)
    assert alone > 1e-8  # otherwise this test shows nothing
    strict = {"coins": "aggregator", "hide_from_contact_list": False}
    assert refusal(Policy(1.0, max_delta=alone * 0.99, **strict), half) == "limit"
    assert refusal(Policy(1.0, max_delta=alone, **strict), half) is None
    terms = Terms.of(round_of(half))
    assert Policy(**strict).cost(terms) == Policy().cost(msgspec.structs.replace(terms, contact=ONE))
    assert Policy(hide_from_contact_list=False).cost(terms) < Policy().cost(terms)


def test_only_the_coins_that_a_policy_relies_on_protect():
    terms = Terms(1, 1, 20, 3 << 30, 5, ONE)
    assert [terms.protecting(whom) for whom in ("analyst", "contact_list", "injected")] == [4, 5, ONE]  # rounded up
    assert Policy(coins="aggregator").cost(terms) == BEYOND
    assert Policy(coins="aggregator").objection(terms) == "coins"
    assert Policy().objection(msgspec.structs.replace(terms, device=ONE)) == "limit"


# A query is charged once


def test_a_query_is_charged_once_for_all_its_rounds():
    under, spends = ONCE, {}
    for index in range(3):
        of = configuration(f"round-{index}", index=index)
        assert refusal(under, of, spends) is None
        answered(under, spends, of)
    assert [spend.indexes for spend in spends.values()] == [(0, 1, 2)]
    assert refusal(under, configuration("round-9", query="query-1"), spends) == "budget"


def test_a_round_of_a_query_is_answered_once_under_any_name():
    spends: dict[str, Spend] = {}
    answered(Policy(), spends, configuration())
    assert refusal(Policy(), configuration("round-again"), spends) == "answered"
    assert refusal(Policy(), configuration("round-1", index=1), spends) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": replace(PLAN, contributions=2)},
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
    assert refusal(Policy(), configuration("round-1", index=1, **changes), spends) == "terms"


def test_what_a_query_states_is_not_looked_at():
    """Its epsilon and delta say nothing that its rate, threshold and rounds do not."""
    spends: dict[str, Spend] = {}
    answered(Policy(), spends, configuration())
    for stated in ({"epsilon": 1.5}, {"delta": 1e-7}):
        assert refusal(Policy(), configuration("round-1", index=1, plan=replace(PLAN, **stated)), spends) is None


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
    assert refusal(under, configuration("round-1", index=1), spends, START + 32 * DAY) == "budget"
    answered(under, spends, configuration("round-1", index=1), START + 70 * DAY)
    assert spends[key_of(configuration())].indexes == (1,)


# Believing nothing


def test_what_is_stated_changes_nothing():
    """A server that lies about its guarantees is answered as if it said the truth: the device's own table counts."""
    honest = configuration()
    lying = msgspec.structs.replace(honest, round="lies", plan={**honest.plan, "epsilon": 1e-3, "delta": 1e-300})
    weak = configuration("weak", plan=Plan(0.75, 12, 1e-3, 1e-300, "replace", 3))
    core = device()
    assert take(core, shown(lying, weak)) == ["lies"]
    assert core.outcome("weak").reason == "limit"


def test_a_key_that_nobody_can_seal_for_is_refused():
    core = device()
    assert take(core, shown(msgspec.structs.replace(configuration(), public_key="00" * 32))) == []
    assert core.outcome("round-0").reason == "unreadable"


def test_what_is_remembered_is_bounded():
    for number in range(200):
        round_of(configuration(f"round-{number}"))
    assert short_rounds.cache_info().currsize <= 64
    assert round_of(configuration("round-3")).round == "round-3"


def test_every_reason_has_words():
    said = {reason: Policy().in_words(reason) for reason in Reason.__args__}
    assert len(set(said.values())) == len(said) == 12
    assert not set(said) & set(said.values())
    assert Policy().in_words("its epsilon is above 4") == "its epsilon is above 4"  # of an earlier version's state


def test_terms_of_a_plan_are_those_of_its_rounds():
    of = configuration(contact_rate=0.5)
    assert terms_of(of.planned, of.rates) == Terms.of(round_of(of))


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

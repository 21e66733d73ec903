"""Plans: within the target, not wastefully below it, and best for their objective."""

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thresher as th
from thresher.errors import InvalidFormat, InvalidSetting, Unreachable, VerificationFailed
from thresher.privacy import delta, paper
from thresher.privacy.settings import rate_numerator

ADD_REMOVE, REPLACE = "add-remove", "replace"


def spent(plan: th.Plan, factor: float = 1.0) -> float:
    return delta(
        sampling_rate=plan.sampling_rate * factor,
        threshold=plan.threshold,
        epsilon=plan.epsilon,
        adjacency=plan.adjacency,
        rounds=plan.rounds,
    )


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 8), st.floats(-14, -3), st.sampled_from([ADD_REMOVE, REPLACE]))
def test_round_trip_is_within_the_target_and_not_wastefully_below(epsilon, exponent, adjacency):
    plan = th.plan(epsilon=epsilon, delta=10**exponent, adjacency=adjacency)
    assert spent(plan) <= plan.delta
    assert spent(plan, 1.001) > plan.delta


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("rounds", [2, 10])
def test_round_trip_of_several_rounds(rounds, adjacency):
    plan = th.plan(epsilon=1.0, delta=1e-8, rounds=rounds, adjacency=adjacency)
    assert plan.verify() <= 1e-8
    assert spent(plan, 1.001) > 1e-8


# The numbers that the analysis promises at (1, 1e-8).


def test_smallest_visible_bucket_is_104_under_add_remove_and_261_by_the_papers_rule():
    plan = th.plan(epsilon=1.0, delta=1e-8, adjacency=ADD_REMOVE)
    assert plan.smallest_visible(0.95) == 104
    assert 21 <= plan.threshold <= 25
    assert 0.27 < plan.sampling_rate < 0.31
    comparison = plan.versus_paper()
    assert comparison.smallest_visible == 261
    assert comparison.best_alpha_visible == 251
    assert 104 < th.plan(epsilon=1.0, delta=1e-8).smallest_visible(0.95) <= 107


@pytest.mark.parametrize(
    ("threshold", "add_remove", "replace", "rule"),
    [
        (10, 0.1000, 0.0999, 0.0391),
        (20, 0.2514, 0.2482, 0.1070),
        (40, 0.4386, 0.4264, 0.1838),
        (100, 0.6718, 0.6490, 0.2586),
    ],
)
def test_largest_rates(threshold, add_remove, replace, rule):
    for adjacency, expected in ((ADD_REMOVE, add_remove), (REPLACE, replace)):
        plan = th.plan(epsilon=1.0, delta=1e-8, threshold=threshold, adjacency=adjacency)
        assert plan.sampling_rate == pytest.approx(expected, abs=1e-4)
    assert paper.rate_for_threshold(1.0, 1e-8, threshold) == pytest.approx(rule, abs=1e-4)


def test_ten_rounds_sample_over_ten_times_what_the_papers_rule_does():
    plan = th.plan(epsilon=1.0, delta=1e-8, threshold=20, rounds=10)
    assert plan.sampling_rate > 10 * paper.rate_for_threshold(1.0, 1e-8, 20, rounds=10)
    free = th.plan(epsilon=1.0, delta=1e-8, rounds=10)
    assert free.versus_paper().visible_factor > 10


@pytest.mark.slow
def test_no_neighbouring_threshold_sees_a_smaller_bucket():
    for adjacency in (ADD_REMOVE, REPLACE):
        best = th.plan(epsilon=0.5, delta=1e-7, adjacency=adjacency)
        for threshold in range(2, 4 * best.threshold):
            other = th.plan(epsilon=0.5, delta=1e-7, adjacency=adjacency, threshold=threshold)
            assert best.smallest_visible() <= other.smallest_visible()


def test_given_rate_gets_the_smallest_threshold():
    plan = th.plan(epsilon=1.0, delta=1e-8, sampling_rate=0.05)
    assert plan.sampling_rate == 0.05
    assert spent(plan) <= 1e-8
    lower = delta(sampling_rate=0.05, threshold=plan.threshold - 1, epsilon=1.0)
    assert lower > 1e-8


def test_both_given_is_a_check_and_may_compute_the_missing_target():
    assert th.plan(epsilon=1.0, delta=1e-8, sampling_rate=0.1, threshold=20).threshold == 20
    computed = th.plan(epsilon=1.0, sampling_rate=0.1, threshold=20)
    assert computed.delta == delta(sampling_rate=0.1, threshold=20, epsilon=1.0)
    assert th.plan(delta=1e-8, sampling_rate=0.1, threshold=20).epsilon == pytest.approx(0.30912, abs=1e-5)
    with pytest.raises(Unreachable, match="do not guarantee"):
        th.plan(epsilon=1.0, delta=1e-8, sampling_rate=0.5, threshold=20)


def test_the_rate_is_an_exact_dyadic_rational():
    plan = th.plan(epsilon=1.0, delta=1e-8)
    assert plan.exact_rate == Fraction(rate_numerator(plan.sampling_rate), 2**64)
    third = th.plan(epsilon=1.0, delta=1e-8, sampling_rate=Fraction(1, 30))
    assert third.exact_rate <= Fraction(1, 30) < third.exact_rate * (1 + Fraction(1, 2**50))


# Objectives.


def test_error_objective_beats_its_neighbours_for_that_bucket():
    best = th.plan(epsilon=1.0, delta=1e-8, objective="error", count=400)
    for threshold in (20, 40, 80, 150, 250, 300):
        other = th.plan(epsilon=1.0, delta=1e-8, threshold=threshold)
        assert best.relative_error(400) <= other.relative_error(400) * (1 + 1e-6)
    same = th.plan(epsilon=1.0, delta=1e-8, objective="error", frequency=0.0004, population=1_000_000)
    assert same == best


def test_sample_objective_takes_the_largest_rate_that_still_sees_the_bucket():
    plan = th.plan(epsilon=1.0, delta=1e-8, objective="sample", count=1000)
    assert plan.sees(1000) >= 0.95 - 1e-6
    further = th.plan(epsilon=1.0, delta=1e-8, threshold=plan.threshold + 2)
    assert further.sampling_rate > plan.sampling_rate
    assert further.sees(1000) < 0.95
    with pytest.raises(Unreachable, match="smallest one that can be seen"):
        th.plan(epsilon=1.0, delta=1e-8, objective="sample", count=50)


# The frontier, the card, the stored form.


@pytest.mark.slow
def test_frontier_is_the_whole_trade_off():
    plan = th.plan(epsilon=1.0, delta=1e-8)
    points = list(plan.frontier())
    assert len(points) > 15
    rates = [point.sampling_rate for point in points]
    assert rates == sorted(rates)
    assert min(point.smallest_visible for point in points) == plan.smallest_visible()
    assert any(point.threshold == plan.threshold for point in points)
    assert plan.frontier().to_dicts()[0].keys() == {"threshold", "sampling_rate", "smallest_visible"}


def test_card_says_what_a_reader_needs():
    plan = th.plan(epsilon=1.0, delta=1e-8)
    text = str(plan)
    for part in ("0.3042", "below 25", "(1, 1e-08)-differential privacy", "106", "261", "replace"):
        assert part in text
    assert "factor of 2.72" in plan.guarantee.in_words()


def test_stored_form_round_trips_exactly_through_json():
    plan = th.plan(epsilon=1.0, delta=1e-8, rounds=3)
    assert th.Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


@pytest.mark.parametrize(
    "change",
    [
        {"format": "x"},
        {"version": 2},
        {"extra": 1},
        {"threshold": None},
        {"sampling_rate": "0.1"},
        {"adjacency": "both"},
    ],
)
def test_stored_form_that_does_not_fit_is_refused(change):
    content = th.plan(epsilon=1.0, delta=1e-8).to_dict() | change
    with pytest.raises((InvalidFormat, InvalidSetting)):
        th.Plan.from_dict(content)
    del content["rounds"]
    with pytest.raises((InvalidFormat, InvalidSetting)):
        th.Plan.from_dict(content)
    for nothing_like_it in ("plan", None, [content]):
        with pytest.raises(InvalidFormat):
            th.Plan.from_dict(nothing_like_it)


def test_verify_finds_a_plan_that_claims_too_much():
    honest = th.plan(epsilon=1.0, delta=1e-8)
    boast = th.Plan(honest.sampling_rate, honest.threshold - 1, 1.0, 1e-8)
    assert honest.verify() <= 1e-8
    with pytest.raises(VerificationFailed, match="guarantee delta"):
        boast.verify()


# Bad input: every one a named setting with a hint.

BAD = [
    ({"epsilon": math.nan, "delta": 1e-8}, "epsilon"),
    ({"epsilon": -1.0, "delta": 1e-8}, "epsilon"),
    ({"epsilon": 0.0, "delta": 1e-8}, "epsilon"),
    ({"epsilon": math.inf, "delta": 1e-8}, "epsilon"),
    ({"epsilon": "1", "delta": 1e-8}, "epsilon"),
    ({"epsilon": True, "delta": 1e-8}, "epsilon"),
    ({"epsilon": [], "delta": 1e-8}, "epsilon"),
    ({"delta": 1e-8}, "epsilon"),
    ({"epsilon": 1.0}, "delta"),
    ({"epsilon": 1.0, "delta": 0.0}, "delta"),
    ({"epsilon": 1.0, "delta": 1.0}, "delta"),
    ({"epsilon": 1.0, "delta": -1e-9}, "delta"),
    ({"epsilon": 1.0, "delta": math.nan}, "delta"),
    ({"epsilon": 1.0, "delta": math.inf}, "delta"),
    ({"epsilon": 1.0, "delta": "tiny"}, "delta"),
    ({"epsilon": 1.0, "delta": 1e-8, "sampling_rate": 0}, "sampling_rate"),
    ({"epsilon": 1.0, "delta": 1e-8, "sampling_rate": 1}, "sampling_rate"),
    ({"epsilon": 1.0, "delta": 1e-8, "sampling_rate": math.nan}, "sampling_rate"),
    ({"epsilon": 1.0, "delta": 1e-8, "sampling_rate": -0.1}, "sampling_rate"),
    ({"epsilon": 1.0, "delta": 1e-8, "sampling_rate": 1e-30}, "sampling_rate"),
    ({"epsilon": 1.0, "delta": 1e-8, "sampling_rate": ""}, "sampling_rate"),
    ({"epsilon": 1.0, "delta": 1e-8, "threshold": 0}, "threshold"),
    ({"epsilon": 1.0, "delta": 1e-8, "threshold": -3}, "threshold"),
    ({"epsilon": 1.0, "delta": 1e-8, "threshold": 2.5}, "threshold"),
    ({"epsilon": 1.0, "delta": 1e-8, "threshold": math.inf}, "threshold"),
    ({"epsilon": 1.0, "delta": 1e-8, "threshold": "20"}, "threshold"),
    ({"epsilon": 1.0, "delta": 1e-8, "rounds": 0}, "rounds"),
    ({"epsilon": 1.0, "delta": 1e-8, "rounds": 1.5}, "rounds"),
    ({"epsilon": 1.0, "delta": 1e-8, "rounds": 10**9}, "rounds"),
    ({"epsilon": 1.0, "delta": 1e-8, "adjacency": "swap"}, "adjacency"),
    ({"epsilon": 1.0, "delta": 1e-8, "adjacency": None}, "adjacency"),
    ({"epsilon": 1.0, "delta": 1e-8, "objective": "fast"}, "objective"),
    ({"epsilon": 1.0, "delta": 1e-8, "objective": np.array(["visible"])}, "objective"),
    ({"epsilon": 1.0, "delta": 1e-8, "objective": ["visible"]}, "objective"),
    ({"epsilon": 1.0, "delta": 1e-8, "adjacency": np.array(["replace", "replace"])}, "adjacency"),
    ({"epsilon": 1.0, "delta": 1e-8, "objective": "error"}, "count"),
    ({"epsilon": 1.0, "delta": 1e-8, "objective": "error", "frequency": 0.1}, "population"),
    ({"epsilon": 1.0, "delta": 1e-8, "objective": "error", "frequency": 2, "population": 10}, "frequency"),
    ({"epsilon": 1.0, "delta": 1e-8, "probability": 1.0}, "probability"),
    ({"sampling_rate": 0.1, "threshold": 20}, "epsilon"),
]


@pytest.mark.parametrize(("arguments", "setting"), BAD)
def test_bad_input_names_the_setting(arguments, setting):
    with pytest.raises(InvalidSetting) as caught:
        th.plan(**arguments)
    assert caught.value.setting == setting
    assert caught.value.code == "invalid-setting"
    assert isinstance(caught.value, ValueError)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "arguments",
    [
        {"delta": 1e-30, "threshold": 1},  # would need a rate of 1e-30
        {"delta": 1e-300, "threshold": 10},
        {"delta": 1e-8, "epsilon": 1e-4, "sampling_rate": 0.9999},
        {"delta": 1e-310},  # less than any delta that is reported
        {"delta": 1e-310, "threshold": 1000},
    ],
)
def test_targets_that_no_plan_can_reach(arguments):
    with pytest.raises(Unreachable) as caught:
        th.plan(**({"epsilon": 1.0} | arguments))
    assert caught.value.hint


@pytest.mark.parametrize("function", [th.privacy.delta, th.privacy.epsilon])
@pytest.mark.parametrize(
    "change",
    [{"sampling_rate": 1.0}, {"sampling_rate": math.nan}, {"threshold": 0}, {"rounds": 0}, {"adjacency": ""}],
)
def test_delta_and_epsilon_check_the_same_settings(function, change):
    settings = {"sampling_rate": 0.1, "threshold": 20, "rounds": 1, "adjacency": REPLACE} | change
    other = {"epsilon": 1.0} if function is th.privacy.delta else {"delta": 1e-8}
    with pytest.raises(InvalidSetting) as caught:
        function(**settings, **other)
    assert caught.value.setting in change


def test_one_plan_has_one_form():
    plan = th.plan(epsilon=1, delta=1e-8)
    same = th.Plan(np.float64(plan.sampling_rate), float(plan.threshold), 1, np.float64(1e-8), "replace", 1.0)
    assert json.dumps(same.to_dict()) == json.dumps(plan.to_dict())
    for version in (True, 1.0, "1"):
        with pytest.raises(InvalidFormat):
            th.Plan.from_dict(plan.to_dict() | {"version": version})


FIXED: list[dict[str, Any]] = [
    {},
    {"threshold": 20},
    {"sampling_rate": 0.25},
    {"sampling_rate": 0.125, "threshold": 40},
]


@pytest.mark.parametrize("fixed", FIXED)
def test_plans_are_remembered(fixed: dict[str, Any]) -> None:
    one = th.plan(epsilon=1.0, delta=1e-6, **fixed)
    assert th.plan(epsilon=1.0, delta=1e-6, **fixed) is one


@pytest.mark.parametrize("fixed", FIXED)
def test_a_remembered_plan_has_one_form_whatever_numbers_asked_for_it(fixed: dict[str, Any]) -> None:
    numbers = {name: np.float64(value) for name, value in fixed.items()}
    asked = [
        th.plan(epsilon=1, delta=1e-6, rounds=1, **fixed),
        th.plan(epsilon=np.float64(1.0), delta=np.float64(1e-6), rounds=np.int64(1), **numbers),
        th.plan(epsilon=1.0, delta=1e-6, contributions=1, **fixed),
    ]
    for plan in asked:
        assert plan == asked[0]
        assert [type(getattr(plan, name)) for name in plan.__slots__] == [float, int, float, float, str, int, int]
    for wrong in ({"epsilon": True}, {"rounds": True}, {"contributions": True}, {"epsilon": [1.0]}, {"delta": "1e-6"}):
        with pytest.raises(InvalidSetting):  # True equals 1, which is remembered
            th.plan(**({"epsilon": 1.0, "delta": 1e-6} | fixed | wrong))


@pytest.mark.parametrize("fixed", FIXED)
def test_what_is_remembered_is_not_shared_between_settings(fixed: dict[str, Any]) -> None:
    usual = th.plan(epsilon=2.0, delta=1e-5, **fixed)
    for other in (
        {"adjacency": "add-remove"},
        {"rounds": 2},
        {"contributions": 2},
        {"epsilon": 2.5},
        {"delta": 2e-5},
    ):
        asked = {"epsilon": 2.0, "delta": 1e-5} | fixed | other
        plan = th.plan(**asked)
        assert plan != usual
        assert all(getattr(plan, name) == value for name, value in asked.items() if name not in fixed)
        plan.verify()
    assert th.plan(epsilon=2.0, delta=1e-5, rounds=1, contributions=2, **fixed) != th.plan(
        epsilon=2.0, delta=1e-5, rounds=2, contributions=1, **fixed
    )

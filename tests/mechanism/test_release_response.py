"""A release of a fleet divides by those who completed, and its stored form still reads what was stored before."""

import json

import numpy as np
import pytest

import thresher as th
from thresher.errors import InvalidFormat, InvalidSetting, VerificationFailed
from thresher.mechanism import Release, Response, sample_and_threshold
from thresher.privacy.visibility import intervals

PLAN = th.plan(epsilon=1.0, delta=1e-8)
HALF = Response(asked=10_000, contacted=10_000, completed=5_000, kept_rate=PLAN.sampling_rate)


def released(response: Response | None) -> Release:
    return Release.of(["fr", "de"], [500, 60], PLAN, private=True, columns=("country",), response=response)


def test_estimates_and_intervals_are_at_the_real_rate():
    full, half = released(None), released(HALF)
    assert full.rate == PLAN.sampling_rate
    assert half.rate == PLAN.sampling_rate / 2
    np.testing.assert_allclose(half.estimates, 2 * full.estimates)
    lower, upper = intervals(half.rate, PLAN.threshold, half.counts, 0.95)
    assert half.intervals.tolist() == np.column_stack([lower, upper]).tolist()
    assert half["fr"].interval[0] < half["fr"].estimate < half["fr"].interval[1]
    assert half.verify() == PLAN.guarantee


def test_intervals_cover_at_the_real_rate():
    """Half of 20,000 devices complete. At the error 1e-6 an interval misses in one of a million draws."""
    random = np.random.default_rng(8)
    truth = 4_000
    missed_at_the_plans_rate = 0
    for _ in range(20):
        completed = random.binomial(20_000, 0.5)
        response = Response(20_000, 20_000, int(completed), PLAN.sampling_rate)
        sampled = random.binomial(truth, 0.5 * PLAN.sampling_rate)
        row = Release.of(["x"], [sampled], PLAN, private=True, confidence=1 - 1e-6, response=response)["x"]
        assert row.interval[0] <= truth <= row.interval[1]
        blind = Release.of(["x"], [sampled], PLAN, private=True, confidence=1 - 1e-6)["x"]
        missed_at_the_plans_rate += not blind.interval[0] <= truth <= blind.interval[1]
    assert missed_at_the_plans_rate > 15  # dividing by p alone would be wrong, and this test would see it


def test_everybody_sampled_and_nobody_completed():
    everybody = Release.of(["x"], [60], PLAN, private=True, response=Response(100, 100, 100, 1.0))
    assert everybody["x"].estimate == 60
    assert everybody["x"].interval == (60, 60)
    nobody = Release.of([], [], PLAN, private=True, response=Response(100, 50, 0, PLAN.sampling_rate))
    assert nobody.rate == PLAN.sampling_rate
    assert len(nobody) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"completed": 5_001, "contacted": 5_000},
        {"contacted": 10_001},
        {"asked": -1},
        {"kept_rate": 0.0},
        {"kept_rate": 1.1},
        {"kept_rate": float("nan")},
        {"completed": 1.5},
        {"kept_rate": "1"},
    ],
)
def test_responses_that_cannot_be(wrong):
    with pytest.raises(InvalidSetting):
        Response(**HALF.to_dict() | wrong)


def test_the_stored_form_keeps_the_response():
    release = released(HALF)
    again = Release.from_json(release.to_json())
    assert again.response == HALF
    assert again.table.equals(release.table)
    assert again.certificate() == release.certificate()
    assert Release.from_json(released(None).to_json()).response is None


def test_version_one_is_still_read():
    """As thresher 0.1 wrote it: no response, neither in the content nor in the certificate."""
    release = sample_and_threshold({"fr": 10_000, "de": 2_000}, PLAN, columns=("country",))
    content = json.loads(release.to_json())
    assert content["version"] == 2
    assert content.pop("response") is None
    content["version"] = 1
    again = Release.from_json(json.dumps(content))
    assert again.table.equals(release.table)
    assert again.response is None
    assert again.verify() == PLAN.guarantee
    content["response"] = None
    with pytest.raises(InvalidFormat):
        Release.from_json(json.dumps(content))


def test_a_response_that_was_changed_is_found():
    content = json.loads(released(HALF).to_json())
    content["response"]["completed"] = 10_000
    with pytest.raises(VerificationFailed):
        Release.from_json(json.dumps(content))
    content["certificate"]["response"]["completed"] = 10_000  # whoever does both meets `verify`
    with pytest.raises(VerificationFailed):
        Release.from_json(json.dumps(content)).verify()
    content["response"] = {"asked": 1}
    with pytest.raises(InvalidFormat):
        Release.from_json(json.dumps(content))


def test_a_response_that_cannot_have_given_these_counts_does_not_verify():
    few = Response(asked=10_000, contacted=400, completed=400, kept_rate=1.0)
    with pytest.raises(VerificationFailed, match="completed"):
        released(few).verify()
    slow = Response(asked=10_000, contacted=10_000, completed=10_000, kept_rate=PLAN.sampling_rate / 2)
    with pytest.raises(VerificationFailed, match="rate"):
        released(slow).verify()

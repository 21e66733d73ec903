"""A release of a fleet divides by those who completed, and its stored form still reads what was stored before."""

import json
from pathlib import Path

import numpy as np
import pytest

import thresher as th
from thresher.errors import InvalidFormat, InvalidSetting, VerificationFailed
from thresher.mechanism import Release, Response
from thresher.privacy import delta
from thresher.privacy.intervals import intervals
from thresher.privacy.rates import ONE, Rates
from thresher.protocol.rates import share

RATES, PLAN = share(th.plan(epsilon=1.0, delta=1e-8))
BY_DEVICES = Rates(RATES.contact, RATES.aggregator, ONE)
HALF = Response(asked=10_000, contacted=10_000, completed=5_000, rates=RATES)
VERSION_2 = json.loads((Path(__file__).parent / "releases_version_2.json").read_text())
"""Releases that Thresher 0.1.0 wrote: of device coins, and of aggregator coins with half of the devices contacted."""


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
        response = Response(20_000, 20_000, int(completed), RATES)
        sampled = random.binomial(truth, 0.5 * PLAN.sampling_rate)
        row = Release.of(["x"], [sampled], PLAN, private=True, confidence=1 - 1e-6, response=response)["x"]
        assert row.interval[0] <= truth <= row.interval[1]
        blind = Release.of(["x"], [sampled], PLAN, private=True, confidence=1 - 1e-6)["x"]
        missed_at_the_plans_rate += not blind.interval[0] <= truth <= blind.interval[1]
    assert missed_at_the_plans_rate > 15  # dividing by p alone would be wrong, and this test would see it


def test_everybody_sampled_and_nobody_completed():
    everybody = Release.of(["x"], [60], PLAN, private=True, response=Response(100, 100, 100, Rates(ONE, ONE, ONE)))
    assert everybody["x"].estimate == 60
    assert everybody["x"].interval == (60, 60)
    nobody = Release.of([], [], PLAN, private=True, response=Response(100, 50, 0, RATES))
    assert nobody.rate == PLAN.sampling_rate
    assert len(nobody) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"completed": 5_001, "contacted": 5_000},
        {"contacted": 10_001},
        {"asked": -1},
        {"contact_rate": 0},
        {"contact_rate": ONE + 1},
        {"contact_rate": ONE - 1},  # 32 significant bits
        {"device_rate": 1.0},
        {"device_rate": True},
        {"device_rate": ONE // 2},  # the aggregator tosses already
        {"completed": 1.5},
        {"aggregator_rate": "1"},
        {"aggregator_rate": float("nan")},
    ],
)
def test_responses_that_cannot_be(wrong):
    with pytest.raises(InvalidSetting):
        Response.from_dict(HALF.to_dict() | wrong)


def test_the_stored_form_keeps_the_response():
    release = released(HALF)
    again = Release.from_json(release.to_json())
    assert again.response == HALF
    assert again.table.equals(release.table)
    assert again.certificate() == release.certificate()
    assert Release.from_json(released(None).to_json()).response is None


def test_versions_one_and_two_of_a_table_are_still_read():
    """A file that Thresher 0.1.0 wrote. It does not say whom the guarantee protects, and nobody says it for it."""
    text = (Path(__file__).parent / "release_version_2_table.json").read_text()
    release = Release.from_json(text)
    assert (release.unit, release.response) == (None, None)
    assert release.guarantee == th.plan(epsilon=1.0, delta=1e-8).guarantee
    assert "had one unit held" in release.guarantee.in_words()
    assert Release.from_json(release.to_json()).table.equals(release.table)
    content = json.loads(text)
    with pytest.raises(InvalidFormat):
        Release.from_json(json.dumps(content | {"unit": None}))
    del content["response"]
    assert Release.from_json(json.dumps(content | {"version": 1})).table.equals(release.table)
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
    few = Response(asked=400, contacted=400, completed=400, rates=RATES)
    with pytest.raises(VerificationFailed, match="completed"):
        released(few).verify()


@pytest.mark.parametrize(
    "rates",
    [
        Rates(ONE, ONE, ONE),  # as if everybody had been counted: smaller estimates, no privacy
        Rates(ONE, ONE, RATES.aggregator // 2),
        Rates(ONE // 2, ONE, RATES.aggregator),
        Rates(ONE, ONE, RATES.aggregator + 1),
    ],
)
def test_coins_that_do_not_multiply_to_the_plans_rate_do_not_verify(rates):
    with pytest.raises(VerificationFailed, match="multiply"):
        released(Response(10_000, 10_000, 10_000, rates)).verify()
    content = json.loads(released(Response(10_000, 10_000, 10_000, rates)).to_json())
    with pytest.raises(VerificationFailed, match="multiply"):
        Release.from_json(json.dumps(content)).verify()


def test_where_every_device_is_contacted_as_many_are_contacted_as_asked():
    with pytest.raises(VerificationFailed, match="contacted"):
        released(Response(10_000, 9_999, 5_000, RATES)).verify()
    half, plan = share(PLAN, 0.5)
    part = Release.of(["fr"], [500], plan, private=True, response=Response(10_000, 5_021, 5_000, half))
    assert part.verify() == PLAN.guarantee


def test_the_certificate_says_who_tossed_which_coins_and_what_holds_against_whom():
    certificate = released(HALF).certificate()
    assert certificate["response"] == {"asked": 10_000, "contacted": 10_000, "completed": 5_000}
    one, kept = f"{ONE}/2^32", f"{RATES.aggregator}/2^32"
    assert certificate["coins"] == {"contact": one, "device": one, "aggregator": kept}
    promised = {name: (each["epsilon"], each["delta"]) for name, each in certificate["guarantees"].items()}
    assert promised == dict.fromkeys(("analyst", "contact_list", "injected"), (1.0, 1e-8))
    by_devices = released(Response(10_000, 10_000, 5_000, BY_DEVICES)).certificate()
    assert by_devices["coins"] == {"contact": one, "device": kept, "aggregator": one}
    deltas = [each["delta"] for each in by_devices["guarantees"].values()]
    assert deltas == [1e-8, 1e-8, 1.0]  # nothing holds against whoever can add reports


def test_the_three_guarantees_of_a_release():
    rates, plan = share(PLAN, 0.5)
    release = Release.of(["fr"], [500], plan, private=True, response=Response(10_000, 5_021, 5_000, rates))
    known = delta(sampling_rate=rates.kept, threshold=plan.threshold, epsilon=1.0)
    assert known > 1e-8  # otherwise this shows nothing
    assert release.guarantees.contact_list.delta == release.guarantees.injected.delta == known
    assert released(None).guarantees is None
    seeded = Release.of(["fr"], [500], plan, private=False, response=Response(10_000, 5_021, 5_000, rates))
    assert "guarantees" not in seeded.certificate()
    with pytest.raises(VerificationFailed):
        seeded.guarantees  # noqa: B018


# Releases that 0.1.0 stored


@pytest.mark.parametrize("who", ["device", "aggregator"])
def test_releases_of_version_two_are_read_and_verified(who):
    """They do not say who tossed for the answers that were kept: the devices' coins are assumed, which promise less."""
    release = Release.from_json(json.dumps(VERSION_2[who]))
    assert release.verify() == release.plan.guarantee
    response = release.response
    assert not response.coins_recorded
    assert response.rates.contact == {"device": ONE, "aggregator": ONE // 2}[who]
    assert response.kept_rate == VERSION_2[who]["response"]["kept_rate"]
    assert release.guarantees.injected.delta == 1
    certificate = release.certificate()
    assert set(certificate["coins"]) == {"contact", "device or aggregator"}
    again = Release.from_json(release.to_json())
    assert again.response == response
    assert again.certificate() == certificate


@pytest.mark.parametrize("kept", [1.0, 0.9, 1e-9, 0.5, 2.0, 0.0, "1", None, True, float("nan")])
def test_a_version_two_whose_rate_does_not_follow_from_its_plan_is_refused(kept):
    content = json.loads(json.dumps(VERSION_2["device"]))
    content["response"]["kept_rate"] = content["certificate"]["response"]["kept_rate"] = kept
    with pytest.raises((VerificationFailed, InvalidFormat)):
        Release.from_json(json.dumps(content)).verify()

"""Rounds in which several values of a device count, through a real collector and a real aggregator."""

from __future__ import annotations

import os
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from contribution_cases import CappedAfterwards, OneCoin, Repeated, ShippedFleet, counts_of
from device_cases import configuration, device, sealed, shown, take
from one_process_fleet import AGREES, FAULTS, HEADS, OneProcessFleet
from scipy import stats
from store_cases import Handed, accept

from thresher.device.core import DeviceCore
from thresher.device.state import FileState
from thresher.errors import Conflict
from thresher.mechanism import Response
from thresher.privacy.plans import Plan
from thresher.protocol import plaintext, sealing
from thresher.protocol.pieces import piece_size, pieces
from thresher.protocol.plaintext import DECOY, decode_payload, payload
from thresher.protocol.sealing import PrivateKey, open_sealed
from thresher.questions import Prefixes
from thresher.roles.collector.reports import Outcome

ALPHA = 1e-9  # false alarm per check
VALUES, DEVICES, ROUNDS = 4, 25, 120
PLAN = Plan(0.5, 1, 4.0, 0.99, "replace", 1, VALUES)
EQUAL = ["a", "b", "c", "d", "a", "b"]
"""Four values, two of them twice."""
MANY = list("abcdefgh")
"""Twice as many as count."""
PIECE = piece_size(64)


# The law


def p_value(totals: list[int], tosses: int, rate: float) -> float:
    """How well sums of a round fit Binomial(tosses, rate): twice the smaller p-value of their mean and their spread.

    The spread is compared with a chi-square law. A binomial has lighter tails, so that this errs towards a pass.
    """
    mean = stats.binomtest(sum(totals), tosses * len(totals), rate).pvalue
    spread = float(np.sum((np.array(totals) - tosses * rate) ** 2) / (tosses * rate * (1 - rate)))
    law = stats.chi2(len(totals))
    return float(2 * min(mean, 2 * law.cdf(spread), 2 * law.sf(spread)))


def drawn(directory: Path, held: list[str], sampled_by: str, kind: type[DeviceCore] = DeviceCore) -> list[Counter]:
    fleet = ShippedFleet(directory, [held] * DEVICES, kind)
    return [Counter(counts_of(fleet.ask(PLAN, sampled_by))) for _ in range(ROUNDS)]


def fits(rounds: list[Counter], values: int) -> list[float]:
    """p-values of the sum over all values of a round, and of one value; `values` is how many distinct ones are held."""
    chosen = min(VALUES, values)
    return [
        p_value([round.total() for round in rounds], DEVICES * chosen, PLAN.sampling_rate),
        p_value([round["a"] for round in rounds], DEVICES, PLAN.sampling_rate * chosen / values),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("sampled_by", ["device", "aggregator"])
@pytest.mark.parametrize(("held", "values"), [(EQUAL, 4), (MANY, 8)])
def test_each_of_up_to_c_distinct_values_counts_with_a_coin_of_its_own(tmp_path, held, values, sampled_by):
    assert min(fits(drawn(tmp_path, held, sampled_by), values)) > ALPHA


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "held", "values"), [(OneCoin, EQUAL, 4), (Repeated, EQUAL, 4), (CappedAfterwards, MANY, 8)]
)
def test_a_device_with_a_fault_is_found(tmp_path, kind, held, values):
    """The test above can fail: each fault is missed with a probability below 1e-3."""
    assert min(fits(drawn(tmp_path, held, "device", kind), values)) < ALPHA


EVERYTHING = Plan(0.5, 1, 4.0, 0.99, "replace", 1, 3)


def all_heads(directory: Path, held: list, **settings) -> ShippedFleet:
    """Devices whose coins always come up heads, in rounds of device coins: what is released is what was handed in."""
    return ShippedFleet(directory, held, randomness=HEADS, **settings)


@pytest.mark.slow
def test_values_are_counted_by_the_buckets_of_the_round(tmp_path):
    held = [["france", "france", "fr"], ["french", "spain"], "frog", [], None, ["x" * 90, "italy"]]
    release = all_heads(tmp_path, held).ask(EVERYTHING, question=Prefixes("tag", 2))
    assert counts_of(release) == {"fr": 3, "sp": 1, "it": 1, "xx": 1}
    assert release.response.completed == 6
    release.verify()
    assert release.certificate()["contributions"] == 3
    assert "up to 3 values a unit" in release.certificate()["guarantee"]


# Pieces


def owners(fleet: ShippedFleet, configuration) -> list[int]:
    """The device of each piece, in the order in which the aggregator gets them."""
    key = fleet.keys.get(configuration.key_id)
    sealed = [piece for blob in fleet.batches for piece in pieces(blob, PIECE)]
    opened = [
        decode_payload(payload(open_sealed(each, key, configuration.hash)), configuration.asked) for each in sealed
    ]
    return [int(each.partition("-")[0]) for each in opened if each is not DECOY]


def neighbours(found: list[int]) -> int:
    """How many pieces are followed by one of the same device."""
    return sum(one == other for one, other in pairwise(found))


@pytest.mark.slow
def test_pieces_of_a_device_are_not_together_in_batches(tmp_path):
    devices = 150
    fleet = all_heads(tmp_path, [[f"{each}-{tag}" for tag in "abc"] for each in range(devices)], batch_size=64)
    configuration = fleet.configuration(EVERYTHING)
    reports = fleet.reports(configuration)
    assert set(accept(fleet.collector, reports)) == {Outcome.ACCEPTED}
    fleet.close(configuration)
    found = owners(fleet, configuration)
    assert len(fleet.batches) == -(-devices * 3 // 64)
    assert Counter(found) == dict.fromkeys(range(devices), 3)
    # In a random order of 3 pieces of each device, 2 pieces in all are expected beside one of their own. Their number
    # is nearly Poisson; 40 bounds the difference of the two tails generously.
    assert 40 * stats.poisson(2).sf(neighbours(found) - 1) > ALPHA
    assert 40 * stats.poisson(2).sf(neighbours(sorted(found)) - 1) < ALPHA  # side by side, they are found
    # Nor does the order of pieces in a report: each of the three is the first to come equally often.
    first = Counter()
    where = {piece: place for place, piece in enumerate(p for blob in fleet.batches for p in pieces(blob, PIECE))}
    for report in reports:
        places = [where[piece] for piece in pieces(report.sealed, PIECE)]
        first[places.index(min(places))] += 1
    assert stats.chisquare([first[slot] for slot in range(3)]).pvalue > ALPHA


def test_another_number_of_pieces_is_refused(tmp_path):
    fleet = all_heads(tmp_path, [["a", "b"]] * 4)
    configuration = fleet.configuration(EVERYTHING)
    one, two, three, four = fleet.reports(configuration)
    wrong = [
        Handed(one.round, one.device, one.sealed[PIECE:]),
        Handed(two.round, two.device, two.sealed + two.sealed[:PIECE]),
        Handed(three.round, three.device, three.sealed[:-1]),
    ]
    assert accept(fleet.collector, wrong) == [Outcome.WRONG_SIZE] * 3
    assert accept(fleet.collector, [one, one, four]) == [Outcome.ACCEPTED, Outcome.AGAIN, Outcome.ACCEPTED]
    other = Handed(one.round, one.device, bytes(len(one.sealed)))
    shuffled = Handed(four.round, four.device, b"".join(reversed(list(pieces(four.sealed, PIECE)))))
    assert accept(fleet.collector, [other, shuffled]) == [Outcome.CONFLICT] * 2
    release = fleet.close(configuration)
    assert release.response.completed == 2  # devices, not pieces
    assert counts_of(release) == {"a": 2, "b": 2}


def test_a_device_that_lies_weighs_as_much_as_its_pieces(tmp_path):
    """Three pieces of one bucket count three times, and equal pieces once; nobody can look inside."""
    fleet = all_heads(tmp_path, [["a"]] * 3)
    configuration = fleet.configuration(EVERYTHING)
    honest, liar, copier = fleet.reports(configuration)
    public, bucket = fleet.aggregator.public_key(), plaintext.encode_bucket(configuration.asked, "b", 64)
    lies = [sealing.seal(bucket, public, configuration.hash) for _ in range(3)]
    handed_in = [
        honest,
        Handed(liar.round, liar.device, b"".join(lies)),
        Handed(copier.round, copier.device, honest.sealed[:PIECE] * 2 + bytes(PIECE)),
    ]
    assert set(accept(fleet.collector, handed_in)) == {Outcome.ACCEPTED}
    release = fleet.close(configuration)
    assert counts_of(release) == {"a": 1, "b": 3}
    release.verify()  # a count may be above `completed`: no device can make a release that does not verify
    assert fleet.aggregator.dropped() == (1, 2)


def test_the_aggregator_waits_for_every_piece(tmp_path):
    fleet = all_heads(tmp_path, [["a"]] * 2)
    configuration = fleet.configuration(EVERYTHING)
    [one, two] = fleet.reports(configuration)
    fleet.aggregator.add_batch(configuration.round, 0, one.sealed + two.sealed[:PIECE])
    response = Response(2, 2, 2, configuration.rates)
    with pytest.raises(Conflict, match="not those that were announced"):
        fleet.aggregator.release(configuration, 1, response)


def test_one_key_opens_nothing_but_its_own_round(tmp_path):
    """Every piece is bound to the configuration, with its number of contributions."""
    fleet = all_heads(tmp_path, [["a", "b", "c"]])
    configuration = fleet.configuration(EVERYTHING)
    [report] = fleet.reports(configuration)
    fewer = fleet.configuration(Plan(0.5, 1, 4.0, 0.99))
    key: PrivateKey = fleet.keys.get(configuration.key_id)
    for piece in pieces(report.sealed, PIECE):
        open_sealed(piece, key, configuration.hash)
        with pytest.raises(sealing.SealBroken):
            open_sealed(piece, key, fewer.hash)


# Crashes and lost answers


class TwoEach(OneProcessFleet):
    """Devices that hold two values each."""

    def reboot(self, name: str) -> None:
        state = FileState(self.directory / f"{name}.json")
        held = {"name": [f"{name}-a", f"{name}-b", f"{name}-a"]}
        self.devices[name] = DeviceCore(held, AGREES, state, HEADS, self.clock)


@pytest.mark.slow
def test_whatever_is_lost_every_value_is_counted_once(tmp_path):
    plan = Plan(0.5, 1, 4.0, 0.99, "replace", 1, 2)
    names = [f"device{number}" for number in range(6)]
    chance = random.Random(1)
    fleet = TwoEach(tmp_path)
    for name in names:
        fleet.enrol(name)
    query = fleet.ask("tags", seconds=3600, completions=len(names), plan=plan)
    for _ in range(400):
        if fleet.coordinator.status(query).state == "done":
            break
        fleet.wires.faults = [chance.choice(FAULTS) for _ in range(2)]
        fleet.step()
        for name in names:
            fleet.wires.faults = [chance.choice(FAULTS)]
            fleet.visit(name)
            for round in fleet.waiting(name):
                fleet.wires.faults = [chance.choice(FAULTS)]
                fleet.send(name, round)
        fleet.clock.time += 10
    assert all(len(sent) == 1 for sent in fleet.sent.values())  # however often, the same bytes
    [release] = fleet.releases().values()
    assert release.response.completed == len(names)
    assert counts_of(release) == {f"{name}-{tag}": 1 for name in names for tag in "ab"}
    release.verify()


def test_after_a_crash_the_same_pieces_are_sent(tmp_path):
    path = tmp_path / "device.json"
    asked = configuration(plan=Plan(1 / 16, 14, 1.0, 1e-8, "replace", 1, 3))
    first = device({"word": ["a", "b", "c", "d"]}, state=FileState(path))
    take(first, shown(asked))
    again = device({"word": "another"}, state=FileState(path), randomness=os.urandom)
    assert take(again, shown(asked)) == ["round-0"]
    assert sealed(again) == sealed(first)

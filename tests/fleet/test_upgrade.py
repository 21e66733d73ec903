"""What Thresher 0.1.0 left in its stores: queries that did not say what holds against whoever can add reports."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import msgspec
import pytest
from aggregation_cases import configuration as round_configuration
from aggregation_cases import response, sealed
from coordinator_cases import PLAN, Server

import thresher as th
from thresher.mechanism import Release
from thresher.privacy import delta
from thresher.privacy.rates import ONE
from thresher.privacy.units import DEVICE
from thresher.protocol.configurations import GuaranteesStated, RoundConfiguration
from thresher.protocol.messages import decode
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.aggregator.keys import KeyRing
from thresher.roles.aggregator.round_drawing import LocalDrawing
from thresher.roles.aggregator.store import AggregatorStore

STORE = Path(__file__).parent / "coordinator_version_1.sql"


@pytest.fixture
def server(tmp_path):
    """The old store under a new coordinator, with a ledger that holds its charges."""
    with sqlite3.connect(tmp_path / "coordinator.db") as database:
        database.executescript(STORE.read_text())
    database.close()
    ledger = th.Ledger(tmp_path / "ledger.db", epsilon=3.0, delta=1e-4, unit=DEVICE)
    for query in ("q1", "q2"):
        ledger.reserve(PLAN, "histogram of word", unit=DEVICE, reference=query, drawn=PLAN.rounds)
    found = Server(tmp_path, ["fr"] * 1000 + ["de"] * 1000)
    yield found
    found.close()


def test_what_was_not_stored_follows_from_plan_and_settings(server):
    by_devices, half = (server.coordinator.status(query).guarantees for query in ("q1", "q2"))
    assert by_devices.analyst.delta == by_devices.contact_list.delta == 1e-6
    assert by_devices.injected.delta == 1
    rounds = server.store.rounds("q2")
    rate = decode(RoundConfiguration, rounds[0].configuration).aggregator_rate / ONE
    alone = delta(sampling_rate=rate, threshold=PLAN.threshold, epsilon=1.0)
    assert half.injected.delta == half.contact_list.delta == alone > 1e-6
    assert [status.id for status in server.coordinator.queries()] == ["q2", "q1"]


def test_an_answer_can_still_be_read_and_verified(server):
    answer = server.coordinator.answer("q1")
    assert answer.verify() == answer.plan.guarantee
    assert not answer.release.response.coins_recorded


def test_a_round_that_was_open_is_finished(server):
    [round] = server.store.rounds("q2")
    configuration = decode(RoundConfiguration, round.configuration)
    assert configuration.version == 1
    server.roles.configurations[round.round] = configuration
    server.run()
    assert server.coordinator.status("q2").state == "done"
    answer = server.coordinator.answer("q2")
    assert answer.verify() == answer.plan.guarantee.for_unit(DEVICE)
    assert answer.release.response.rates == configuration.rates


def test_reports_that_were_sealed_to_the_old_configuration_still_open(tmp_path):
    store = AggregatorStore.open(tmp_path / "store")
    aggregator = Aggregator(store, KeyRing(tmp_path / "keys"), LocalDrawing(1))
    now = round_configuration(aggregator.public_key(), sampled_by="device")
    stated = msgspec.to_builtins(now.guarantees)
    del stated["injected"]
    before = msgspec.structs.replace(now, version=1, guarantees=msgspec.convert(stated, GuaranteesStated))
    before = decode(RoundConfiguration, json.dumps(msgspec.to_builtins(before)))
    reports = sealed(before, ["fr"] * 50)
    aggregator.add_batch(before.round, 0, b"".join(reports))
    release = Release.from_json(aggregator.release(before, 1, response(before, 50)))
    assert release.to_dict() == {"fr": 100.0}
    aggregator.close()
    store.close()

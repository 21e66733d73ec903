"""Series under any order of restarts, pauses, missed dates and crashes: what must hold at the end of every walk."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from coordinator_cases import Crash, Server
from hypothesis import given, settings
from hypothesis import strategies as st
from series_cases import DAY, HOUR, WEEK, WORDS, follow, series_request, states

RELEASES = 5

MOVES = st.one_of(
    st.tuples(st.just("follow"), st.sampled_from([HOUR, DAY, 3 * DAY, WEEK])),
    st.tuples(st.just("away"), st.sampled_from([HOUR, DAY, WEEK, 2 * WEEK])),
    st.tuples(st.just("crash"), st.integers(0, 60)),
    st.tuples(st.sampled_from(["pause", "resume", "restart"]), st.just(0)),
)


def walk(server: Server, id: str, move: str, amount: float) -> None:
    if move == "follow":
        follow(server, amount)
    elif move == "away":
        server.clock.time += amount
        server.start()
    elif move == "restart":
        server.start()
    elif move == "crash":
        server.calls = int(amount)
        try:
            follow(server, DAY)
        except Crash:
            server.start()
        server.calls = None
    else:
        getattr(server.coordinator.series, move)(id, "ada")


@pytest.mark.slow
@settings(max_examples=40)
@given(
    moves=st.lists(MOVES, max_size=12),
    missed=st.sampled_from(["skip", "late"]),
    every=st.sampled_from(["day", "week"]),
    ends=st.booleans(),
)
def test_every_date_is_asked_once_or_is_a_gap(moves, missed, every, ends):
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), WORDS)
        asked = series_request(releases=RELEASES, missed=missed, every=every)
        created = server.coordinator.series.create(asked, "ada")
        schedule = created.schedule.value
        for move, amount in moves:
            walk(server, created.id, move, amount)
        if ends:
            server.coordinator.series.end(created.id, "ada")
        follow(server, 12 * WEEK)

        status = server.coordinator.series.status(created.id)
        asked_dates = [each for each in status.releases if each.query is not None]
        assert status.state in ("done", "ended") and (status.state == "done") <= (status.passed == RELEASES)
        assert set(states(status)) <= {"done", "missed", "paused"}
        for each in asked_dates:
            query = server.coordinator.standing(each.query)
            assert schedule.due(each.index) <= query.created < schedule.closes(each.index)
            assert [round.state for round in query.rounds] == ["released"]
        # One draw of the aggregator, one of the ledger, and one sample for each date that was asked.
        assert server.roles.drawn == {f"{each.query}-r0": 1 for each in asked_dates}
        [charge] = server.ledger.history()
        assert server.ledger.drawn(created.id) == {each.index for each in asked_dates}
        assert charge.drawn + charge.given_back == RELEASES
        assert server.ledger.reserved() == set() and server.store.unsettled_series() == []
        server.close()

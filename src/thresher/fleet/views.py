"""What the coordinator shows: stored rows as messages, public numbers only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from thresher.analytics import Query, query_from_dict
from thresher.analytics.queries import Verb
from thresher.errors import ThresherError
from thresher.fleet.messages import (
    Charge,
    FleetView,
    Guarantees,
    LedgerView,
    Message,
    QueryStatus,
    RoundSettings,
    RoundStatus,
    decode,
)
from thresher.fleet.ports import AggregatorPort, CollectorPort, ProgressPort
from thresher.ledger import Ledger

if TYPE_CHECKING:
    from thresher.fleet.store.coordinator import StoredQuery, StoredRound


class Prepared(Message, frozen=True, kw_only=True):
    """What was fixed when a query was taken: its guarantees, and a hash of the request it came from."""

    guarantees: Guarantees
    request: str


def prepared(query: StoredQuery) -> Prepared:
    """What was fixed when a query was taken."""
    return decode(Prepared, query.prepared)


def query_of(query: StoredQuery) -> Query:
    """A stored query as a value."""
    return query_from_dict(json.loads(query.query))


def settings_of(query: StoredQuery) -> RoundSettings:
    """The settings of a stored query's rounds, all filled in."""
    return decode(RoundSettings, query.settings)


def status(query: StoredQuery, rounds: Sequence[StoredRound], live: Mapping[str, ProgressPort]) -> QueryStatus:
    """Where a query stands. `live` has newer numbers of rounds that are open."""
    content = json.loads(query.query)
    return QueryStatus(
        id=query.id,
        name=query.name,
        verb=cast(Verb, query.verb),
        what=query.what,
        by=query.by,
        state=query.state,
        created=query.created,
        ended=query.ended,
        problem=query.problem,
        query=content,
        settings=settings_of(query),
        rounds_planned=content["plan"]["rounds"],
        rounds=[_round_status(round, live.get(round.round)) for round in rounds],
        guarantees=prepared(query).guarantees,
    )


def _round_status(round: StoredRound, live: ProgressPort | None) -> RoundStatus:
    numbers: ProgressPort | StoredRound = live if live is not None and round.state == "open" else round
    return RoundStatus(
        round=round.round,
        index=round.index,
        state=round.state,
        asked=numbers.asked,
        contacted=numbers.contacted,
        completed=numbers.completed,
        target=round.target,
        opened=round.opened,
        deadline=round.deadline,
        released=round.released,
    )


def ledger_view(ledger: Ledger, asked_by: Mapping[str, str]) -> LedgerView:
    """The budget and every charge; `asked_by` says who asked a query, which is its charge's reference."""
    charges = []
    for entry in ledger.history():
        query = entry.reference if entry.reference in asked_by else None
        charges.append(
            Charge(
                id=entry.id,
                time=entry.time.timestamp(),
                what=entry.what,
                by=asked_by[query] if query else "",
                epsilon=entry.epsilon,
                delta=entry.delta,
                rounds=entry.rounds,
                query=query,
            )
        )
    spent, left = ledger.spent, ledger.left
    return LedgerView(
        epsilon=ledger.epsilon,
        delta=ledger.delta,
        spent_epsilon=spent.epsilon,
        spent_delta=spent.delta,
        left_epsilon=left.epsilon,
        left_delta=left.delta,
        charges=charges,
    )


def fleet_view(fleet: str, collector: CollectorPort, aggregator: AggregatorPort) -> FleetView:
    """Devices enrolled and active, and which roles answer."""
    roles = {"coordinator": "ready", "collector": "ready", "aggregator": "ready"}
    enrolled, active, check_ins = 0, 0, list[tuple[float, int]]()
    try:
        overview = collector.overview()
        enrolled, active, check_ins = overview.enrolled, overview.active, list(overview.check_ins)
    except ThresherError as error:
        roles["collector"] = error.code
    try:
        aggregator.public_key()
    except ThresherError as error:
        roles["aggregator"] = error.code
    return FleetView(fleet=fleet, enrolled=enrolled, active=active, check_ins=check_ins, roles=roles)

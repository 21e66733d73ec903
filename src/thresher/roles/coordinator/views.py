"""Stored queries and rounds as the messages that analysts see. All numbers in them are public."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from thresher.errors import InvalidFormat, InvalidSetting, ThresherError
from thresher.ledger import Entry, Ledger
from thresher.mechanism.response import RoundNumbers
from thresher.privacy.budget import Budget, Sums
from thresher.privacy.plans import Plan
from thresher.protocol.analyst_messages import (
    BudgetPeriod,
    Charge,
    FleetView,
    LedgerView,
    QueryStatus,
    RoundSettings,
    RoundStatus,
)
from thresher.protocol.configurations import Guarantees, GuaranteesStated
from thresher.protocol.messages import Message, decode, encode
from thresher.protocol.states import QueryState, RoundState
from thresher.roles.coordinator.admission import rates_of
from thresher.roles.ports import AggregatorPort, CollectorPort
from thresher.verbs.query import Query, query_from_dict

if TYPE_CHECKING:
    from thresher.roles.coordinator.store import StoredQuery, StoredRound


class Prepared(Message, frozen=True, kw_only=True, omit_defaults=True):
    """What was fixed when a query was taken: its guarantees, a hash of the request it came from, and its steps."""

    guarantees: GuaranteesStated
    request: str
    steps: int | None = None
    """How many times its rounds are waited for. Earlier versions did not store it: then every round is a step."""
    contributions: int = 1

    @classmethod
    def of(cls, guarantees: Guarantees, request: str, steps: int | None) -> Prepared:
        """For a query with these guarantees."""
        return cls(
            guarantees=GuaranteesStated.of(guarantees),
            request=request,
            steps=steps,
            contributions=guarantees.contributions,
        )


def prepared(query: StoredQuery) -> Prepared:
    """What was fixed when a query was taken."""
    return decode(Prepared, query.prepared)


def same_request(query: StoredQuery, request_hash: str) -> bool:
    """Whether a stored query came from this request; False for a query that cannot be read."""
    try:
        return prepared(query).request == request_hash
    except InvalidFormat:
        return False


def query_of(query: StoredQuery) -> Query:
    """A stored query as a value; `InvalidFormat` or `InvalidSetting` if it cannot be read."""
    return query_from_dict(_content(query))


def plan_of(query: StoredQuery) -> Plan:
    """The plan of a stored query, whole or in short; `InvalidFormat` or `InvalidSetting` if it cannot be read."""
    try:
        return Plan.from_dict(_content(query)["plan"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidFormat("This stored query cannot be read.") from None


def paid_by(query: StoredQuery, index: int) -> tuple[str, int]:
    """The charge that pays for a round of a query, and which of its rounds it is there.

    A query pays for itself. The query of a series' date number n, with r rounds, has the series' rounds from n·r on.
    """
    if query.series is None:
        return query.id, index
    assert query.number is not None
    return query.series, query.number * plan_of(query).rounds + index


def settings_of(query: StoredQuery) -> RoundSettings:
    """The settings of a stored query's rounds, all filled in; `InvalidFormat` if they cannot be read."""
    return decode(RoundSettings, query.settings)


def guarantees_of(query: StoredQuery) -> Guarantees:
    """A stored query's guarantees. Thresher 0.1.0 did not store `injected`: it follows from plan and settings."""
    fixed = prepared(query)
    stated = fixed.guarantees
    if stated.injected is None:
        plan = plan_of(query)
        return Guarantees.of(plan, rates_of(plan, settings_of(query)))
    return Guarantees(
        analyst=stated.analyst,
        contact_list=stated.contact_list,
        injected=stated.injected,
        contributions=fixed.contributions,
    )


def status(query: StoredQuery, rounds: Sequence[StoredRound], live: Mapping[str, RoundNumbers]) -> QueryStatus:
    """Where a query stands. A query in short gives a status without lists of values. `live` has newer numbers.

    Guarantee: never fails, whatever the store holds. Parts that cannot be read, because another version wrote them or
    because they are damaged, are left empty and named in `problem`.
    """
    lost: list[str] = []
    content = _read(lost, "question", lambda: _described(query)) or {}
    settings = _read(lost, "settings", lambda: settings_of(query)) or RoundSettings()
    guarantees = _read(lost, "guarantees", lambda: guarantees_of(query))
    shown = [
        found
        for round in rounds
        if (found := _read(lost, "rounds", partial(_round_status, round, live.get(round.round)))) is not None
    ]
    steps = _read(lost, "guarantees", lambda: prepared(query).steps)
    state = query.state
    if state not in tuple(QueryState):
        lost.append("state")
        state = QueryState.FAILED
    said = [] if query.problem is None else [query.problem]
    if lost:
        said.append(f"What is stored of this query cannot be read: its {' and '.join(dict.fromkeys(lost))}.")
    return QueryStatus(
        id=query.id,
        name=query.name,
        verb=query.verb,
        what=query.what,
        by=query.by,
        state=state,
        created=query.created,
        ended=query.ended,
        problem=" ".join(said) or None,
        query=content,
        settings=settings,
        rounds_planned=content["plan"]["rounds"] if content else 0,
        rounds=shown,
        guarantees=guarantees,
        series=query.series,
        steps_planned=steps or (content["plan"]["rounds"] if content else 0),
    )


def written(standing: QueryStatus, whole: StoredQuery) -> bytes:
    """A status as JSON, with the whole query in place of the query in short.

    Edge cases: where the whole query cannot be read, the query in short stays, and `problem` says so.
    """
    if not standing.query:
        return encode(standing)
    try:
        query = msgspec.json.decode(whole.query, type=msgspec.Raw)
    except msgspec.DecodeError:
        lost = "What is stored of this query cannot be read: its question."
        return encode(msgspec.structs.replace(standing, problem=f"{standing.problem or ''} {lost}".strip()))
    return msgspec.json.encode(msgspec.structs.asdict(standing) | {"query": query})


T = TypeVar("T")


def _read(lost: list[str], name: str, reading: Callable[[], T]) -> T | None:
    try:
        return reading()
    except (InvalidFormat, InvalidSetting):
        lost.append(name)
        return None


def _content(query: StoredQuery) -> dict[str, Any]:
    try:
        content = json.loads(query.query)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InvalidFormat("This stored query cannot be read.")
    return content


class _Plan(msgspec.Struct):
    """What pages and lists show of a plan."""

    epsilon: float
    delta: float
    sampling_rate: float
    threshold: int
    rounds: int


def _described(query: StoredQuery) -> dict[str, Any]:
    """A stored query as plain values. Whether it can be run is not checked here: lists would take too long."""
    content = _content(query)
    try:
        msgspec.convert(content.get("plan"), _Plan)
    except msgspec.ValidationError:
        raise InvalidFormat("This stored query cannot be read.") from None
    return content


def _round_status(round: StoredRound, live: RoundNumbers | None) -> RoundStatus:
    newest = live if live is not None and round.state == RoundState.OPEN else round
    return RoundStatus(
        round=round.round,
        index=round.index,
        state=round.state,
        **newest.numbers,
        target=round.target,
        opened=round.opened,
        deadline=round.deadline,
        released=round.released,
    )


def ledger_view(ledger: Ledger, asked_by: Mapping[str, str], series_by: Mapping[str, str]) -> LedgerView:
    """The budget and every charge. A charge refers to its query or series by id; `…_by` has who asked for each."""
    charges, budget, periods, promises = [], ledger.budget, ledger.periods, ledger.promises
    history = ledger.history()
    seconds = None if periods is None else periods.seconds
    for entry, used in zip(history, _used(budget, history, promises[0].time, seconds), strict=True):
        reference = entry.reference
        charges.append(
            Charge(
                id=entry.id,
                time=entry.time.timestamp(),
                what=entry.what,
                by=asked_by.get(reference) or series_by.get(reference, ""),
                epsilon=entry.epsilon,
                delta=entry.delta,
                rounds=entry.rounds,
                contributions=entry.contributions,
                query=reference if reference in asked_by else None,
                series=reference if reference in series_by else None,
                drawn=entry.drawn,
                given_back=entry.given_back,
                share=budget.share(entry.charge, entry.rounds - entry.given_back),
                used=used,
            )
        )
    spent, left = ledger.spent, ledger.left
    return LedgerView(
        epsilon=ledger.epsilon,
        delta=ledger.delta,
        spent_epsilon=spent.epsilon if math.isfinite(spent.epsilon) else None,
        spent_delta=spent.delta,
        left_epsilon=left.epsilon,
        left_delta=left.delta,
        charges=charges,
        composition=ledger.composition,
        spent_share=spent.share,
        left_share=left.share,
        data_set=ledger.data_set,
        promises=[(promise.time.timestamp(), promise.epsilon) for promise in promises],
        period=None
        if periods is None
        else BudgetPeriod(
            seconds=periods.seconds,
            number=periods.current + 1,
            ends=periods.ends.timestamp(),
            used=periods.used,
            together_epsilon=periods.epsilon,
            together_delta=periods.delta,
        ),
    )


def _used(budget: Budget, history: Sequence[Entry], created: dt.datetime, seconds: float | None) -> Iterator[float]:
    """The part of the budget that each charge and those before it take; with periods, those before it in its period."""
    sums, current = Sums(), 0
    for entry in history:
        period = 0 if seconds is None else int((entry.time - created).total_seconds() // seconds)
        if period != current:
            sums, current = Sums(), period
        kept = entry.rounds - entry.given_back
        sums = sums.plus(entry.charge, rounds=kept, whole=kept > 0)
        yield 1 - replace(budget, sums=sums).left_share


def fleet_view(fleet: str, collector: CollectorPort, aggregator: AggregatorPort) -> FleetView:
    """Devices enrolled and active, and the health of the roles."""
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

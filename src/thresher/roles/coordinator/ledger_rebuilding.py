"""A lost ledger is rebuilt from the coordinator's store, which keeps the plan of all that was charged."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from dataclasses import dataclass

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.ledger import Ledger
from thresher.privacy.plans import Plan
from thresher.privacy.units import DEVICE
from thresher.protocol.states import ACTIVE_QUERY, QueryState
from thresher.roles.coordinator import views
from thresher.roles.coordinator.series_views import reserved_for, total_of
from thresher.roles.coordinator.store import CoordinatorStore, StoredQuery

COMMAND = "thresher ledger rebuild"

_NOT_CHARGED = (QueryState.RECEIVED, QueryState.REFUSED)
"""A refused query was not charged. One that was only received is charged when it is taken up, if it is not yet."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How many charges were missing and are entered now, and how many were there already."""

    entered: int
    present: int
    forgotten: int
    """Charges of the ledger for queries and series that are not in the store; they stay."""


def rebuild(store: CoordinatorStore, ledger: Ledger) -> Rebuilt:
    """Enter every charge of the store's queries and series that the ledger lacks.

    Each query and each series that has ended is charged its whole plan under its own reference, whatever became of it;
    of one that goes on, the rounds that the store has are drawn, and the others are reserved. The sum may exceed the
    budget; the ledger then accepts nothing more. A charge that is there stays as it is, with what it has given back;
    only rounds that the store knows to have opened are drawn. Charges for queries that the store does not have, because
    it was restored from a backup, stay in the ledger.

    Guarantee: nothing is removed. A second call, also after a crash, enters only what is missing.
    Raises: `InvalidFormat` if a query's plan can be read neither from the query nor from its rounds. Nothing is entered
    then.
    """
    queries = {query.id: query for query in store.queries() if query.series is None}
    series = {each.id: each for each in store.all_series()}
    charged = store.charged_ids() | {query.id for query in queries.values() if query.state not in _NOT_CHARGED}
    forgotten = ledger.references() - queries.keys() - series.keys() - charged
    ordered = [*(id for id in (*queries, *series) if id in charged), *sorted(charged - queries.keys() - series.keys())]
    plans = {id: total_of(series[id]) if id in series else _plan(store, id, queries.get(id)) for id in ordered}
    drawn = _drawn(store)
    entered = 0
    for id, plan in plans.items():
        found = queries.get(id) or series.get(id)
        what = "a query that is no longer stored" if found is None else found.what
        if id in series:
            what = reserved_for(series[id])
        made = None if found is None else dt.datetime.fromtimestamp(found.created, dt.UTC)
        entered += ledger.restore(plan, what, DEVICE, id, made, drawn=drawn.get(id))
    draw_opened(store, ledger)
    return Rebuilt(entered, len(plans) - entered, len(forgotten))


def draw_opened(store: CoordinatorStore, ledger: Ledger) -> None:
    """Mark as drawn what the store knows to have opened, as in a ledger that was restored from a backup.

    Raises: `Conflict` if the ledger has given such a round back: then it is not this store's.
    """
    behind = {
        entry.reference: ledger.drawn(entry.reference) for entry in ledger.history() if entry.drawn < entry.rounds
    }
    rounds = store.all_shown_rounds() if behind else {}
    for query in store.queries() if rounds else ():
        for round in rounds.get(query.id, ()):
            reference, position = views.paid_by(query, round.index)
            if round.opened is not None and position not in behind.get(reference, {position}):
                ledger.draw(reference, position)


def _drawn(store: CoordinatorStore) -> dict[str, set[int]]:
    """For each query and series that goes on, the rounds that the store has: each was planned before it was drawn."""
    drawn: dict[str, set[int]] = {each.id: set() for each in store.unsettled_series()}
    rounds = store.all_shown_rounds()
    for query in store.queries():
        if query.series is None and query.state in ACTIVE_QUERY:
            drawn[query.id] = set()
        for round in rounds.get(query.id, ()):
            with contextlib.suppress(InvalidFormat, InvalidSetting):
                reference, position = views.paid_by(query, round.index)
                drawn.get(reference, set()).add(position)
    return drawn


def _plan(store: CoordinatorStore, id: str, query: StoredQuery | None) -> Plan:
    """The plan of a query, from the query itself or from the configuration of one of its rounds."""
    texts: list[str | bytes] = [round.configuration for round in store.rounds(id)]
    if query is not None:
        texts.insert(0, query.query)
    for text in texts:
        try:
            return Plan.from_dict(json.loads(text)["plan"])
        except (InvalidFormat, InvalidSetting, ValueError, TypeError, LookupError, RecursionError):
            continue
    raise InvalidFormat(
        f"The plan of query {id} cannot be read, so what it was charged is not known.",
        hint="Nothing was entered. Restore the ledger from a backup, or the store.",
    )

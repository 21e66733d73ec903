"""A lost ledger is rebuilt from the coordinator's store, which keeps the plan of every query that was charged."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.ledger import Ledger
from thresher.privacy.plans import Plan
from thresher.privacy.units import DEVICE
from thresher.protocol.states import QueryState
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
    """Charges of the ledger for queries that are not in the store; they stay."""


def rebuild(store: CoordinatorStore, ledger: Ledger) -> Rebuilt:
    """Enter every charge of the store's queries that the ledger lacks.

    Each query is charged its whole plan under its own reference, whatever became of it. The sum may exceed the budget;
    the ledger then accepts nothing more. Charges for queries that the store does not have, because it was restored from
    a backup, stay in the ledger.

    Guarantee: nothing is removed. A second call, also after a crash, enters only what is missing.
    Raises: `InvalidFormat` if a query's plan can be read neither from the query nor from its rounds. Nothing is entered
    then.
    """
    queries = {query.id: query for query in store.queries()}
    charged = store.charged_ids() | {query.id for query in queries.values() if query.state not in _NOT_CHARGED}
    forgotten = ledger.references() - queries.keys() - charged
    ordered = [*(id for id in queries if id in charged), *sorted(charged - queries.keys())]
    plans = {id: _plan(store, id, queries.get(id)) for id in ordered}
    entered = 0
    for id, plan in plans.items():
        query = queries.get(id)
        what = "a query that is no longer stored" if query is None else query.what
        made = None if query is None else dt.datetime.fromtimestamp(query.created, dt.UTC)
        entered += ledger.restore(plan, what, DEVICE, id, made)
    return Rebuilt(entered, len(plans) - entered, len(forgotten))


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

"""Where each role keeps what must survive: SQLite files or PostgreSQL, behind one class a role."""

from thresher.fleet.store.aggregator import AggregatorStore
from thresher.fleet.store.collector import CollectorStore, Progress
from thresher.fleet.store.coordinator import CoordinatorStore, StoredQuery, StoredRound, StoredToken
from thresher.fleet.store.database import open_database
from thresher.fleet.store.enrolment import EnrolledDevice, EnrolmentKey, Entry, NewDevice, Overview
from thresher.fleet.store.reports import NewReport, Outcome

__all__ = [
    "AggregatorStore",
    "CollectorStore",
    "CoordinatorStore",
    "EnrolledDevice",
    "EnrolmentKey",
    "Entry",
    "NewDevice",
    "NewReport",
    "Outcome",
    "Overview",
    "Progress",
    "StoredQuery",
    "StoredRound",
    "StoredToken",
    "open_database",
]

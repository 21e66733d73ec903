"""The states of queries and of rounds, each with its meaning. docs/protocol.md (sections 2, 3) draws the transitions.

The coordinator's states are sent to analysts. The collector's and the aggregator's are kept in their own stores only.
"""

from __future__ import annotations

from enum import StrEnum


class QueryState(StrEnum):
    """Where a query stands."""

    RECEIVED = "received"
    """Stored, and not charged yet. A query of a series, which the series has paid for, waits here for room."""
    RUNNING = "running"
    """Charged. Its rounds are run; those that do not depend on one another at the same time."""
    DONE = "done"
    """Every release that its answer needs is stored."""
    CANCELLED = "cancelled"
    """Stopped by a person. Rounds that were drawn stay charged."""
    REFUSED = "refused"
    """The budget had too little left. Nothing was charged."""
    FAILED = "failed"
    """It could not go on. Rounds that were drawn stay charged."""


ACTIVE_QUERY = (QueryState.RECEIVED, QueryState.RUNNING)
STOPPED_QUERY = (QueryState.CANCELLED, QueryState.FAILED)
"""The query has ended without an answer, and may have left reports that are to be forgotten."""
ENDED_QUERY = (QueryState.DONE, QueryState.REFUSED, *STOPPED_QUERY)


class SeriesState(StrEnum):
    """Where a series stands."""

    RECEIVED = "received"
    """Stored, and its budget is not reserved yet."""
    RUNNING = "running"
    """Its budget is reserved. Each of its dates is asked when it is due."""
    PAUSED = "paused"
    """Its dates pass without being asked, until somebody resumes it."""
    DONE = "done"
    """All its dates have passed."""
    ENDED = "ended"
    """A person ended it before its last date."""


OPEN_SERIES = (SeriesState.RECEIVED, SeriesState.RUNNING, SeriesState.PAUSED)
"""It may still ask. What it reserved is not given back."""


class GapState(StrEnum):
    """Why a date of a series has no release."""

    MISSED = "missed"
    """The server did not run while the release could have started."""
    PAUSED = "paused"
    """The series was paused."""


class DeliveryState(StrEnum):
    """Where the message to an alert's webhook stands."""

    WAITING = "waiting"
    """It is sent at its time, and again after a failure."""
    SENT = "sent"
    """The receiver has taken it."""
    GIVEN_UP = "given up"
    """Every try failed, the rule was removed, or too many messages were waiting already."""


class RoundState(StrEnum):
    """Where a round stands at the coordinator."""

    PLANNED = "planned"
    """Its configuration is stored."""
    OPEN = "open"
    """The collector shows it to devices and takes their reports."""
    CLOSED = "closed"
    """No more reports are taken, and its numbers are final."""
    FORWARDED = "forwarded"
    """The aggregator has every report."""
    RELEASED = "released"
    """Its release is stored, and its reports are forgotten."""
    DROPPED = "dropped"
    """Its query was stopped, and its reports are forgotten unread."""


ENDED_ROUND = (RoundState.RELEASED, RoundState.DROPPED)


class CollectedState(StrEnum):
    """Where a round stands at the collector."""

    OPEN = "open"
    CLOSED = "closed"
    FORWARDED = "forwarded"
    """The aggregator has every report, and the sealed reports are deleted here."""
    FORGETTING = "forgetting"
    """Its tables are dropped, and their pages are not known to be overwritten."""
    FORGOTTEN = "forgotten"
    """Only its numbers and its configuration are left."""


class AggregatedState(StrEnum):
    """Where a round stands at the aggregator."""

    COLLECTING = "collecting"
    """It takes batches of reports."""
    RELEASED = "released"
    """Its release is stored, and its reports are to be forgotten."""
    EMPTYING = "emptying"
    """Its reports are being deleted."""
    FORGETTING = "deleting"
    """Its table is dropped, and the pages are not known to be overwritten."""
    FORGOTTEN = "deleted"
    """No report is left. Without a release it never has one."""


WITHOUT_REPORTS = (AggregatedState.EMPTYING, AggregatedState.FORGETTING, AggregatedState.FORGOTTEN)
TO_FORGET = (AggregatedState.RELEASED, AggregatedState.EMPTYING, AggregatedState.FORGETTING)

"""What the coordinator keeps of series: each with its schedule, and what became of each of its dates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING

from thresher.errors import Conflict
from thresher.protocol.states import ACTIVE_QUERY, GapState, QueryState, SeriesState
from thresher.roles.coordinator.outlines import outlined
from thresher.roles.database.database import Store, Transaction, marks

if TYPE_CHECKING:
    from thresher.roles.coordinator.store import StoredQuery

_SERIES = (
    "id, asked_by, name, verb, what, query, settings, prepared, schedule, state, passed, created, changed, changed_by, "
    "ended, settled"
)
_WHOLE_SERIES = _SERIES.replace(
    " query,", " COALESCE((SELECT body.query FROM query_bodies body WHERE body.id = series.id), query),"
)


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """A series as it was asked, and where it stands. `query`, `settings`, `prepared` and `schedule` are JSON.

    `SeriesTables.series` returns it with the whole `query`; all other methods return it in short (`outlined`).
    """

    id: str
    by: str
    name: str
    verb: str
    what: str
    query: str
    settings: str
    prepared: str
    """What the coordinator fixed when it took the series: its guarantees, and the hash of the request."""
    schedule: str
    state: SeriesState
    passed: int
    """How many dates have come. Each of them has a query or is a gap."""
    created: float
    changed: float | None = None
    changed_by: str | None = None
    ended: float | None = None
    settled: float | None = None
    """When what it did not draw was given back; None before that."""


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A query of a series, in as few words as a list of dates needs."""

    number: int
    query: str
    state: QueryState
    ended: float | None


class SeriesTables(Store):
    """Series and their gaps. A date has a query or is a gap, once and for all.

    Guarantee: each method is one transaction, durable when it returns.
    """

    @abstractmethod
    def _insert_query(self, transaction: Transaction, query: StoredQuery) -> bool:
        """Store a query unless its caller has one of its name; whether it is new."""

    def create_series(self, series: StoredSeries) -> tuple[StoredSeries, bool]:
        """Store a series unless its caller has one of its name; returns the stored series and whether it is new."""
        short = outlined(series.query)
        values = astuple(replace(series, query=short))
        with self._database.transaction() as transaction:
            new = transaction.execute(
                f"INSERT INTO series ({_SERIES}) VALUES ({marks(values)}) ON CONFLICT (asked_by, name) DO NOTHING",  # noqa: S608
                values,
            )
            if new and short != series.query:
                put_body(transaction, series.id, series.query)
            [row] = transaction.fetch(
                f"SELECT {_SERIES} FROM series WHERE asked_by = ? AND name = ?",  # noqa: S608
                (series.by, series.name),
            )
            return StoredSeries(*row), new == 1

    def delete_received_series(self, id: str) -> None:
        """Delete a series whose budget was not reserved."""
        with self._database.transaction() as transaction:
            gone = transaction.execute("DELETE FROM series WHERE id = ? AND state = ?", (id, SeriesState.RECEIVED))
            if gone:
                transaction.execute("DELETE FROM query_bodies WHERE id = ?", (id,))

    def series(self, id: str) -> StoredSeries | None:
        """A series by its id, whole."""
        return self._series(_WHOLE_SERIES, id)

    def series_outline(self, id: str) -> StoredSeries | None:
        """A series by its id, in short."""
        return self._series(_SERIES, id)

    def _series(self, columns: str, id: str) -> StoredSeries | None:
        rows = self._find(f"SELECT {columns} FROM series WHERE id = ?", id)  # noqa: S608
        return StoredSeries(*rows[0]) if rows else None

    def series_named(self, by: str, name: str) -> StoredSeries | None:
        """The series that a caller asked for under a name, in short."""
        rows = self._fetch(f"SELECT {_SERIES} FROM series WHERE asked_by = ? AND name = ?", by, name)  # noqa: S608
        return StoredSeries(*rows[0]) if rows else None

    def all_series(self) -> list[StoredSeries]:
        """All series in short, oldest first."""
        return [StoredSeries(*row) for row in self._fetch(f"SELECT {_SERIES} FROM series ORDER BY created, id")]  # noqa: S608

    def unsettled_series(self) -> list[StoredSeries]:
        """The series, in short, that may still ask or have something to give back; oldest first."""
        rows = self._fetch(f"SELECT {_SERIES} FROM series WHERE settled IS NULL ORDER BY created, id")  # noqa: S608
        return [StoredSeries(*row) for row in rows]

    def count_series(self, states: Collection[SeriesState]) -> int:
        """How many series are in some states."""
        [(number,)] = self._fetch(f"SELECT COUNT(*) FROM series WHERE state IN ({marks(states)})", *states)  # noqa: S608
        return int(number)

    def set_series_state(
        self,
        id: str,
        state: SeriesState,
        *,
        expected: Collection[SeriesState],
        now: float,
        by: str | None = None,
        ended: bool = False,
    ) -> bool:
        """Give a series a state, if it is in one of the expected states; whether it was. `by` is who asked for it."""
        with self._database.transaction() as transaction:
            changed = transaction.execute(
                "UPDATE series SET state = ?, changed = COALESCE(?, changed), changed_by = COALESCE(?, changed_by), "  # noqa: S608
                f"ended = ? WHERE id = ? AND state IN ({marks(expected)})",
                (state, None if by is None else now, by, now if ended else None, id, *expected),
            )
            return changed == 1

    def settle_series(self, id: str, now: float) -> None:
        """Note that what a series did not draw was given back."""
        with self._database.transaction() as transaction:
            transaction.execute("UPDATE series SET settled = COALESCE(settled, ?) WHERE id = ?", (now, id))

    def start_release(self, query: StoredQuery) -> bool:
        """Store the query of a running series' next date; False if the date has passed or the series does not run."""
        with self._database.transaction() as transaction:
            # The row's lock orders this with a pause and an end.
            mine = transaction.execute(
                "UPDATE series SET passed = passed + 1 WHERE id = ? AND passed = ? AND state = ?",
                (query.series, query.number, SeriesState.RUNNING),
            )
            if mine and not self._insert_query(transaction, query):
                raise Conflict("Another query has the name of this release.")  # nothing is stored then
            return mine == 1

    def pass_dates(self, id: str, first: int, end: int, why: GapState) -> bool:
        """Note the next dates of a series as gaps, from `first` to before `end`.

        Returns: False if `first` is not the next date, or if the series has ended.
        """
        with self._database.transaction() as transaction:
            mine = transaction.execute(
                "UPDATE series SET passed = ? WHERE id = ? AND passed = ? AND state IN (?, ?)",
                (end, id, first, SeriesState.RUNNING, SeriesState.PAUSED),
            )
            if mine:
                for number in range(first, end):
                    transaction.execute("INSERT INTO gaps (series, number, state) VALUES (?, ?, ?)", (id, number, why))
            return mine == 1

    def gaps(self, series: str) -> dict[int, GapState]:
        """The dates without a query, each with the reason."""
        return {
            number: GapState(state)
            for number, state in self._find("SELECT number, state FROM gaps WHERE series = ?", series)
        }

    def releases_of(self, series: str) -> list[StoredRelease]:
        """The queries of a series, in the order of their dates."""
        rows = self._find("SELECT number, id, state, ended FROM queries WHERE series = ? ORDER BY number", series)
        return [StoredRelease(*row) for row in rows]

    def released(self) -> dict[str, int]:
        """How many queries of each series are done."""
        rows = self._fetch(
            "SELECT series, COUNT(*) FROM queries WHERE series IS NOT NULL AND state = ? GROUP BY series",
            QueryState.DONE,
        )
        return {series: int(number) for series, number in rows}

    def asking(self, series: str) -> bool:
        """Whether a query of the series has not ended yet."""
        [(number,)] = self._fetch(
            f"SELECT COUNT(*) FROM queries WHERE series = ? AND state IN ({marks(ACTIVE_QUERY)})",  # noqa: S608
            series,
            *ACTIVE_QUERY,
        )
        return bool(number)

    def series_asked_by(self) -> dict[str, str]:
        """Who asked for each series, by its id."""
        return dict(self._fetch("SELECT id, asked_by FROM series"))


def put_body(transaction: Transaction, id: str, query: str) -> None:
    """Store a long query whole."""
    transaction.execute("INSERT INTO query_bodies (id, query) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", (id, query))

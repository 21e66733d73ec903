"""What the coordinator keeps: queries, their rounds and releases, and the tokens of people and peers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from thresher.errors import NotFound
from thresher.mechanism.response import RoundNumbers
from thresher.protocol.states import ENDED_ROUND, QueryState, RoundState, SeriesState
from thresher.roles.coordinator.alert_store import AlertTables
from thresher.roles.coordinator.outlines import LONGEST, outlined
from thresher.roles.coordinator.series_store import SeriesTables, put_body
from thresher.roles.database.database import Transaction, is_name, marks, open_database

_QUERY = "id, asked_by, name, verb, what, query, settings, prepared, state, created, ended, problem, series, number"
_WHOLE_QUERY = _QUERY.replace(
    " query,",
    " COALESCE((SELECT body.query FROM query_bodies body WHERE body.id = COALESCE(queries.series, queries.id)), "
    "query),",
)
_ROUND = (
    "asked, contacted, completed, round, query, position, state, deadline, target, batches, planned, opened, closed, "
    "released"
)
_WHOLE_ROUND = f"{_ROUND}, configuration"
_TOKEN = "id, kind, name, created, expires, revoked"  # noqa: S105


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """A query as it was asked, and where it stands. `query`, `settings` and `prepared` are JSON.

    `CoordinatorStore.query` returns it with the whole `query`; all other methods return it in short (`outlined`).
    """

    id: str
    by: str
    name: str
    verb: str
    what: str
    query: str
    settings: str
    prepared: str
    """What the coordinator fixed when it took the query: the plan and rates of all its rounds."""
    state: QueryState
    created: float
    ended: float | None = None
    problem: str | None = None
    series: str | None = None
    """The series that asked it, and that pays for it."""
    number: int | None = None
    """Which date of the series it is the release of, from 0."""


@dataclass(frozen=True, slots=True)
class StoredRound(RoundNumbers):
    """A round of a query, without its release. Where only its numbers were asked for, `configuration` is empty."""

    round: str
    query: str
    index: int
    state: RoundState
    deadline: float
    target: int | None
    batches: int | None
    planned: float
    opened: float | None
    closed: float | None
    released: float | None
    configuration: bytes = b""


@dataclass(frozen=True, slots=True)
class NewRound:
    """A round that is planned: its name, its place among the query's rounds, and when it closes."""

    index: int
    round: str
    configuration: bytes
    deadline: float
    target: int | None


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token that opens routes; the token itself is not kept."""

    id: str
    kind: str
    name: str
    created: float
    expires: float | None
    revoked: float | None

    def valid(self, now: float) -> bool:
        """Whether it opens anything now."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class CoordinatorStore(SeriesTables, AlertTables):
    """Queries, series, rounds, releases, tokens. Everything but states is written once: the first write counts.

    Guarantee: each method is one transaction, durable when it returns.
    """

    @classmethod
    def open(cls, where: str | Path) -> CoordinatorStore:
        """The store in a directory or at a `postgresql://` address."""
        store = cls(open_database(where, "coordinator"))
        try:
            store._shorten()
        except BaseException:
            store.close()
            raise
        return store

    def _shorten(self) -> None:
        """Move the long queries that an earlier version stored to the table that lists do not read."""
        long = self._fetch(
            "SELECT id FROM queries WHERE length(query) > ? AND series IS NULL "
            "AND id NOT IN (SELECT id FROM query_bodies)",
            LONGEST,
        )
        for (id,) in long:
            with self._database.transaction() as transaction:
                [(query,)] = transaction.fetch("SELECT query FROM queries WHERE id = ?", (id,))
                put_body(transaction, id, query)
                transaction.execute("UPDATE queries SET query = ? WHERE id = ?", (outlined(query), id))

    def create_query(self, query: StoredQuery) -> tuple[StoredQuery, bool]:
        """Store a query unless its caller has one of its name; returns the stored query and whether it is new."""
        with self._database.transaction() as transaction:
            new = self._insert_query(transaction, query)
            [row] = transaction.fetch(
                f"SELECT {_QUERY} FROM queries WHERE asked_by = ? AND name = ?",  # noqa: S608
                (query.by, query.name),
            )
            return StoredQuery(*row), new

    def _insert_query(self, transaction: Transaction, query: StoredQuery) -> bool:
        short = outlined(query.query)
        values = astuple(replace(query, query=short))
        new = transaction.execute(
            f"INSERT INTO queries ({_QUERY}) VALUES ({marks(values)}) "  # noqa: S608
            "ON CONFLICT (asked_by, name) DO NOTHING",
            values,
        )
        if new and short != query.query:
            put_body(transaction, query.id, query.query)
        return new == 1

    def query(self, id: str) -> StoredQuery | None:
        """A query by its id, whole."""
        return self._query(_WHOLE_QUERY, id)

    def outline(self, id: str) -> StoredQuery | None:
        """A query by its id, in short."""
        return self._query(_QUERY, id)

    def _query(self, columns: str, id: str) -> StoredQuery | None:
        rows = self._find(f"SELECT {columns} FROM queries WHERE id = ?", id)  # noqa: S608
        return StoredQuery(*rows[0]) if rows else None

    def named(self, by: str, name: str) -> StoredQuery | None:
        """The query that a caller asked under a name, in short."""
        rows = self._fetch(f"SELECT {_QUERY} FROM queries WHERE asked_by = ? AND name = ?", by, name)  # noqa: S608
        return StoredQuery(*rows[0]) if rows else None

    def count(self, states: Collection[QueryState], *, of_series: bool) -> int:
        """How many queries of series are in some states; or how many that somebody asked once."""
        whose = "series IS NOT NULL" if of_series else "series IS NULL"
        [(number,)] = self._fetch(
            f"SELECT COUNT(*) FROM queries WHERE {whose} AND state IN ({marks(states)})",  # noqa: S608
            *states,
        )
        return int(number)

    def asked_by(self) -> dict[str, str]:
        """Who asked each query that pays for itself, by its id."""
        return dict(self._fetch("SELECT id, asked_by FROM queries WHERE series IS NULL"))

    def queries(self, states: Collection[QueryState] | None = None) -> list[StoredQuery]:
        """All queries in short, oldest first; or those in some states."""
        wanted = "" if states is None else f"WHERE state IN ({marks(states)})"
        rows = self._fetch(f"SELECT {_QUERY} FROM queries {wanted} ORDER BY created, id", *(states or ()))  # noqa: S608
        return [StoredQuery(*row) for row in rows]

    def charged_ids(self) -> set[str]:
        """The ids that must be on the ledger: queries that run or are done or have a round, and all series.

        A query has its first round after its charge, so one that was cancelled or failed later is among them. A query
        of a series is not: its series was charged before its first query.
        """
        rows = self._fetch(
            "SELECT id FROM queries WHERE state IN (?, ?) AND series IS NULL UNION "
            "SELECT query FROM rounds WHERE query NOT IN (SELECT id FROM queries WHERE series IS NOT NULL) UNION "
            "SELECT id FROM series WHERE state <> ?",
            QueryState.RUNNING,
            QueryState.DONE,
            SeriesState.RECEIVED,
        )
        return {id for (id,) in rows}

    def set_state(
        self,
        id: str,
        state: QueryState,
        *,
        expected: Collection[QueryState],
        ended: float | None = None,
        problem: str | None = None,
    ) -> bool:
        """Give a query a state and its end, if it is in one of the expected states; whether it was."""
        with self._database.transaction() as transaction:
            changed = transaction.execute(
                "UPDATE queries SET state = ?, ended = ?, problem = ? "  # noqa: S608
                f"WHERE id = ? AND state IN ({marks(expected)})",
                (state, ended, problem, id, *expected),
            )
            if changed and state == QueryState.REFUSED:  # nobody will run it, so it stays in short only
                transaction.execute("DELETE FROM query_bodies WHERE id = ?", (id,))
            return changed == 1

    def delete_refused(self, keep: int) -> None:
        """Delete refused queries, which have no rounds and no charge, but the `keep` newest."""
        with self._database.transaction() as transaction:
            transaction.execute(
                "DELETE FROM queries WHERE state = ? AND id NOT IN "
                "(SELECT id FROM queries WHERE state = ? ORDER BY created DESC, id DESC LIMIT ?)",
                (QueryState.REFUSED, QueryState.REFUSED, keep),
            )

    def claim(self) -> None:
        """Reserve the store for this process; `StoreUnavailable` while another process has reserved it.

        Edge cases: a claim ends with its process and with its connection. Call it again before relying on it.
        """
        self._database.claim()

    def plan_rounds(self, query: str, rounds: Sequence[NewRound], now: float) -> None:
        """Store rounds of a query, all in one transaction; a round that the query has of an index stays as it is."""
        with self._database.transaction() as transaction:
            for new in rounds:
                transaction.execute(
                    "INSERT INTO rounds (round, query, position, configuration, state, deadline, target, asked, "
                    "contacted, completed, planned) VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, 0, ?) "
                    "ON CONFLICT (query, position) DO NOTHING",
                    (
                        new.round, query, new.index, new.configuration, RoundState.PLANNED, new.deadline, new.target,
                        now,
                    ),
                )  # fmt: skip

    def end_open_rounds(self, query: str, now: float) -> int:
        """Let the deadline of a query's open rounds be now, unless it was earlier; how many rounds that were.

        Edge cases: none while a round of the query is planned. The rounds of its step are opening one by one, and those
        that are not open yet would not be ended.
        """
        with self._database.transaction() as transaction:
            return transaction.execute(
                "UPDATE rounds SET deadline = CASE WHEN deadline < ? THEN deadline ELSE ? END "
                "WHERE query = ? AND state = ? AND NOT EXISTS ("
                "SELECT 1 FROM rounds other WHERE other.query = rounds.query AND other.state = ?)",
                (now, now, query, RoundState.OPEN, RoundState.PLANNED),
            )

    def set_round_state(
        self,
        round: str,
        state: RoundState,
        *,
        numbers: RoundNumbers | None = None,
        batches: int | None = None,
        opened: float | None = None,
        closed: float | None = None,
    ) -> None:
        """Set a round's state and what else is given; what is None stays as it was.

        Edge cases: a round that is released or dropped does not change any more.
        """
        counted = (None, None, None) if numbers is None else tuple(numbers.numbers.values())
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE rounds SET state = ?, asked = COALESCE(?, asked), contacted = COALESCE(?, contacted), "
                "completed = COALESCE(?, completed), batches = COALESCE(?, batches), opened = COALESCE(?, opened), "
                "closed = COALESCE(?, closed) WHERE round = ? AND state NOT IN (?, ?)",
                (state, *counted, batches, opened, closed, round, *ENDED_ROUND),
            )

    def store_release(self, round: str, release: str, now: float) -> str:
        """Store a round's release and mark the round as released, unless it has one; returns the stored release."""
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE rounds SET state = ?, release = ?, released = ? WHERE round = ? AND release IS NULL",
                (RoundState.RELEASED, release, now, round),
            )
            rows = transaction.fetch("SELECT release FROM rounds WHERE round = ?", (round,))
            if not rows:
                raise NotFound("There is no such round.")
            stored: str = rows[0][0]
            return stored

    def round(self, round: str) -> StoredRound | None:
        """A round by its name."""
        rows = self._find(f"SELECT {_WHOLE_ROUND} FROM rounds WHERE round = ?", round)  # noqa: S608
        return StoredRound(*rows[0]) if rows else None

    def rounds(self, query: str) -> list[StoredRound]:
        """The rounds of a query, in order."""
        rows = self._find(f"SELECT {_WHOLE_ROUND} FROM rounds WHERE query = ? ORDER BY position", query)  # noqa: S608
        return [StoredRound(*row) for row in rows]

    def shown_rounds(self, query: str) -> list[StoredRound]:
        """The rounds of a query, in order, without their configurations."""
        rows = self._find(f"SELECT {_ROUND} FROM rounds WHERE query = ? ORDER BY position", query)  # noqa: S608
        return [StoredRound(*row) for row in rows]

    def all_shown_rounds(self) -> dict[str, list[StoredRound]]:
        """The rounds of every query that has any, in order, without their configurations."""
        found: dict[str, list[StoredRound]] = {}
        for row in self._fetch(f"SELECT {_ROUND} FROM rounds ORDER BY query, position"):  # noqa: S608
            round = StoredRound(*row)
            found.setdefault(round.query, []).append(round)
        return found

    def unfinished_rounds(self) -> list[StoredRound]:
        """The rounds that have neither a release nor been dropped."""
        rows = self._fetch(f"SELECT {_WHOLE_ROUND} FROM rounds WHERE state NOT IN (?, ?)", *ENDED_ROUND)  # noqa: S608
        return [StoredRound(*row) for row in rows]

    def releases(self, query: str) -> list[str]:
        """The releases of a query, in order, up to the first round without one.

        Rounds that are open together may be released in another order; a release without those before it is held back.
        """
        rows = self._find(
            "SELECT release FROM rounds WHERE query = ? AND release IS NOT NULL AND NOT EXISTS ("
            "SELECT 1 FROM rounds earlier WHERE earlier.query = rounds.query AND earlier.position < rounds.position "
            "AND earlier.release IS NULL) ORDER BY position",
            query,
        )
        return [release for (release,) in rows]

    def add_token(
        self, id: str, kind: str, token_hash: bytes, name: str, *, now: float, expires: float | None = None
    ) -> bool:
        """Store a token's hash; False if the token is known already, and nothing is changed then."""
        with self._database.transaction() as transaction:
            added = transaction.execute(
                "INSERT INTO tokens (id, kind, token_hash, name, created, expires) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (token_hash) DO NOTHING",
                (id, kind, token_hash, name, now, expires),
            )
        return added == 1

    def tokens(self) -> list[StoredToken]:
        """All tokens, oldest first."""
        rows = self._fetch(f"SELECT {_TOKEN} FROM tokens ORDER BY created, id")  # noqa: S608
        return [StoredToken(*row) for row in rows]

    def token(self, token_hash: bytes) -> StoredToken | None:
        """The token with this hash."""
        rows = self._fetch(f"SELECT {_TOKEN} FROM tokens WHERE token_hash = ?", token_hash)  # noqa: S608
        return StoredToken(*rows[0]) if rows else None

    def revoke_token(self, id: str, now: float) -> bool:
        """Make a token worthless; False if there is no such token. A second time changes nothing."""
        if not is_name(id):
            return False
        with self._database.transaction() as transaction:
            changed = transaction.execute("UPDATE tokens SET revoked = COALESCE(revoked, ?) WHERE id = ?", (now, id))
        return changed == 1

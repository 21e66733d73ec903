"""What the coordinator keeps: queries, their rounds and releases, and the tokens of people and peers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from thresher.errors import NotFound
from thresher.protocol.messages import QueryState, RoundState
from thresher.roles.coordinator.outlines import LONGEST, outlined
from thresher.roles.database.database import Row, Store, Transaction, is_name, open_database

_QUERY = "id, asked_by, name, verb, what, query, settings, prepared, state, created, ended, problem"
_WHOLE_QUERY = _QUERY.replace(
    " query,", " COALESCE((SELECT body.query FROM query_bodies body WHERE body.id = queries.id), query),"
)
_ROUND = (
    "round, query, position, configuration, state, deadline, target, asked, contacted, completed, batches, planned, "
    "opened, closed, released"
)
_SHOWN_ROUND = _ROUND.replace("configuration, ", "")
_TOKEN = "id, kind, name, created, expires, revoked"  # noqa: S105


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """A query as it was asked, and where it stands. `query`, `settings` and `prepared` are JSON.

    `query` is whole in what `CoordinatorStore.query` returns. Everywhere else it is in short (`outlines.outlined`).
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


@dataclass(frozen=True, slots=True)
class StoredRound:
    """A round of a query, without its release. Where only its numbers were asked for, `configuration` is empty."""

    round: str
    query: str
    index: int
    configuration: bytes
    state: RoundState
    deadline: float
    target: int | None
    asked: int
    contacted: int
    completed: int
    batches: int | None
    planned: float
    opened: float | None
    closed: float | None
    released: float | None


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


class CoordinatorStore(Store):
    """Everything is written once and first wins, but states, which move on.

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
        """Put what an earlier version stored of long queries where lists do not read it."""
        with self._database.transaction(write=False) as transaction:
            long = transaction.fetch(
                "SELECT id FROM queries WHERE length(query) > ? AND id NOT IN (SELECT id FROM query_bodies)", (LONGEST,)
            )
        for (id,) in long:
            with self._database.transaction() as transaction:
                [(query,)] = transaction.fetch("SELECT query FROM queries WHERE id = ?", (id,))
                _put_body(transaction, id, query)
                transaction.execute("UPDATE queries SET query = ? WHERE id = ?", (outlined(query), id))

    def create_query(self, query: StoredQuery) -> tuple[StoredQuery, bool]:
        """Keep a query; the one that is kept under its caller and name, which is the first, and whether it is new."""
        short = outlined(query.query)
        with self._database.transaction() as transaction:
            new = transaction.execute(
                f"INSERT INTO queries ({_QUERY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "  # noqa: S608
                "ON CONFLICT (asked_by, name) DO NOTHING",
                (
                    query.id, query.by, query.name, query.verb, query.what, short, query.settings,
                    query.prepared, query.state, query.created, query.ended, query.problem,
                ),
            )  # fmt: skip
            if new and short != query.query:
                _put_body(transaction, query.id, query.query)
            [row] = transaction.fetch(
                f"SELECT {_QUERY} FROM queries WHERE asked_by = ? AND name = ?",  # noqa: S608
                (query.by, query.name),
            )
            return StoredQuery(*row), new == 1

    def query(self, id: str) -> StoredQuery | None:
        """A query by its id, whole."""
        rows = self._fetch(f"SELECT {_WHOLE_QUERY} FROM queries WHERE id = ?", id)  # noqa: S608
        return StoredQuery(*rows[0]) if rows else None

    def outline(self, id: str) -> StoredQuery | None:
        """A query by its id, in short."""
        rows = self._fetch(f"SELECT {_QUERY} FROM queries WHERE id = ?", id)  # noqa: S608
        return StoredQuery(*rows[0]) if rows else None

    def named(self, by: str, name: str) -> StoredQuery | None:
        """The query that a caller asked under a name, in short."""
        with self._database.transaction(write=False) as transaction:
            rows = transaction.fetch(
                f"SELECT {_QUERY} FROM queries WHERE asked_by = ? AND name = ?",  # noqa: S608
                (by, name),
            )
        return StoredQuery(*rows[0]) if rows else None

    def count(self, states: Collection[QueryState]) -> int:
        """How many queries are in some states."""
        with self._database.transaction(write=False) as transaction:
            [(number,)] = transaction.fetch(
                f"SELECT COUNT(*) FROM queries WHERE state IN ({', '.join('?' * len(states))})",  # noqa: S608
                tuple(states),
            )
        return int(number)

    def asked_by(self) -> dict[str, str]:
        """Who asked each query, by its id."""
        with self._database.transaction(write=False) as transaction:
            return dict(transaction.fetch("SELECT id, asked_by FROM queries"))

    def queries(self, states: Collection[QueryState] | None = None) -> list[StoredQuery]:
        """All queries in short, oldest first; or those in some states."""
        wanted = "" if states is None else f"WHERE state IN ({', '.join('?' * len(states))})"
        with self._database.transaction(write=False) as transaction:
            rows = transaction.fetch(
                f"SELECT {_QUERY} FROM queries {wanted} ORDER BY created, id",  # noqa: S608
                tuple(states or ()),
            )
        return [StoredQuery(*row) for row in rows]

    def charged_ids(self) -> set[str]:
        """The ids of queries that must be on the ledger: those that run or are done, and all that have a round.

        A query has its first round after its charge, so one that was cancelled or failed later is among them.
        """
        with self._database.transaction(write=False) as transaction:
            rows = transaction.fetch(
                "SELECT id FROM queries WHERE state IN ('running', 'done') UNION SELECT query FROM rounds"
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
        """Move a query on, if it is in one of the expected states; whether it was."""
        with self._database.transaction() as transaction:
            marks = ", ".join("?" * len(expected))
            changed = transaction.execute(
                f"UPDATE queries SET state = ?, ended = ?, problem = ? WHERE id = ? AND state IN ({marks})",  # noqa: S608
                (state, ended, problem, id, *expected),
            )
            return changed == 1

    def refuse(self, id: str, *, ended: float, problem: str) -> None:
        """Mark a query that was received as refused. Nobody will run it, so that it stays in short only."""
        with self._database.transaction() as transaction:
            changed = transaction.execute(
                "UPDATE queries SET state = 'refused', ended = ?, problem = ? WHERE id = ? AND state = 'received'",
                (ended, problem, id),
            )
            if changed:
                transaction.execute("DELETE FROM query_bodies WHERE id = ?", (id,))

    def forget_refused(self, keep: int) -> None:
        """Delete refused queries, which have no rounds and no charge, but the `keep` newest."""
        with self._database.transaction() as transaction:
            transaction.execute(
                "DELETE FROM queries WHERE state = 'refused' AND id NOT IN "
                "(SELECT id FROM queries WHERE state = 'refused' ORDER BY created DESC, id DESC LIMIT ?)",
                (keep,),
            )

    def claim(self) -> None:
        """Keep the store to this process from now on; `StoreUnavailable` while another one has it.

        Edge cases: a claim ends with its process, and with its connection: call it again before relying on it.
        """
        self._database.claim()

    def plan_round(
        self,
        query: str,
        index: int,
        round: str,
        configuration: bytes,
        *,
        deadline: float,
        target: int | None,
        now: float,
    ) -> StoredRound:
        """Keep a round's configuration; the round that is kept under this index, which is the first."""
        with self._database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO rounds (round, query, position, configuration, state, deadline, target, asked, contacted, "
                "completed, planned) VALUES (?, ?, ?, ?, 'planned', ?, ?, 0, 0, 0, ?) "
                "ON CONFLICT (query, position) DO NOTHING",
                (round, query, index, configuration, deadline, target, now),
            )
            [row] = transaction.fetch(
                f"SELECT {_ROUND} FROM rounds WHERE query = ? AND position = ?",  # noqa: S608
                (query, index),
            )
            return StoredRound(*row)

    def set_round_state(
        self,
        round: str,
        state: RoundState,
        *,
        asked: int | None = None,
        contacted: int | None = None,
        completed: int | None = None,
        batches: int | None = None,
        opened: float | None = None,
        closed: float | None = None,
    ) -> None:
        """Move a round on, and keep what is given; what is None stays as it was.

        Edge cases: a round that is released or dropped stays so.
        """
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE rounds SET state = ?, asked = COALESCE(?, asked), contacted = COALESCE(?, contacted), "
                "completed = COALESCE(?, completed), batches = COALESCE(?, batches), opened = COALESCE(?, opened), "
                "closed = COALESCE(?, closed) WHERE round = ? AND state NOT IN ('released', 'dropped')",
                (state, asked, contacted, completed, batches, opened, closed, round),
            )

    def store_release(self, round: str, release: str, now: float) -> str:
        """Keep a round's release, which makes it released; the release that is kept, which is the first."""
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE rounds SET state = 'released', release = ?, released = ? WHERE round = ? AND release IS NULL",
                (release, now, round),
            )
            rows = transaction.fetch("SELECT release FROM rounds WHERE round = ?", (round,))
            if not rows:
                raise NotFound("There is no such round.")
            stored: str = rows[0][0]
            return stored

    def round(self, round: str) -> StoredRound | None:
        """A round by its name."""
        rows = self._fetch(f"SELECT {_ROUND} FROM rounds WHERE round = ?", round)  # noqa: S608
        return StoredRound(*rows[0]) if rows else None

    def rounds(self, query: str) -> list[StoredRound]:
        """The rounds of a query, in order."""
        rows = self._fetch(f"SELECT {_ROUND} FROM rounds WHERE query = ? ORDER BY position", query)  # noqa: S608
        return [StoredRound(*row) for row in rows]

    def shown_rounds(self, query: str) -> list[StoredRound]:
        """The rounds of a query, in order, without their configurations."""
        rows = self._fetch(f"SELECT {_SHOWN_ROUND} FROM rounds WHERE query = ? ORDER BY position", query)  # noqa: S608
        return [_shown(row) for row in rows]

    def all_shown_rounds(self) -> dict[str, list[StoredRound]]:
        """The rounds of every query that has any, in order, without their configurations."""
        with self._database.transaction(write=False) as transaction:
            rows = transaction.fetch(f"SELECT {_SHOWN_ROUND} FROM rounds ORDER BY query, position")  # noqa: S608
        found: dict[str, list[StoredRound]] = {}
        for row in rows:
            round = _shown(row)
            found.setdefault(round.query, []).append(round)
        return found

    def unfinished_rounds(self) -> list[StoredRound]:
        """The rounds that have neither a release nor been dropped."""
        with self._database.transaction(write=False) as transaction:
            rows = transaction.fetch(
                f"SELECT {_ROUND} FROM rounds WHERE state NOT IN ('released', 'dropped')"  # noqa: S608
            )
        return [StoredRound(*row) for row in rows]

    def releases(self, query: str) -> list[str]:
        """The releases of a query, in order."""
        rows = self._fetch(
            "SELECT release FROM rounds WHERE query = ? AND release IS NOT NULL ORDER BY position", query
        )
        return [release for (release,) in rows]

    def add_token(
        self, id: str, kind: str, token_hash: bytes, name: str, *, now: float, expires: float | None = None
    ) -> bool:
        """Keep a token's hash; False if the token is known already, and nothing is changed then."""
        with self._database.transaction() as transaction:
            return (
                transaction.execute(
                    "INSERT INTO tokens (id, kind, token_hash, name, created, expires) VALUES (?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT (token_hash) DO NOTHING",
                    (id, kind, token_hash, name, now, expires),
                )
                == 1
            )

    def tokens(self) -> list[StoredToken]:
        """All tokens, oldest first."""
        with self._database.transaction(write=False) as transaction:
            rows = transaction.fetch(f"SELECT {_TOKEN} FROM tokens ORDER BY created, id")  # noqa: S608
        return [StoredToken(*row) for row in rows]

    def token(self, token_hash: bytes) -> StoredToken | None:
        """The token with this hash."""
        with self._database.transaction(write=False) as transaction:
            rows = transaction.fetch(f"SELECT {_TOKEN} FROM tokens WHERE token_hash = ?", (token_hash,))  # noqa: S608
        return StoredToken(*rows[0]) if rows else None

    def revoke_token(self, id: str, now: float) -> bool:
        """Make a token worthless; False if there is no such token. A second time changes nothing."""
        with self._database.transaction() as transaction:
            return _revoke(transaction, "tokens", id, now)

    def _fetch(self, sql: str, name: str) -> list[Row]:
        if not is_name(name):
            return []
        with self._database.transaction(write=False) as transaction:
            return transaction.fetch(sql, (name,))


def _shown(row: Row) -> StoredRound:
    round, query, index, *rest = row
    return StoredRound(round, query, index, b"", *rest)


def _put_body(transaction: Transaction, id: str, query: str) -> None:
    transaction.execute("INSERT INTO query_bodies (id, query) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", (id, query))


def _revoke(transaction: Transaction, table: str, id: str, now: float) -> bool:
    if not is_name(id):
        return False
    changed = transaction.execute(
        f"UPDATE {table} SET revoked = COALESCE(revoked, ?) WHERE id = ?",  # noqa: S608
        (now, id),
    )
    return changed == 1

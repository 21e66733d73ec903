"""The ledger: what has been spent against a budget, in one SQLite file that survives crashes.

    charge durably ──▶ draw ──▶ release

A charge is on disk before anything is drawn. A crash in between costs budget, never privacy; that is why nothing here
gives a charge back. Charges add up (an analyst chooses the next query after seeing the last, and the plain sum is valid
for that) and sums are exact in decimal.

A ledger has one adjacency: (epsilon, delta) under "replace" and under "add-remove" protect against different changes
and do not add up. It knows what was asked (verb, columns, settings), never a value.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from thresher.errors import InvalidFormat, InvalidSetting, LedgerUnavailable, ThresherError
from thresher.files import made_beside
from thresher.mechanism.tabular import Tabular
from thresher.privacy.budget import Budget, Charge
from thresher.privacy.plans import Plan
from thresher.privacy.settings import Adjacency, check_adjacency, check_delta, check_epsilon, check_rounds

if TYPE_CHECKING:
    import pyarrow as pa

_APPLICATION = 0x54485253  # "THRS": marks the file as a ledger, beside SQLite's own mark
_VERSION = 1
_LONGEST_TEXT = 10_000

# Numbers are kept as the text that Python reads back to the same float: a REAL column would do, but a person who opens
# the file sees 0.1 and not 0.1000000000000000055.
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
CREATE TABLE budget (
    only INTEGER PRIMARY KEY CHECK (only = 1), epsilon TEXT NOT NULL, delta TEXT NOT NULL, adjacency TEXT NOT NULL,
    created TEXT NOT NULL
);
CREATE TABLE charges (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, what TEXT NOT NULL, epsilon TEXT NOT NULL,
    delta TEXT NOT NULL, adjacency TEXT NOT NULL, rounds INTEGER NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class Amount:
    """An epsilon and a delta; either may be zero."""

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge: when (UTC), for what, how much."""

    id: int
    time: dt.datetime
    what: str
    epsilon: float
    delta: float
    adjacency: Adjacency
    rounds: int


class Ledger(Tabular):
    """A budget on disk. `Ledger("privacy.db", epsilon=3, delta=1e-6)` creates it, `Ledger("privacy.db")` opens it.

    Guarantee: processes that charge at the same time never overspend together; each charge is one immediate SQLite
    transaction, on disk when `charge` returns.
    Edge cases: opening with another budget than the ledger's is an error, as is a file that is not a ledger. A new file
    can be read and written by its owner only. Copying it copies the budget; keep one. SQLite's locks need a local file
    system.
    """

    def __init__(
        self,
        path: str | Path,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        adjacency: Adjacency | None = None,
        wait: float = 30.0,
    ) -> None:
        self.path = Path(path)
        if not wait >= 0:
            raise InvalidSetting("wait", "must be a number of seconds, 0 or more")
        self._wait = float(wait)
        if not self.path.exists():
            self._create(epsilon, delta, adjacency)
        self.epsilon, self.delta, self.adjacency = self._stored_budget()
        given = (epsilon, delta, adjacency)
        for setting, value, stored in zip(
            ("epsilon", "delta", "adjacency"), given, (self.epsilon, self.delta, self.adjacency), strict=True
        ):
            if value is not None and value != stored:
                raise InvalidSetting(
                    setting,
                    f"differs from the ledger's, which is {stored}",
                    hint="Open the ledger without a budget, or create another ledger.",
                )

    @property
    def spent(self) -> Amount:
        """The sum of all charges."""
        budget = self._budget()
        return Amount(budget.spent_epsilon, budget.spent_delta)

    @property
    def left(self) -> Amount:
        """What a further query may cost."""
        budget = self._budget()
        return Amount(budget.left_epsilon, budget.left_delta)

    def charge(
        self, epsilon: float, delta: float, what: str, *, adjacency: Adjacency = "replace", rounds: int = 1
    ) -> int:
        """Charge a query before it is drawn, and return the charge's number.

        `what` says what is asked: verb, columns and settings, never a value.

        Guarantee: when this returns, the charge is on disk. `BudgetExceeded`, with what is left, if it does not fit.
        """
        charge = Charge(check_epsilon(epsilon), check_delta(delta))
        rounds = check_rounds(rounds)
        if check_adjacency(adjacency) != self.adjacency:
            raise InvalidSetting(
                "adjacency",
                f"is {adjacency}, and this ledger adds up {self.adjacency} guarantees",
                hint="Plan with the ledger's adjacency, or keep another ledger.",
            )
        if not 0 < len(what) <= _LONGEST_TEXT:
            raise InvalidSetting("what", f"must be a text of 1 to {_LONGEST_TEXT:,} characters")
        with self._connection() as connection:
            # Immediate: the lock is taken before the sum is read, so nobody charges between the sum and the entry.
            connection.execute("BEGIN IMMEDIATE")
            self._budget(connection).charge(charge)
            cursor = connection.execute(
                "INSERT INTO charges (time, what, epsilon, delta, adjacency, rounds) VALUES (?, ?, ?, ?, ?, ?)",
                (_now(), what, repr(charge.epsilon), repr(charge.delta), adjacency, rounds),
            )
            connection.execute("COMMIT")
            number = cursor.lastrowid
        assert number is not None
        return number

    def history(self) -> list[Entry]:
        """All charges, oldest first."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT id, time, what, epsilon, delta, adjacency, rounds FROM charges ORDER BY id"
            ).fetchall()
            return [
                Entry(number, dt.datetime.fromisoformat(time), what, float(epsilon), float(delta), adjacency, rounds)
                for number, time, what, epsilon, delta, adjacency, rounds in rows
            ]

    def to_arrow(self) -> pa.Table:
        """The history as an Arrow table."""
        import pyarrow as pa

        kinds = [
            pa.int64(), pa.timestamp("us", "UTC"), pa.string(), pa.float64(), pa.float64(), pa.string(), pa.int64()
        ]  # fmt: skip
        entries = self.history()
        return pa.table(
            {
                field.name: pa.array([getattr(entry, field.name) for entry in entries], kind)
                for field, kind in zip(fields(Entry), kinds, strict=True)
            }
        )

    def __repr__(self) -> str:
        left = self.left
        return (
            f"<Ledger {self.path}: epsilon {left.epsilon:g} of {self.epsilon:g} left, "
            f"delta {left.delta:g} of {self.delta:g}, {self.adjacency}>"
        )

    def _create(self, epsilon: float | None, delta: float | None, adjacency: Adjacency | None) -> None:
        """Write a whole new ledger beside its place and link it there; whoever comes first wins."""
        if epsilon is None or delta is None:
            raise InvalidSetting(
                "ledger",
                f"{self.path} does not exist, and epsilon or delta is missing to create it",
                hint='For example: Ledger("privacy.db", epsilon=3, delta=1e-6).',
            )
        row = (repr(check_epsilon(epsilon)), repr(check_delta(delta)), check_adjacency(adjacency or "replace"), _now())
        try:
            with (
                made_beside(self.path) as temporary,
                contextlib.closing(sqlite3.connect(temporary, isolation_level=None)) as connection,
            ):
                connection.executescript(f"PRAGMA synchronous = EXTRA; {_SCHEMA}")
                connection.execute("INSERT INTO budget VALUES (1, ?, ?, ?, ?)", row)
        except OSError as error:
            raise self._unavailable(f"cannot be created: {error.strerror}") from None
        except sqlite3.Error:
            raise self._unavailable("cannot be created") from None

    def _stored_budget(self) -> tuple[float, float, Adjacency]:
        with self._connection() as connection:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if application != _APPLICATION:
                raise self._not_a_ledger()
            if version != _VERSION:
                raise InvalidFormat(
                    f"{self.path} is a ledger of version {version}; this Thresher reads version {_VERSION}.",
                    hint="Upgrade Thresher.",
                )
            row = connection.execute("SELECT epsilon, delta, adjacency FROM budget").fetchone()
            with self._read_from_file():
                epsilon, delta, adjacency = row
                return check_epsilon(float(epsilon)), check_delta(float(delta)), check_adjacency(adjacency)

    def _budget(self, connection: sqlite3.Connection | None = None) -> Budget:
        if connection is None:
            with self._connection() as opened:
                return self._budget(opened)
        rows = connection.execute("SELECT epsilon, delta FROM charges").fetchall()
        with self._read_from_file():
            charges = tuple(Charge(float(epsilon), float(delta)) for epsilon, delta in rows)
        return Budget(self.epsilon, self.delta, charges)

    @contextlib.contextmanager
    def _read_from_file(self) -> Iterator[None]:
        """Numbers that no ledger writes are the file's fault, not the caller's."""
        try:
            yield
        except InvalidSetting:
            raise self._not_a_ledger() from None

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for one operation: none is shared between threads or carried over a fork.

        Whatever goes wrong before COMMIT is rolled back by closing.
        """
        try:
            connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=rw", uri=True, timeout=self._wait, isolation_level=None
            )
        except sqlite3.Error:
            raise self._unavailable("cannot be opened") from None
        with contextlib.closing(connection):
            try:
                connection.execute("PRAGMA synchronous = EXTRA")
                yield connection
            except sqlite3.OperationalError as error:
                busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                reason = f"is in use by another process for more than {self._wait:g} seconds"
                raise self._unavailable(reason if busy else "cannot be read or written") from None
            except (sqlite3.Error, TypeError, ValueError) as error:
                if isinstance(error, ThresherError):
                    raise
                raise self._not_a_ledger() from None

    def _unavailable(self, reason: str) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"The ledger {self.path} {reason}.",
            hint="Nothing was charged or drawn. Check the path and its permissions.",
        )

    def _not_a_ledger(self) -> InvalidFormat:
        return InvalidFormat(
            f"{self.path} is not a Thresher ledger, or is damaged.",
            hint="Nothing was charged or drawn. Restore it from a backup; a new ledger would forget what was spent.",
        )


def charge_plan(ledger: Ledger, plan: Plan, what: str) -> int:
    """Charge a query its plan's total, over all rounds, before the first of them."""
    return ledger.charge(plan.epsilon, plan.delta, what, adjacency=plan.adjacency, rounds=plan.rounds)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")

"""The ledger: what has been spent against a budget, in one SQLite file that survives crashes.

    charge durably ──▶ draw ──▶ release

A charge is on disk before anything is drawn. A crash in between costs budget, never privacy; that is why nothing here
gives a charge back. Charges add up (an analyst chooses the next query after seeing the last, and the plain sum is valid
for that) and sums are exact in decimal.

A ledger has one adjacency and one unit: (epsilon, delta) under "replace" and under "add-remove" protect against
different changes, those for one row and for one person protect different things, and neither adds up with the other.
It knows what was asked (verb, columns, settings), never a value.

A charge has a reference, which is unique: charging again under it changes nothing.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from thresher.errors import Conflict, InvalidSetting
from thresher.ledger.ledger_file import LedgerFile
from thresher.ledger.schema import new_reference
from thresher.mechanism.tabular import Tabular
from thresher.privacy.budget import Budget, Charge
from thresher.privacy.plans import Plan
from thresher.privacy.settings import Adjacency, check_adjacency, check_delta, check_epsilon, check_rounds
from thresher.privacy.units import Unit, check_unit

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_TEXT = 10_000
_LONGEST_REFERENCE = 100
_ENTRY = "id, reference, time, what, epsilon, delta, adjacency, rounds, unit"


@dataclass(frozen=True, slots=True)
class Amount:
    """An epsilon and a delta; either may be zero."""

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge: under which reference, when (UTC), for what, how much.

    `unit` is as `str(Unit)` writes it; None where Thresher 0.1.0 made the charge, which did not keep it.
    """

    id: int
    reference: str
    time: dt.datetime
    what: str
    epsilon: float
    delta: float
    adjacency: Adjacency
    rounds: int
    unit: str | None


class Ledger(Tabular):
    """A budget on disk. `Ledger("privacy.db", epsilon=3, delta=1e-6)` creates it, `Ledger("privacy.db")` opens it.

    `unit` is the column whose values are the units, or a `Unit`. Without it, the first charge decides.

    Guarantee: processes that charge at the same time never overspend together, nor bind one ledger to two units; each
    charge is one immediate SQLite transaction, on disk when `charge` returns.
    Edge cases: opening with another budget or unit than the ledger's is an error, as is a file that is not a ledger. A
    ledger of Thresher 0.1.0 is brought to this version when it is opened. A new file can be read and written by its
    owner only. Copying it copies the budget; keep one. SQLite's locks need a local file system.
    """

    def __init__(
        self,
        path: str | Path,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        adjacency: Adjacency | None = None,
        unit: Unit | str | None = None,
        wait: float = 30.0,
    ) -> None:
        self.path = Path(path)
        if not wait >= 0:
            raise InvalidSetting("wait", "must be a number of seconds, 0 or more")
        self._file = LedgerFile(self.path, float(wait))
        wanted = None if unit is None else check_unit(unit)
        if not self.path.exists():
            self._create(epsilon, delta, adjacency, wanted)
        elif not self.path.is_file():
            raise self._file.unavailable("is not a regular file")
        self._file.upgrade()
        self.epsilon, self.delta, self.adjacency = self._stored_budget()
        for setting, value in (("epsilon", epsilon), ("delta", delta), ("adjacency", adjacency)):
            stored = getattr(self, setting)
            if value is not None and value != stored:
                raise InvalidSetting(
                    setting,
                    f"differs from the ledger's, which is {stored}",
                    hint="Open the ledger without a budget, or create another ledger.",
                )
        if wanted is not None:
            with self._file.transaction() as connection:
                self._bind(connection, wanted)

    @property
    def unit(self) -> Unit | None:
        """What one unit is in all charges; None before the first one."""
        with self._file.connection() as connection:
            return self._stored_unit(connection)

    @property
    def same_units(self) -> set[Unit]:
        """Other columns that name the same units, as `same_unit` was told."""
        with self._file.connection() as connection:
            return self._stored_same_units(connection)

    def same_unit(self, column: str) -> None:
        """Say once that another column names the same units, so that queries may use it as their `unit=`.

        Args:
            column: A column of another table, for example `"uid"` where the ledger's unit is `"user_id"`. Each unit
                must have one value in it, and no two units the same.

        Raises: `InvalidSetting` if the ledger's units are not the values of a column.

        Example:
            >>> ledger = Ledger("privacy.db", epsilon=3, delta=1e-6, unit="user_id")
            >>> ledger.same_unit("uid")
            >>> th.histogram(visits, "page", unit="uid", plan=plan, ledger=ledger)
        """
        unit = Unit("column", column)
        with self._file.transaction() as connection:
            stored = self._stored_unit(connection)
            if stored is None or stored.kind != "column":
                bound = "no unit yet" if stored is None else stored.one
                raise InvalidSetting(
                    "unit",
                    f"of this ledger is {bound}, and not one unit of a column",
                    hint="The first charge binds a ledger, or Ledger(path, unit=…) with the name of a column."
                    if stored is None
                    else "Keep another ledger for units that are the values of a column.",
                )
            if unit != stored:
                connection.execute("INSERT OR IGNORE INTO same_units (unit) VALUES (?)", (str(unit),))

    @property
    def spent(self) -> Amount:
        """The sum of all charges."""
        with self._file.connection() as connection:
            budget = self._budget(connection)
        return Amount(budget.spent_epsilon, budget.spent_delta)

    @property
    def left(self) -> Amount:
        """What a further query may cost."""
        with self._file.connection() as connection:
            budget = self._budget(connection)
        return Amount(budget.left_epsilon, budget.left_delta)

    def charge(
        self,
        epsilon: float,
        delta: float,
        what: str,
        *,
        unit: Unit | str,
        adjacency: Adjacency = "replace",
        rounds: int = 1,
        reference: str | None = None,
    ) -> int:
        """Charge a query before it is drawn, and return the charge's number.

        Args:
            epsilon: What the query costs.
            delta: What the query costs.
            what: What is asked: verb, columns and settings, never a value.
            unit: Whom the guarantee protects: the column whose values are the units, or a `Unit`.
            adjacency: Against which change it protects.
            rounds: How many rounds the cost covers.
            reference: A name for this charge, by default a random one.

        Guarantee: when this returns, the charge is on disk. A second charge under a reference that is there already
        changes nothing.
        Raises: `BudgetExceeded`, with what is left, if the charge does not fit; `InvalidSetting` for another unit or
        adjacency than the ledger's; `Conflict` for another charge under a reference that is there already.
        """
        charge = self._checked(epsilon, delta, adjacency)
        return self._enter(charge, what, check_unit(unit), check_rounds(rounds), reference, within_budget=True)[0]

    def check(self, plan: Plan, unit: Unit | str) -> None:
        """Require that a query with this plan could be charged now; nothing is written.

        Raises what `charge` would. Another process may still charge before this one does.
        """
        charge = self._checked(plan.epsilon, plan.delta, plan.adjacency)
        unit = check_unit(unit)
        with self._file.connection() as connection:
            self._check_bound(connection, unit)
            self._budget(connection).charge(charge)

    def restore(self, plan: Plan, what: str, unit: Unit | str, reference: str, time: dt.datetime | None = None) -> bool:
        """Enter a charge that was made before and was lost with its ledger, whether or not it fits the budget.

        `time` is when it was made; by default now.

        Returns: whether it was missing. What is spent may then exceed the budget, and nothing more can be charged.
        Raises: what `charge` raises, but `BudgetExceeded`.
        """
        charge = self._checked(plan.epsilon, plan.delta, plan.adjacency)
        return self._enter(charge, what, check_unit(unit), plan.rounds, reference, within_budget=False, time=time)[1]

    def references(self) -> set[str]:
        """The references of all charges."""
        with self._file.connection() as connection:
            return {reference for (reference,) in connection.execute("SELECT reference FROM charges")}

    def _checked(self, epsilon: float, delta: float, adjacency: Adjacency) -> Charge:
        charge = Charge(check_epsilon(epsilon), check_delta(delta))
        if check_adjacency(adjacency) != self.adjacency:
            raise InvalidSetting(
                "adjacency",
                f"is {adjacency}, and this ledger adds up {self.adjacency} guarantees",
                hint="Plan with the ledger's adjacency, or keep another ledger.",
            )
        return charge

    def _enter(
        self,
        charge: Charge,
        what: str,
        unit: Unit,
        rounds: int,
        reference: str | None,
        *,
        within_budget: bool,
        time: dt.datetime | None = None,
    ) -> tuple[int, bool]:
        """The number of the charge under this reference, and whether it is new."""
        if not 0 < len(what) <= _LONGEST_TEXT:
            raise InvalidSetting("what", f"must be a text of 1 to {_LONGEST_TEXT:,} characters")
        if reference is None:
            reference = new_reference()
        elif not 0 < len(reference) <= _LONGEST_REFERENCE:
            raise InvalidSetting("reference", f"must be a text of 1 to {_LONGEST_REFERENCE} characters")
        amount = (repr(charge.epsilon), repr(charge.delta), self.adjacency, rounds, str(unit))
        with self._file.transaction() as connection:
            found = connection.execute(
                "SELECT id, epsilon, delta, adjacency, rounds, unit FROM charges WHERE reference = ?", (reference,)
            ).fetchone()
            if found is not None:
                if found[1:] != amount:
                    raise Conflict(
                        f"The ledger {self.path} has another charge under the reference {reference}.",
                        hint="Nothing was charged or drawn. Choose another reference.",
                    )
                return int(found[0]), False
            self._bind(connection, unit)
            budget = self._budget(connection)  # reading it also refuses a damaged ledger
            if within_budget:
                budget.charge(charge)
            cursor = connection.execute(
                "INSERT INTO charges (reference, time, what, epsilon, delta, adjacency, rounds, unit) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (reference, _now() if time is None else _written(time), what, *amount),
            )
            number = cursor.lastrowid
        assert number is not None
        return number, True

    def _bind(self, connection: sqlite3.Connection, unit: Unit) -> None:
        """Make this the ledger's unit, if it has none; refuse another one."""
        if self._check_bound(connection, unit) is None:
            connection.execute("UPDATE budget SET unit = ?", (str(unit),))

    def _check_bound(self, connection: sqlite3.Connection, unit: Unit) -> Unit | None:
        """The ledger's unit, if it has one; refuse a unit that is another one."""
        stored = self._stored_unit(connection)
        if stored is not None and stored != unit and unit not in self._stored_same_units(connection):
            same = (
                f"If {unit.column} names the same units, say so once: ledger.same_unit({unit.column!r}), or thresher "
                "ledger same-unit. If not, keep another ledger."
            )
            raise InvalidSetting(
                "unit",
                f"is {unit.one}, and this ledger adds up guarantees for {stored.one}",
                hint="Nothing was charged or drawn. "
                + (same if unit.kind == stored.kind else "Ask with the ledger's unit, or keep another ledger."),
            )
        return stored

    def history(self) -> list[Entry]:
        """All charges, oldest first."""
        with self._file.connection() as connection:
            rows = connection.execute(f"SELECT {_ENTRY} FROM charges ORDER BY id").fetchall()  # noqa: S608
            return [
                Entry(row[0], row[1], dt.datetime.fromisoformat(row[2]), row[3], float(row[4]), float(row[5]), *row[6:])
                for row in rows
            ]

    def to_arrow(self) -> pa.Table:
        """The history as an Arrow table."""
        import pyarrow as pa

        kinds = [
            pa.int64(), pa.string(), pa.timestamp("us", "UTC"), pa.string(), pa.float64(), pa.float64(), pa.string(),
            pa.int64(), pa.string(),
        ]  # fmt: skip
        entries = self.history()
        return pa.table(
            {
                field.name: pa.array([getattr(entry, field.name) for entry in entries], kind)
                for field, kind in zip(fields(Entry), kinds, strict=True)
            }
        )

    def __repr__(self) -> str:
        left, unit = self.left, self.unit
        whose = "no unit yet" if unit is None else f"for {unit.one}"
        return (
            f"<Ledger {self.path}: epsilon {left.epsilon:g} of {self.epsilon:g} left, "
            f"delta {left.delta:g} of {self.delta:g}, {self.adjacency}, {whose}>"
        )

    def _create(
        self, epsilon: float | None, delta: float | None, adjacency: Adjacency | None, unit: Unit | None
    ) -> None:
        if epsilon is None or delta is None:
            raise InvalidSetting(
                "ledger",
                f"{self.path} does not exist, and epsilon or delta is missing to create it",
                hint='Create it: Ledger("privacy.db", epsilon=3, delta=1e-6), or thresher ledger create.',
            )
        amount = repr(check_epsilon(epsilon)), repr(check_delta(delta)), check_adjacency(adjacency or "replace")
        self._file.create((*amount, _now(), None if unit is None else str(unit)))

    def _stored_budget(self) -> tuple[float, float, Adjacency]:
        with self._file.connection() as connection, self._file.reading():
            epsilon, delta, adjacency = connection.execute("SELECT epsilon, delta, adjacency FROM budget").fetchone()
            return check_epsilon(float(epsilon)), check_delta(float(delta)), check_adjacency(adjacency)

    def _stored_unit(self, connection: sqlite3.Connection) -> Unit | None:
        (text,) = connection.execute("SELECT unit FROM budget").fetchone()
        with self._file.reading():
            return None if text is None else Unit.read(text)

    def _stored_same_units(self, connection: sqlite3.Connection) -> set[Unit]:
        with self._file.reading():
            return {Unit.read(text) for (text,) in connection.execute("SELECT unit FROM same_units")}

    def _budget(self, connection: sqlite3.Connection) -> Budget:
        rows = connection.execute("SELECT epsilon, delta FROM charges").fetchall()
        with self._file.reading():
            charges = tuple(Charge(float(epsilon), float(delta)) for epsilon, delta in rows)
        return Budget(self.epsilon, self.delta, charges)


def charge_plan(ledger: Ledger, plan: Plan, what: str, unit: Unit | str, reference: str | None = None) -> int:
    """Charge a query its plan's total, over all rounds, before the first of them."""
    return ledger.charge(
        plan.epsilon, plan.delta, what, unit=unit, adjacency=plan.adjacency, rounds=plan.rounds, reference=reference
    )


def _now() -> str:
    return _written(dt.datetime.now(dt.UTC))


def _written(time: dt.datetime) -> str:
    return time.astimezone(dt.UTC).isoformat(timespec="microseconds")

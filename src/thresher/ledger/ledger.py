"""The ledger: what has been spent against a budget, in one SQLite file that survives crashes.

    reserve ──▶ draw ──▶ (the round) ──▶ draw ──▶ (the next round) …  ──▶ give back what was never drawn

A query's rounds are reserved when it is accepted, so that it can finish. Each round is marked as drawn, on disk, before
anything is drawn: a crash in between costs budget, never privacy. What was never drawn is given back.

A ledger has one adjacency, one unit and one data set: guarantees under "replace" and under "add-remove" protect against
different changes, those for one row and for one person protect different things, and neither adds up with the other.
It knows what was asked (verb, columns, settings), never a value.

A charge has a reference, which is unique: charging again under it changes nothing.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, cast

from thresher.clock import Clock, SystemClock
from thresher.errors import Hint, InvalidSetting
from thresher.ledger import binding, books
from thresher.ledger.charging import LONGEST_NAME, LONGEST_TEXT, check_text
from thresher.ledger.durations import check_period, in_words
from thresher.ledger.entries import Entry, Left, Periods, Promise, Spent
from thresher.ledger.ledger_charges import LedgerCharges
from thresher.ledger.ledger_file import LedgerFile
from thresher.privacy.budget import Budget, Composing, check_composition
from thresher.privacy.lasting_plans import lasting_plan
from thresher.privacy.plans import Plan
from thresher.privacy.settings import (
    Adjacency,
    check_adjacency,
    check_budget_epsilon,
    check_delta,
)
from thresher.privacy.units import Unit, check_unit
from thresher.privacy.weak_guarantees import warn_if_weak

if TYPE_CHECKING:
    import pyarrow as pa


class Ledger(LedgerCharges):
    """A budget on disk. `Ledger("privacy.db", epsilon=3, delta=1e-6)` creates it, `Ledger("privacy.db")` opens it.

    Args:
        path: The file.
        epsilon, delta: What everything drawn together shall guarantee.
        adjacency: Against which change; "replace" by default.
        unit: The column whose values are the units, or a `Unit`. Without it, the first charge decides.
        composition: "adaptive" (the default for a new ledger) lets queries through by the filter of docs/privacy.md,
            section 7; "sum" adds up their epsilons and deltas.
        data_set: A name for the data, for example "visits of 2026"; a fleet's ledger has the fleet's.
        period: The budget renews after this time, as "30d": the promise is then for each period by itself.
        wait: For how many seconds to wait while another process uses the file.
        clock: In place of the machine's clock.

    Guarantee: processes that charge at the same time never overspend together, nor bind one ledger to two units; each
    charge is one immediate SQLite transaction, on disk when the method returns.
    Edge cases: opening with another budget, unit, data set or period than the ledger's is an error, as is a file that
    is not a ledger. A ledger of an earlier version is brought to this version when it is opened, and goes on adding up.
    A new file can be read and written by its owner only. Copying it copies the budget; keep one. SQLite's locks need a
    local file system.

    Example:
        >>> ledger = Ledger("privacy.db", epsilon=3, delta=1e-6)
        >>> plan = ledger.plan(queries=52)
        >>> th.histogram(visits, "page", plan=plan, ledger=ledger)
        >>> ledger.affords(plan)
        51
    """

    def __init__(
        self,
        path: str | Path,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        adjacency: Adjacency | None = None,
        unit: Unit | str | None = None,
        composition: Composing | None = None,
        data_set: str | None = None,
        period: str | float | dt.timedelta | None = None,
        wait: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        self.path = Path(path)
        if not wait >= 0:
            raise InvalidSetting("wait", "must be a number of seconds, 0 or more")
        self._file = LedgerFile(self.path, float(wait))
        self._clock: Clock = SystemClock() if clock is None else clock
        wanted = None if unit is None else check_unit(unit)
        if wanted is not None:
            check_text("unit", str(wanted), LONGEST_TEXT)
        named = None if data_set is None else check_text("data_set", data_set, LONGEST_NAME)
        seconds = None if period is None else check_period(period)
        try:
            there, regular = self.path.exists(), self.path.is_file()
        except OSError as error:
            raise self._file.unavailable(f"cannot be looked at: {error.strerror}") from None
        if not there:
            self._create(epsilon, delta, adjacency, wanted, composition, named, seconds)
        elif not regular:
            raise self._file.unavailable("is not a regular file")
        self._file.upgrade()
        with self._file.snapshot() as connection:
            books.verify(connection)
        book = self._read()
        self.delta, self.adjacency = book.budget.delta, book.adjacency
        self.composition: Composing = book.budget.composition
        given = {
            "epsilon": (epsilon, book.budget.epsilon),
            "delta": (delta, self.delta),
            "adjacency": (adjacency, self.adjacency),
            "composition": (composition, self.composition),
            "period": (seconds, book.period),
        }
        for setting, (value, stored) in given.items():
            if value is not None and value != stored:
                raise InvalidSetting(
                    setting,
                    f"differs from the ledger's, which is {_stated(setting, stored)}",
                    hint=Hint(
                        "Enlarge it knowingly.",
                        python="Enlarge it knowingly: ledger.enlarge.",
                        command="Enlarge it knowingly: thresher ledger enlarge.",
                    )
                    if setting == "epsilon"
                    else "Open the ledger without it, or create another ledger.",
                )
        if wanted is not None or named is not None:
            with self._file.transaction() as connection:
                if wanted is not None:
                    binding.bind_unit(connection, wanted)
                if named is not None:
                    binding.bind_data_set(connection, named)

    # What it is about

    @property
    def epsilon(self) -> float:
        """The budget's epsilon now; it may have been enlarged."""
        return self._read().budget.epsilon

    @property
    def unit(self) -> Unit | None:
        """What one unit is in all charges; None before the first one."""
        with self._file.snapshot() as connection:
            return binding.unit_of(connection)

    @property
    def data_set(self) -> str | None:
        """The name of the data."""
        return self._read().data_set

    @property
    def same_units(self) -> set[Unit]:
        """Other columns that name the same units, as `same_unit` was told."""
        with self._file.snapshot() as connection:
            return binding.same_units(connection)

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
        with self._file.transaction() as connection:
            binding.add_same_unit(connection, Unit("column", column))

    # What was spent, and what is left

    @property
    def spent(self) -> Spent:
        """What was drawn so far, in the current period if there are periods. Under "sum": all that was charged."""
        with self._file.snapshot() as connection:
            return Spent.of(books.read(connection, self._clock.now()).drawn(connection))

    @property
    def left(self) -> Left:
        """What further queries may use; what is reserved is not left."""
        return Left.of(self.budget)

    def affords(self, plan: Plan) -> int:
        """How many more queries with this plan fit, each chosen after seeing those before it."""
        budget = self.budget
        self._check_adjacency(plan.adjacency)
        return budget.affords(budget.price(plan))

    def takes(self, plan: Plan) -> float:
        """The part of the whole budget that a query with this plan takes, from 0 to 1."""
        budget = self.budget
        self._check_adjacency(plan.adjacency)
        return budget.takes(budget.price(plan))

    def plan(self, queries: int, *, rounds: int = 1, contributions: int = 1, probability: float = 0.95) -> Plan:
        """The plan with which what is left lasts for so many queries, and that sees the smallest buckets.

        Args:
            queries: How many queries, each chosen after seeing those before it.
            rounds: How many rounds each of them has.
            contributions: How many values of a unit count in a round.
            probability: With which probability the smallest bucket shall be seen.

        Raises: `Unreachable` if what is left does not allow so many.

        Example:
            >>> Ledger("privacy.db", epsilon=3, delta=1e-6).plan(queries=52).smallest_visible()
            113
        """
        return lasting_plan(
            self.budget,
            queries,
            rounds=rounds,
            contributions=contributions,
            adjacency=self.adjacency,
            probability=probability,
        )

    @property
    def promises(self) -> list[Promise]:
        """What was promised, from when on; more than one where the budget was enlarged."""
        with self._file.snapshot() as connection:
            rows = connection.execute("SELECT time, epsilon FROM promises ORDER BY id").fetchall()
            return [Promise(dt.datetime.fromisoformat(time), float(epsilon)) for time, epsilon in rows]

    @property
    def periods(self) -> Periods | None:
        """Where the ledger stands if its budget renews, and what all periods together come to; None if it does not."""
        with self._file.snapshot() as connection:
            book = books.read(connection, self._clock.now())
            if book.period is None:
                return None
            [(used,)] = connection.execute("SELECT COUNT(DISTINCT period) FROM draws").fetchall()
            ends = dt.datetime.fromtimestamp(book.created + (book.current + 1) * book.period, dt.UTC)
            most = max(promise.epsilon for promise in self.promises)
            return Periods(book.period, book.current, ends, used, used * most, min(used * self.delta, 1.0))

    def enlarge(self, epsilon: float) -> None:
        """Promise another epsilon from now on: everything together, before and after, is then (epsilon, delta).

        Order and split of delta stay as they are, so that this holds also if the decision looked at releases. The old
        and the new promise are kept (`promises`). A lower epsilon is possible while what was charged fits it; for what
        was drawn before, the highest promise that was made is the one that holds.

        Raises: `InvalidSetting` for an epsilon that what was charged already exceeds.
        Reference: docs/privacy.md, section 7.
        """
        epsilon = check_budget_epsilon(epsilon)
        warn_if_weak(epsilon, self.delta)
        with self._file.transaction() as connection:
            book = books.read(connection, self._clock.now())
            after = Budget(epsilon, book.budget.delta, book.budget.filter, book.budget.sums)
            if not after.fits:
                raise InvalidSetting(
                    "epsilon",
                    f"{epsilon:g} is spent already",
                    hint=f"The ledger promises {book.budget.epsilon:g}. Give more than what was spent, if any epsilon "
                    "covers it.",
                )
            if epsilon != book.budget.epsilon:
                connection.execute("UPDATE budget SET epsilon = ?", (repr(epsilon),))
                connection.execute("INSERT INTO promises (time, epsilon) VALUES (?, ?)", (self._now(), repr(epsilon)))

    # Showing

    def to_arrow(self) -> pa.Table:
        """The history as an Arrow table."""
        import pyarrow as pa

        kinds = {
            "id": pa.int64(), "time": pa.timestamp("us", "UTC"), "epsilon": pa.float64(), "delta": pa.float64(),
            "rounds": pa.int64(), "sampling_rate": pa.float64(), "threshold": pa.int64(), "cut": pa.int64(),
            "renyi": pa.float64(), "bad": pa.float64(), "drawn": pa.int64(), "given_back": pa.int64(),
            "ended": pa.timestamp("us", "UTC"), "contributions": pa.int64(),
        }  # fmt: skip
        entries = self.history()
        return pa.table(
            {
                each.name: pa.array([getattr(entry, each.name) for entry in entries], kinds.get(each.name, pa.string()))
                for each in fields(Entry)
            }
        )

    def __repr__(self) -> str:
        budget, unit = self.budget, self.unit
        whose = "no unit yet" if unit is None else f"for {unit.one}"
        left = (
            f"epsilon {budget.left_epsilon:g} of {budget.epsilon:g} left, delta {budget.left_delta:g} of {self.delta:g}"
            if budget.filter is None
            else f"{100 * budget.left_share:.3g} % of epsilon {budget.epsilon:g}, delta {self.delta:g} left"
        )
        periods = self.periods
        renewed = "" if periods is None else f" in each {in_words(periods.seconds)}"
        return f"<Ledger {self.path}: {left}{renewed}, {self.adjacency}, {self.composition}, {whose}>"

    def _create(
        self,
        epsilon: float | None,
        delta: float | None,
        adjacency: Adjacency | None,
        unit: Unit | None,
        composition: Composing | None,
        data_set: str | None,
        period: float | None,
    ) -> None:
        if epsilon is None or delta is None:
            missing = "epsilon" if epsilon is None else "delta"
            given = (epsilon, delta) != (None, None)
            raise InvalidSetting(
                "ledger",
                f"{str(self.path)!r} does not exist" + f", and `{missing}` is missing to create it" * given,
                hint=Hint(
                    "Create it first.",
                    python='Create it: Ledger("privacy.db", epsilon=3, delta=1e-6).',
                    command="Create it: thresher ledger create privacy.db --epsilon 3 --delta 1e-6.",
                ),
            )
        epsilon, delta = check_budget_epsilon(epsilon), check_delta(delta)
        warn_if_weak(epsilon, delta)
        budget = Budget.make(epsilon, delta, check_composition("adaptive" if composition is None else composition))
        adjacency = check_adjacency(adjacency or "replace")
        self._file.create(books.first_row(budget, adjacency, self._now(), unit, data_set, period))


def _stated(setting: str, stored: object) -> str:
    """A setting of the ledger for people."""
    if setting == "period":
        return "none: it never renews" if stored is None else in_words(cast(float, stored))
    return str(stored)

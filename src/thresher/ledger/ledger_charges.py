"""A ledger's charges: rounds that are reserved, drawn and given back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from pathlib import Path
from typing import Any

from thresher.clock import Clock
from thresher.errors import InvalidSetting
from thresher.ledger import binding, books, charging
from thresher.ledger.charging import Order
from thresher.ledger.entries import Entry
from thresher.ledger.ledger_file import LedgerFile
from thresher.ledger.schema import new_reference
from thresher.mechanism.tabular import Tabular
from thresher.privacy.budget import Budget
from thresher.privacy.plans import Plan
from thresher.privacy.settings import (
    Adjacency,
    check_adjacency,
    check_budget_epsilon,
    check_count,
    check_delta,
    check_rounds,
)
from thresher.privacy.units import Unit, check_unit


class LedgerCharges(Tabular):
    """What a ledger is charged, and what becomes of it. `Ledger` opens the file and says what is left."""

    path: Path
    adjacency: Adjacency
    _file: LedgerFile
    _clock: Clock

    @property
    def budget(self) -> Budget:
        """The budget with the sums of all that is drawn or reserved, in the current period if there are periods."""
        return self._read().budget

    def reserve(
        self,
        plan: Plan,
        what: str,
        *,
        unit: Unit | str,
        reference: str | None = None,
        data_set: str | None = None,
        by: str | None = None,
        data: str | None = None,
        drawn: int = 0,
        verified: bool = False,
    ) -> str:
        """Reserve all rounds of a query, so that it can finish; returns the charge's reference.

        Args:
            plan: The query's plan.
            what: What is asked: verb, columns and settings, never a value.
            unit: Whom the guarantee protects: the column whose values are the units, or a `Unit`.
            reference: A name for this charge, by default a random one.
            data_set: The name of the data, if it has one: a ledger is for one data set.
            by: Who asks.
            data: The name of the file or table that is asked, without anything secret.
            drawn: How many rounds are about to be drawn: they are marked so at once.
            verified: Whether the caller has verified that the plan keeps what it states, which may take seconds.

        Guarantee: when this returns, the reservation is on disk. A second one under a reference that is there already
        changes nothing.
        Raises: `BudgetExceeded` if it does not fit; `InvalidSetting` for another unit, data set or adjacency than the
        ledger's; `Conflict` for another charge under a reference that is there already; `VerificationFailed` for a plan
        that does not keep what it states.
        """
        if not verified:
            _ = plan.guarantee
        if check_count(drawn, setting="drawn") > plan.rounds:
            raise InvalidSetting("drawn", f"must be a whole number from 0 to {plan.rounds}")
        more = {"data_set": data_set, "by": by, "data": data, "drawn": range(int(drawn))}
        order = self._order(plan, what, unit, reference, **more)
        self._enter(order)
        return order.reference

    def draw(self, reference: str, position: int) -> None:
        """Mark a round of a reserved query as drawn, before it is drawn; a second time changes nothing.

        Args:
            reference: The charge.
            position: Which of its rounds, from 0.

        Guarantee: when this returns, it is on disk.
        Raises: `NotFound` for an unknown reference, `InvalidSetting` for a round that the query does not have,
        `Conflict` for one that was given back.
        """
        with self._file.transaction() as connection:
            charging.draw(connection, reference, position, self._clock.now())

    def give_back(self, reference: str) -> int:
        """End a reservation: its rounds that were never drawn are given back, and never will be drawn.

        Under "sum" nothing is given back. The plain (epsilon, delta) is given back only if no round was drawn.

        Returns: how many rounds were given back by this call; 0 for one that has ended.
        Raises: `NotFound` for an unknown reference.
        Reference: docs/privacy.md, section 7.
        """
        with self._file.transaction() as connection:
            return charging.give_back(connection, reference, self._clock.now())

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
        """Charge something of which only the total is known, before it is drawn; returns the charge's number.

        Queries with a plan cost less in an adaptive ledger: `reserve` them, or give the ledger to a verb.

        Args:
            epsilon: What it costs.
            delta: What it costs.
            what: What is asked: verb, columns and settings, never a value.
            unit: Whom the guarantee protects: the column whose values are the units, or a `Unit`.
            adjacency: Against which change it protects.
            rounds: How many rounds the cost covers; all of them count as drawn.
            reference: A name for this charge, by default a random one.

        Guarantee: as for `reserve`.
        Raises: what `reserve` raises.
        """
        self._check_adjacency(adjacency)
        rounds = check_rounds(rounds)
        charge = self.budget.foreign(check_budget_epsilon(epsilon), check_delta(delta), rounds)
        order = Order(_named(reference), what, check_unit(unit), self.adjacency, charge, drawn=range(rounds))
        return self._enter(order)[0]

    def check(self, plan: Plan, unit: Unit | str) -> None:
        """Require that a query with this plan could be reserved now; nothing is written.

        Raises what `reserve` would. Another process may still charge before this one does.
        """
        order = self._order(plan, "a query", unit, None)
        with self._file.snapshot() as connection:
            binding.check_unit_of(connection, order.unit)
            books.read(connection, self._clock.now()).budget.charge(order.charge)

    def restore(
        self,
        plan: Plan,
        what: str,
        unit: Unit | str,
        reference: str,
        time: dt.datetime | None = None,
        *,
        drawn: Collection[int] | None = None,
    ) -> bool:
        """Enter a charge that was made before and was lost with its ledger, whether or not it fits the budget.

        Args:
            plan, what, unit, reference: As for `reserve`.
            time: When it was made; by default now. Its rounds count as drawn then, and in the current period.
            drawn: The rounds that were drawn, of a query that goes on: the others are reserved. By default all.

        Guarantee: a charge that is there stays as it is, with the rounds of it that were drawn and given back.
        Returns: whether it was missing. What is spent may then exceed the budget, and nothing more can be charged.
        Raises: what `reserve` raises, but `BudgetExceeded`.
        """
        drawn = range(plan.rounds) if drawn is None else drawn
        order = self._order(plan, what, unit, reference, drawn=drawn, time=time, restored=True)
        return self._enter(order, within_budget=False)[1]

    def references(self) -> set[str]:
        """The references of all charges."""
        with self._file.snapshot() as connection:
            return {reference for (reference,) in connection.execute("SELECT reference FROM charges")}

    def reserved(self) -> set[str]:
        """The references of charges that have not ended: some of their rounds may still be drawn."""
        with self._file.snapshot() as connection:
            rows = connection.execute("SELECT reference FROM charges WHERE ended IS NULL")
            return {reference for (reference,) in rows}

    def drawn(self, reference: str) -> set[int]:
        """Which rounds of a charge were drawn, from 0."""
        with self._file.snapshot() as connection:
            return charging.drawn_positions(connection, charging.found_entry(connection, reference))

    def was_drawn(self, reference: str, position: int) -> bool:
        """Whether this very round was marked as drawn. Charges that earlier versions made whole have no such marks."""
        with self._file.snapshot() as connection:
            return charging.is_marked(connection, charging.found_entry(connection, reference), position)

    def drawn_since(self, time: float) -> dict[str, int]:
        """How many rounds of each charge were drawn after a time, in seconds since 1970.

        Edge cases: earlier versions kept the time of the charge alone, which stands for all its rounds.
        """
        with self._file.snapshot() as connection:
            rows = connection.execute(
                "SELECT charges.reference, COALESCE(counted.number, charges.rounds) FROM charges LEFT JOIN ("
                "SELECT charge, SUM(time > ?) AS number FROM draws GROUP BY charge) AS counted "
                "ON counted.charge = charges.id WHERE charges.drawn > 0 "
                "AND (counted.number > 0 OR counted.number IS NULL AND charges.time > ?)",
                (books.written(time), books.written(time)),
            )
            return dict(rows.fetchall())

    def _order(self, plan: Plan, what: str, unit: Unit | str, reference: str | None, **more: Any) -> Order:
        self._check_adjacency(plan.adjacency)
        budget = self.budget
        charge, cut = budget.price(plan), budget.cut(plan)
        return Order(_named(reference), what, check_unit(unit), self.adjacency, charge, plan, cut, **more)

    def _enter(self, order: Order, *, within_budget: bool = True) -> tuple[int, bool]:
        with self._file.transaction() as connection:
            return charging.enter(connection, order, self._clock.now(), within_budget=within_budget)

    def _check_adjacency(self, adjacency: Adjacency) -> None:
        if check_adjacency(adjacency) != self.adjacency:
            raise InvalidSetting(
                "adjacency",
                f"is {adjacency}, and this ledger adds up {self.adjacency} guarantees",
                hint="Plan with the ledger's adjacency, or keep another ledger.",
            )

    def history(self) -> list[Entry]:
        """All charges, oldest first."""
        with self._file.snapshot() as connection:
            return books.entries(connection)

    def _read(self) -> books.Book:
        with self._file.snapshot() as connection:
            return books.read(connection, self._clock.now())

    def _now(self) -> str:
        return books.written(self._clock.now())


def _named(reference: str | None) -> str:
    return new_reference() if reference is None else reference

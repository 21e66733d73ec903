"""What a fleet's queries and series pay: their charges on the ledger, held against what the store knows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thresher.errors import Conflict
from thresher.ledger import Ledger
from thresher.privacy.plans import Plan
from thresher.privacy.units import DEVICE
from thresher.protocol.states import ACTIVE_QUERY
from thresher.roles.coordinator import views
from thresher.roles.coordinator.ledger_rebuilding import COMMAND, draw_opened

if TYPE_CHECKING:
    from thresher.roles.coordinator.store import CoordinatorStore, StoredQuery


class Payments:
    """The ledger of one fleet and its store.

    Guarantee: a ledger of other data, or one that lacks a charge of the store's queries or series, is refused. Rounds
    that the store knows to have opened are marked as drawn, also in a ledger that was restored from a backup.
    Raises: `Conflict` for a ledger that is not this store's.
    """

    def __init__(self, ledger: Ledger, store: CoordinatorStore, fleet: str) -> None:
        if ledger.adjacency != "replace" or ledger.unit not in (None, DEVICE):
            raise Conflict(
                "A fleet's ledger must add up replace-one guarantees for one device.", hint="Create another ledger."
            )
        if ledger.data_set not in (None, fleet):
            raise Conflict("This ledger belongs to other data.", hint="Start with the ledger of this fleet.")
        self.ledger = ledger
        self.unsettled = True
        """Whether an ended query may have rounds reserved."""
        self._store = store
        self._fleet = fleet
        self.check()
        draw_opened(store, ledger)

    def check(self) -> None:
        """Refuse a ledger that lacks the charge of a query or of a series, however it ended."""
        if not self._store.charged_ids() <= self.ledger.references():
            raise Conflict(
                "The ledger does not hold what this store's queries were charged.",
                hint="Start with the ledger that belongs to the store: another would forget what was spent. If it is "
                f"lost, make it again from the store: {COMMAND}.",
            )

    def reserve(self, plan: Plan, what: str, reference: str, by: str) -> None:
        """Reserve all rounds of a query or series whose plan was verified; `BudgetExceeded` if they do not fit."""
        self.ledger.reserve(plan, what, unit=DEVICE, reference=reference, data_set=self._fleet, by=by, verified=True)

    def draw(self, query: StoredQuery, index: int) -> None:
        """Charge a round of a query, before it opens; that of a series' query to the series."""
        self.ledger.draw(*views.paid_by(query, index))

    def was_drawn(self, query: StoredQuery, index: int) -> bool:
        """Whether a round of a query was charged before."""
        return self.ledger.was_drawn(*views.paid_by(query, index))

    def settle(self) -> None:
        """Give back the rounds of ended queries that never opened. Called within a step, which alone opens rounds."""
        if not self.unsettled:
            return
        self.unsettled = False
        try:
            # The ledger is read first: what is reserved is stored, so that a query which is taken meanwhile is not
            # among those that are given back.
            reserved = self.ledger.reserved()
            active = {query.id for query in self._store.queries(ACTIVE_QUERY)}
            active |= {series.id for series in self._store.unsettled_series()}
            for reference in reserved - active:
                self.ledger.give_back(reference)
        except BaseException:
            self.unsettled = True
            raise

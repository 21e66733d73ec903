"""The ledger of a server: made by the first start, opened by later ones, and rebuilt from the store if it was lost."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from thresher.clock import Clock
from thresher.errors import Conflict, InvalidSetting
from thresher.ledger import Ledger
from thresher.ledger.durations import check_period
from thresher.privacy.budget import Composing, check_composition
from thresher.privacy.units import DEVICE
from thresher.roles.coordinator.ledger_rebuilding import COMMAND, Rebuilt, rebuild
from thresher.roles.coordinator.store import CoordinatorStore
from thresher.roles.database.database import look_at
from thresher.server.data_directory import DataDirectory
from thresher.server.role_stores import bind_stores, check_stores

DEFAULT_EPSILON = 10.0
DEFAULT_DELTA = 1e-6


@dataclass(frozen=True, slots=True)
class FleetBudget:
    """A fleet's budget as an operator gave it; what was left out is None.

    The first start makes the ledger from it. Later starts require that what is given is the ledger's.
    """

    epsilon: float | None = None
    delta: float | None = None
    composition: Composing | None = None
    period: str | None = None

    def __post_init__(self) -> None:
        if self.composition is not None:
            check_composition(self.composition, setting="budget-composition")
        if self.period is not None:
            check_period(self.period, setting="budget-period")


def ledger_path(directory: DataDirectory) -> Path:
    """Where a fleet's ledger is."""
    return directory.of("coordinator") / "ledger.db"


def open_ledger(
    directory: DataDirectory, store: CoordinatorStore, budget: FleetBudget, clock: Clock | None = None
) -> Ledger:
    """The fleet's ledger. The first start makes it, later ones only open it; a different budget is an error.

    Edge cases: `Conflict` if there is no ledger while the store has queries that were charged: a new one would forget
    their charges.
    """
    path = ledger_path(directory)
    if not path.exists():
        if store.charged_ids():
            raise Conflict(
                f"The ledger {path} is missing, and this store has queries that were charged.",
                hint=f"Restore it from a backup, or make it again from the store: {COMMAND} --data-dir "
                f"{directory.path} with the fleet's --budget-epsilon, --budget-delta and --budget-composition, and "
                "its --budget-period if it has one.",
            )
        budget = replace(
            budget,
            epsilon=DEFAULT_EPSILON if budget.epsilon is None else budget.epsilon,
            delta=DEFAULT_DELTA if budget.delta is None else budget.delta,
        )
    return _opened(path, budget, clock)


def _opened(path: Path, budget: FleetBudget, clock: Clock | None = None) -> Ledger:
    """Open a ledger, or make it. An error in the budget names the command's option."""
    there = path.exists()
    try:
        return Ledger(path, **asdict(budget), unit=DEVICE, clock=clock)
    except InvalidSetting as error:
        if error.setting not in asdict(budget):
            raise
        enlarging = f"; it can be enlarged: thresher ledger enlarge {path}" if error.setting == "epsilon" else ""
        raise InvalidSetting(
            f"budget-{error.setting}",
            error.message.removeprefix(f"{error.setting} ").removesuffix("."),
            hint=f"Leave --budget-{error.setting} out: a fleet's budget is fixed at its first start{enlarging}."
            if there
            else error.marked_hint,
        ) from None


def rebuild_ledger(
    data_dir: Path, store: str | None, budget: FleetBudget, *, adopt_store: bool = False
) -> tuple[Ledger, Rebuilt]:
    """Rebuild the ledger of a stopped server from its store, or add the charges that are missing in it.

    Args:
        data_dir: The coordinator's data directory, in which the ledger is.
        store: A `postgresql://` address; None for the SQLite file in the data directory.
        budget: That of the fleet's first start, with its epsilon, delta and composition, if there is no ledger: the
            filter's order was chosen for it. The ledger's own otherwise.
        adopt_store: Whether the data directory takes this store from now on, though it was used with another one.

    Returns: The ledger, and how many charges were entered.
    Raises: `InvalidSetting` for a directory without a coordinator, while a server runs in it, or for a store that is
    empty or not the directory's; what `rebuild` raises.
    """
    if not (data_dir / "coordinator").is_dir():
        raise InvalidSetting(
            "data-dir", f"{str(data_dir)!r} has no coordinator", hint="Give the data directory of the coordinator."
        )
    with DataDirectory(data_dir, ["coordinator"]) as directory:
        where = store or directory.of("coordinator")
        if not look_at(where, "coordinator").used:
            raise InvalidSetting(
                "store", "is empty or missing: no coordinator has used it", hint="Name it as for thresher serve."
            )
        if not adopt_store:
            check_stores(directory, store)
        if not ledger_path(directory).exists():
            _check_complete(budget)
        with contextlib.closing(claimed(where)) as opened:
            ledger = _opened(ledger_path(directory), budget)
            rebuilt = rebuild(opened, ledger)
            bind_stores(directory, store, {"coordinator": opened.id})
        return ledger, rebuilt


def _check_complete(budget: FleetBudget) -> None:
    """Require a budget that was given in full. A default could be another one than that of the fleet."""
    if budget.epsilon is None or budget.delta is None:
        raise InvalidSetting(
            "budget-epsilon",
            "and budget-delta are missing: the budget is lost with the ledger",
            hint="Give those of the fleet's first start, and enlarge afterwards; thresher serve makes ledgers with "
            f"{DEFAULT_EPSILON:g} and {DEFAULT_DELTA:g} unless it is told otherwise.",
        )
    if budget.composition is None:
        raise InvalidSetting(
            "budget-composition",
            "is missing: how queries compose is lost with the ledger",
            hint="Give that of the fleet's first start: thresher serve makes adaptive ledgers unless it is told "
            "otherwise, and Thresher 0.1.0 made ledgers of the kind sum.",
        )


def claimed(where: str | Path) -> CoordinatorStore:
    """The coordinator's store, claimed for this process: two processes would run the same queries with two ledgers."""
    store = CoordinatorStore.open(where)
    try:
        store.claim()
    except BaseException:
        store.close()
        raise
    return store

"""The ledger of a server: made by the first start, opened by later ones, and rebuilt from the store if it was lost."""

from __future__ import annotations

import contextlib
from pathlib import Path

from thresher.errors import Conflict, InvalidSetting
from thresher.ledger import Ledger
from thresher.privacy.units import DEVICE
from thresher.roles.coordinator.ledger_rebuilding import COMMAND, Rebuilt, rebuild
from thresher.roles.coordinator.store import CoordinatorStore
from thresher.roles.database.database import look_at
from thresher.server.data_directory import DataDirectory
from thresher.server.role_stores import bind_stores, check_stores

DEFAULT_EPSILON = 10.0
DEFAULT_DELTA = 1e-6


def ledger_path(directory: DataDirectory) -> Path:
    """Where a fleet's ledger is."""
    return directory.of("coordinator") / "ledger.db"


def open_ledger(
    directory: DataDirectory, store: CoordinatorStore, epsilon: float | None, delta: float | None
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
                f"{directory.path} with the fleet's --budget-epsilon and --budget-delta.",
            )
        epsilon = DEFAULT_EPSILON if epsilon is None else epsilon
        delta = DEFAULT_DELTA if delta is None else delta
    return _opened(path, epsilon, delta)


def _opened(path: Path, epsilon: float | None, delta: float | None) -> Ledger:
    """Open a ledger, or make it. An error in the budget names the command's option."""
    there = path.exists()
    try:
        return Ledger(path, epsilon, delta, unit=DEVICE)
    except InvalidSetting as error:
        if error.setting not in ("epsilon", "delta"):
            raise
        raise InvalidSetting(
            f"budget-{error.setting}",
            error.message.removeprefix(f"{error.setting} ").removesuffix("."),
            hint=f"Leave --budget-{error.setting} out: a fleet's budget is fixed at its first start."
            if there
            else error.hint,
        ) from None


def rebuild_ledger(
    data_dir: Path, store: str | None, epsilon: float | None, delta: float | None, *, adopt_store: bool = False
) -> tuple[Ledger, Rebuilt]:
    """Rebuild the ledger of a stopped server from its store, or add the charges that are missing in it.

    Args:
        data_dir: The coordinator's data directory, in which the ledger is.
        store: A `postgresql://` address; None for the SQLite file in the data directory.
        epsilon: The fleet's whole budget; needed if there is no ledger, and the ledger's own otherwise.
        delta: Likewise.
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
        if not ledger_path(directory).exists() and (epsilon is None or delta is None):
            raise InvalidSetting(
                "budget-epsilon",
                "and budget-delta are missing: the budget is lost with the ledger",
                hint="Give those of the fleet; thresher serve makes ledgers with "
                f"{DEFAULT_EPSILON:g} and {DEFAULT_DELTA:g} unless it is told otherwise.",
            )
        with contextlib.closing(claimed(where)) as opened:
            ledger = _opened(ledger_path(directory), epsilon, delta)
            rebuilt = rebuild(opened, ledger)
            bind_stores(directory, store, {"coordinator": opened.id})
        return ledger, rebuilt


def claimed(where: str | Path) -> CoordinatorStore:
    """The coordinator's store, claimed for this process: two processes would run the same queries with two ledgers."""
    store = CoordinatorStore.open(where)
    try:
        store.claim()
    except BaseException:
        store.close()
        raise
    return store

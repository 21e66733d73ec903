"""Opens a role's store and keeps the data directory with it.

A data directory holds a role's secrets and its ledger; the store may be elsewhere, in PostgreSQL. A start that names
another store, or forgets to name one, would run with an empty store: no device is enrolled there and no query is known.
So the first start writes the store's id into the directory, and every later one must find that id.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from thresher.errors import InvalidSetting, StoreUnavailable
from thresher.files import write_whole
from thresher.fleet.server.data_directory import DataDirectory
from thresher.fleet.store.database import Store

S = TypeVar("S", bound=Store)


def opened_store(directory: DataDirectory, role: str, address: str | None, opening: Callable[[str | Path], S]) -> S:
    """The store of a role: at a `postgresql://` address, or in the role's directory.

    Guarantee: a directory that was used with a store is used with that store, or with a copy of it.
    Edge cases: a directory from before this was kept takes the store that it is opened with.
    Raises: `InvalidSetting` for another store; no SQLite file is made then.
    """
    own = directory.of(role)
    note = own / "store.id"
    kind = "SQLite" if address is None else "PostgreSQL"
    known = _read(note)
    if known and known[0] != kind:
        raise _other(role, note, f"is {kind}, and the {role}'s store was {known[0]} so far")
    if known and address is None and not (own / f"{role}.db").is_file():
        raise _other(role, note, f"is missing: {str(own / f'{role}.db')!r} is not there")
    store = opening(own if address is None else address)
    try:
        found = [kind, store.id]
        if not known:
            _write(note, found)
        elif known != found:
            raise _other(role, note, f"is not the {role}'s store that this data directory was used with")
    except BaseException:
        store.close()
        raise
    return store


def _read(note: Path) -> list[str]:
    """Kind and id of the store that was used so far; empty if none is known."""
    try:
        return note.read_text(encoding="ascii", errors="replace").split()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unusable(note, error) from None


def _write(note: Path, words: list[str]) -> None:
    try:
        write_whole(note, " ".join(words) + "\n")
    except OSError as error:
        raise _unusable(note, error) from None


def _unusable(note: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"{note} cannot be read or written: {error.strerror}.", hint="Check its owner and the space left.", lasting=True
    )


def _other(role: str, note: Path, reason: str) -> InvalidSetting:
    return InvalidSetting(
        "store",
        reason,
        hint=f"Name the store as at earlier starts, or restore it from a backup. To go on with this one, which may not "
        f"know the {role}'s past, remove {note}.",
    )

"""Makes sure that a data directory is always used with the same stores.

A data directory holds a role's secrets and its ledger; the store may be in PostgreSQL. A start that names another
store, or forgets to name one, would run with an empty store, where no device is enrolled and no query is known. So the
first start that succeeds writes each store's id into the directory, and every later start must find that id.

Stores are looked at before any is opened, because opening makes and migrates tables. So a start that is refused changes
neither the directory nor the store that it was given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from thresher.errors import InvalidSetting, StoreUnavailable
from thresher.files import write_whole
from thresher.roles.database.database import Mark, Role, look_at
from thresher.server.data_directory import DataDirectory

_NOTE = re.compile(r"(SQLite|PostgreSQL) ([0-9a-f]{32})\n?")


def check_stores(directory: DataDirectory, address: str | None) -> None:
    """Require that the stores of all roles are those that this directory was used with, or copies of them.

    Args:
        directory: The data directory, with the roles that run.
        address: A `postgresql://` address; None for the SQLite files in the directory.

    Guarantee: nothing is written anywhere.
    Edge cases: a directory from before ids were kept takes any store that is not empty.
    Raises: `InvalidSetting` for another store, one without an id, or an empty one.
    """
    kind = _kind(address)
    for role in sorted(directory.roles):
        found = look_at(directory.of(role) if address is None else address, cast(Role, role))
        note = _note(directory, role)
        known = _read(note)
        if known is None:
            if not found.used and directory.was_used(role):
                raise _other(f"is empty, and this data directory was used with a store of the {role}")
            continue
        if known[0] != kind:
            raise _other(f"is {kind}, and the {role}'s store was {known[0]} so far")
        _check_mark(role, found, known[1], None if address else directory.of(role) / f"{role}.db")


def bind_stores(directory: DataDirectory, address: str | None, ids: Mapping[str, str]) -> None:
    """Write the ids of the stores into this directory, where they are not written already."""
    for role, id in ids.items():
        note = _note(directory, role)
        wanted = f"{_kind(address)} {id}\n"
        try:
            if not note.is_file() or note.read_bytes() != wanted.encode():
                write_whole(note, wanted)
        except OSError as error:
            raise _unusable(note, error) from None


def _check_mark(role: str, found: Mark, known: str, file: Path | None) -> None:
    if not found.used:
        raise _other("is empty" if file is None else f"is missing: {str(file)!r} is not there, or empty")
    if found.id is None:
        raise _other(
            f"has no id, so it is not known to be the {role}'s store that this data directory was used with",
            "It is from before ids were kept. If it is this fleet's, as an older backup is, ",
        )
    if found.id != known:
        raise _other(f"is not the {role}'s store that this data directory was used with")


def _kind(address: str | None) -> str:
    return "SQLite" if address is None else "PostgreSQL"


def _note(directory: DataDirectory, role: str) -> Path:
    return directory.of(role) / "store.id"


def _read(note: Path) -> tuple[str, str] | None:
    """Kind and id of the store that was used so far; None if there is no note."""
    try:
        text = note.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(note, error) from None
    if not (words := _NOTE.fullmatch(text)):
        raise InvalidSetting(
            "data-dir",
            f"has a damaged {note}",
            hint="Restore it. If you are sure which store is this fleet's, name it and add --adopt-store.",
        )
    return words[1], words[2]


def _unusable(note: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"{note} cannot be read or written: {error.strerror}.", hint="Check its owner and the space left.", lasting=True
    )


def _other(reason: str, otherwise: str = "If it is this fleet's all the same, ") -> InvalidSetting:
    return InvalidSetting(
        "store",
        reason,
        hint=f"Nothing was changed. Name the store as at earlier starts, or restore it from a backup. {otherwise}"
        "add --adopt-store.",
    )

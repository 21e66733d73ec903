"""Files that survive a crash whole, and files that are gone when they are deleted."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 1 << 20


def write_whole(path: Path, text: str) -> None:
    """Write a file, readable by its owner only, under another name and move it into place.

    Guarantee: a crash leaves the old file or the new one, whole; the new one is durable when this returns.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        sync_directory(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def create_empty(path: Path) -> None:
    """Make an empty file, readable by its owner only; nothing to do if there is one.

    Guarantee: a file that is there is not opened. Closing it again would give up every lock this process holds on it,
    SQLite's among them, and two writers at once corrupt a database.
    """
    if not path.exists():
        with made_beside(path):
            pass


@contextlib.contextmanager
def made_beside(path: Path) -> Iterator[Path]:
    """A new empty file, readable by its owner only, to be filled and then linked to its place; whoever is first wins.

    Guarantee: what stands at `path` is whole from its first moment, durable at the end, and never replaced. If the
    block fails, nothing is left.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        sync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Make what was added to a directory, or removed from it, durable.

    Edge cases: where directories cannot be opened, as on Windows, the file system does it alone.
    """
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def shred(path: Path) -> None:
    """Overwrite a file with zeros and delete it; nothing to do if there is none.

    Edge cases: copies that a file system or a backup made are out of reach.
    """
    if not path.exists():
        return
    with path.open("r+b") as file:
        left = path.stat().st_size
        while left > 0:
            left -= file.write(bytes(min(left, _CHUNK)))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
    sync_directory(path.parent)

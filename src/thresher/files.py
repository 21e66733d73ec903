"""Files that are whole after a crash, and files whose content is overwritten when they are deleted."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from thresher.errors import InvalidSetting

_CHUNK = 1 << 20
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def file_target(path: Path, *, setting: str = "path") -> Path:
    """The path where a file is to be written: `path` itself, or the target of the link that it is.

    Raises: `InvalidSetting` where something exists that is not a regular file. Moving a file there would replace a
    device, and opening a pipe would wait for its reader.
    """
    try:
        target = path.resolve()
        kind = stat.S_IFMT(target.stat().st_mode)
    except FileNotFoundError:
        return target
    except (OSError, RuntimeError):
        raise InvalidSetting(
            setting, f"{str(path)!r} cannot be reached", hint="Check the path and its links."
        ) from None
    if kind != stat.S_IFREG:
        what = _KINDS.get(kind, "no file")
        raise InvalidSetting(setting, f"{str(path)!r} is {what}", hint="Give the name of a new or a regular file.")
    return target


def write_whole(path: Path, text: str) -> None:
    """Write a file, readable by its owner only, under another name and move it into place.

    Guarantee: a crash leaves the old file or the new one, whole; the new one is durable when this returns.
    Edge cases: a link stays, and what it points to is written. Only a regular file is replaced.
    """
    path = file_target(path)
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
    """Make an empty file, readable by its owner only, if there is none.

    Guarantee: an existing file is not opened. Closing it again would release every lock that this process holds on it,
    SQLite's among them, and two writers at once corrupt a database.
    """
    if not path.exists():
        with made_beside(path):
            pass


@contextlib.contextmanager
def made_beside(path: Path) -> Iterator[Path]:
    """A new empty file, readable by its owner only, which is linked to `path` at the end of the block.

    Guarantee: the file at `path` is whole from its first moment and durable at the end. An existing file is never
    replaced: of several processes the first one wins. If the block fails, nothing is left.
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

    Edge cases: does nothing where directories cannot be opened, as on Windows: there the file system does it itself.
    """
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def shred(path: Path) -> None:
    """Overwrite a file with zeros and delete it, if there is one.

    Edge cases: copies that a file system or a backup made are not overwritten.
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

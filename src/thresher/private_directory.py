"""Directories for people's rows: nobody else can read them, and what a process that was killed left is removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import weakref
from pathlib import Path
from types import TracebackType

if os.name == "posix":
    import fcntl

_PREFIX = "thresher-rows-"


class PrivateDirectory:
    """A new directory that is removed by `remove`, at the end of a `with` block, or else with this object or Python.

    Its process holds a lock on it, and so do processes that are forked from it. Whoever makes a new one removes those
    of the same user whose lock nobody holds: their processes were killed.

    Guarantee: only the process that made it removes it while it runs.
    Edge cases: nothing is locked, and nothing of others removed, on Windows and in file systems without locks.
    """

    def __init__(self) -> None:
        _remove_left()
        while (made := _made()) is None:
            pass
        self.path, self._descriptor = made
        self._process = os.getpid()
        self._finalizer = weakref.finalize(self, _remove, *made, self._process)

    @property
    def owned(self) -> bool:
        """Whether this process made it, and is no fork of the one that did."""
        return os.getpid() == self._process

    @property
    def intact(self) -> bool:
        """Whether it is still there, ours, and closed to others: a cleaner of temporary files may have removed it."""
        try:
            found = self.path.lstat()
        except OSError:
            return False
        if self._descriptor is None:
            return stat.S_ISDIR(found.st_mode)
        return os.path.samestat(found, os.fstat(self._descriptor)) and _private(found)

    def remove(self) -> None:
        """Remove it now, with all that is in it."""
        self._finalizer()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.remove()


def _made() -> tuple[Path, int | None] | None:
    """A new directory, with the descriptor that locks it; None where it was taken for one that a process had left."""
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    if os.name != "posix":
        return path, None
    try:
        return path, _locked(path, wait=True)
    except FileNotFoundError:
        return None


def _locked(path: Path, *, wait: bool) -> int:
    """A descriptor that holds the lock of a directory.

    Raises: `BlockingIOError` where another one holds it; `FileNotFoundError` where the directory is gone.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except OSError:  # this file system has no locks
            if not wait:
                raise
        path.lstat()
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _remove_left() -> None:
    """Remove the directories of this user whose processes were killed."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIX):
                continue
            with contextlib.suppress(OSError):
                if _private(entry.stat(follow_symlinks=False)):
                    path = Path(entry.path)
                    _remove(path, _locked(path, wait=False), os.getpid())


def _remove(path: Path, descriptor: int | None, process: int) -> None:
    """Remove a directory and give back its lock, unless this is a fork of the process that made it."""
    if os.getpid() != process:
        return
    shutil.rmtree(path, ignore_errors=True)
    if descriptor is not None:
        os.close(descriptor)


def _private(found: os.stat_result) -> bool:
    """Whether this is a directory of ours that nobody else can read."""
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == stat.S_IRWXU

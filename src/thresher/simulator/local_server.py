"""`thresher serve` in a process of its own, for as long as a demonstration or a measurement takes."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from thresher.errors import ServerUnavailable

_COMMAND = "import sys; from thresher.cli import main; sys.argv[0] = 'thresher'; main()"
_READY = re.compile(r"^Thresher is ready at (\S+)$", re.MULTILINE)
_START_SECONDS = 60.0
_END_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class LocalServer:
    """The address of a running server, its data directory with the keys, and its process."""

    url: str
    directory: Path
    process: subprocess.Popen[bytes]

    @property
    def enrolment_key(self) -> str:
        """Enrols devices."""
        return self._secret("enrolment.key")

    @property
    def analyst_key(self) -> str:
        """Asks queries."""
        return self._secret("analyst.token")

    @property
    def operator_key(self) -> str:
        """Opens the operator's routes."""
        return self._secret("operator.token")

    def _secret(self, name: str) -> str:
        return (self.directory / name).read_text(encoding="utf-8").strip()


@contextlib.contextmanager
def local_server(*arguments: str, directory: Path | None = None) -> Iterator[LocalServer]:
    """`thresher serve` on a free port, ready when the block begins and gone when it ends, however it ends.

    Without a directory it works in a new one that is deleted afterwards.
    """
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="thresher-"))) / "server"
        log = stack.enter_context(tempfile.TemporaryFile())
        process = subprocess.Popen(  # noqa: S603 - our own command
            _command(directory, arguments), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        stack.callback(_end, process)
        yield LocalServer(_address(process, log), directory, process)


def _command(directory: Path, arguments: Sequence[str]) -> list[str]:
    # The server chooses its port itself: a port that is free now may be taken by the time the server starts.
    return [sys.executable, "-c", _COMMAND, "serve", "--data-dir", str(directory), "--port", "0", *arguments]


def _address(process: subprocess.Popen[bytes], log: IO[bytes]) -> str:
    """The address that the server prints once it answers."""
    end = time.monotonic() + _START_SECONDS
    problem = "The server was not ready in time."
    while time.monotonic() < end:
        ended = process.poll() is not None
        if found := _READY.search(_said(log)):
            return found[1]
        if ended:
            problem = "The server ended before it was ready."
            break
        time.sleep(0.05)
    raise ServerUnavailable(problem, hint=f"It said: {_said(log)[-1000:]}")


def _said(log: IO[bytes]) -> str:
    # pread keeps the file position, which the server shares: a plain read would move where it writes.
    return os.pread(log.fileno(), os.fstat(log.fileno()).st_size, 0).decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate the server; kill it if it does not end in time."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

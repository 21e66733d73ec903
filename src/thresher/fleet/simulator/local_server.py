"""A server of one's own, in a process of its own, for as long as a demonstration or a measurement takes."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from thresher.errors import ServerUnavailable

_COMMAND = "import sys; from thresher.cli import main; sys.argv[0] = 'thresher'; main()"
_START_SECONDS = 60.0
_END_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class LocalServer:
    """Where it listens and what opens it."""

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
        port = free_port()
        log = stack.enter_context(tempfile.TemporaryFile())
        process = subprocess.Popen(  # noqa: S603 - our own command
            _command(directory, port, arguments), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        stack.callback(_end, process)
        server = LocalServer(f"http://127.0.0.1:{port}", directory, process)
        try:
            _wait_until_ready(server)
        except ServerUnavailable as error:
            log.seek(0)
            said = log.read()[-1000:].decode(errors="replace")
            raise ServerUnavailable(error.message, hint=f"It said: {said}") from None
        yield server


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _command(directory: Path, port: int, arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-c", _COMMAND, "serve", "--data-dir", str(directory), "--port", str(port), *arguments]


def _wait_until_ready(server: LocalServer) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        if server.process.poll() is not None:
            raise ServerUnavailable("The server ended before it was ready.")
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(server.url + "/readyz", timeout=2) as answer,  # noqa: S310 - our own address
        ):
            if answer.status == 200:
                return
        time.sleep(0.05)
    raise ServerUnavailable("The server was not ready in time.")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end; insist if it does not."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

"""A real `thresher serve` process for tests: `running_server` is one on a free port, `start_server` any number."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from forked_commands import ForkedCommand

_BOOT = "from thresher.cli import main; main()"
_READY = re.compile(r"Thresher is ready at (\S+)")


@dataclass
class RunningServer:
    """A server process. `lines` is what it printed, on both streams, so far."""

    data_dir: Path
    arguments: tuple[str, ...]
    forked: bool = True
    """Whether it is a fork of a process that has imported everything, or an interpreter of its own."""
    url: str = ""
    lines: list[str] = field(default_factory=list)
    process: subprocess.Popen | ForkedCommand | None = None
    _reader: threading.Thread | None = None
    _place: socket.socket | None = None

    @property
    def analyst(self) -> str:
        return (self.data_dir / "analyst.token").read_text().strip()

    @property
    def operator(self) -> str:
        return (self.data_dir / "operator.token").read_text().strip()

    @property
    def enrolment_key(self) -> str:
        return (self.data_dir / "enrolment.key").read_text().strip()

    @property
    def output(self) -> str:
        return "".join(self.lines)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def start(self, *, seconds: float = 60) -> "RunningServer":
        """Start it and wait until it says that it is ready; a second start takes the first one's port."""
        arguments = ["serve", "--data-dir", str(self.data_dir), "--port", self._port(), *self.arguments]
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        if self.forked:
            self.process = ForkedCommand(_BOOT, arguments, environment)
        else:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
            )
        ready = threading.Event()
        self._reader = reader = threading.Thread(target=self._read, args=(self.process, ready), daemon=True)
        reader.start()
        end = time.monotonic() + seconds
        while not ready.wait(0.05):
            if self.process.poll() is not None:
                reader.join(5)
                raise RuntimeError(f"the server ended with {self.process.returncode}: {self.output}")
            if time.monotonic() > end:
                self.kill()
                raise RuntimeError(f"the server is not ready after {seconds} s: {self.output}")
        return self

    def _port(self) -> str:
        """A port that nobody else is given while the server is away: a socket that does not listen keeps its place."""
        if self._place is None:
            self._place = socket.socket()
            self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._place.bind(("127.0.0.1", 0))
        return str(self._place.getsockname()[1])

    def _read(self, process: subprocess.Popen | ForkedCommand, ready: threading.Event) -> None:
        with process.stdout:
            for line in process.stdout:
                self.lines.append(line)
                if found := _READY.search(line):
                    self.url = found[1]
                    ready.set()

    def kill(self) -> None:
        """End it at once, as a crash would (SIGKILL)."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)

    def stop(self) -> int:
        """Ask it to end (SIGTERM); its exit code. `output` has its last words then."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._reader.join(60)
        return code

    def close(self) -> None:
        """Kill it if it runs, and give up its port."""
        self.kill()
        if self._place is not None:
            self._place.close()

    def client(self, token: str | None = None, **settings) -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False, **settings)


@contextlib.contextmanager
def started(data_dir: Path, *arguments: str, forked: bool = True):
    """A server with these further arguments of `thresher serve`, ended again whatever happens."""
    with contextlib.closing(RunningServer(data_dir, arguments, forked)) as server:
        yield server.start()


@pytest.fixture
def start_server(tmp_path):
    """Start servers, each in a directory of its own: `start_server("--come-back", "1")`."""
    with contextlib.ExitStack() as stack:
        number = iter(range(1000))

        def start(*arguments: str, data_dir: Path | None = None) -> RunningServer:
            directory = tmp_path / f"server-{next(number)}" if data_dir is None else data_dir
            return stack.enter_context(started(directory, *arguments))

        yield start


@pytest.fixture
def running_server(start_server):
    """One server of all roles: devices come back every second, rounds are open for a minute, the budget is ample."""
    return start_server("--come-back", "1", "--round-seconds", "60", "--budget-epsilon", "100", "--budget-delta", "0.1")

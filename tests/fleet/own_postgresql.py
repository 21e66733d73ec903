"""A PostgreSQL of a test's own, which it may kill and start again."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

SCRIPT = Path(__file__).parents[2] / "scripts" / "postgres-for-tests"


def _script() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("postgres_for_tests", str(SCRIPT))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class OwnPostgreSQL:
    """A cluster in a directory of its own, on a Unix socket, with durable commits."""

    def __init__(self, home: Path, **settings: str) -> None:
        script = _script()
        self.home, self.data = home, home / "data"
        self._programs, self._as = script.binaries(), script.account()
        self._options = [part for pair in (script.SETTINGS | settings).items() for part in ("-c", "=".join(pair))]
        self._server: subprocess.Popen[bytes] | None = None
        if self._as:
            os.chown(home, self._as["user"], self._as["group"])
        initdb = [
            self._programs / "initdb",
            "-D",
            self.data,
            "-U",
            "thresher",
            "-A",
            "trust",
            "--locale=C",
            "-E",
            "UTF8",
        ]
        subprocess.run([*initdb, "--no-sync"], check=True, timeout=60, stdout=subprocess.DEVNULL, cwd=home, **self._as)

    @property
    def url(self) -> str:
        return f"postgresql://thresher@/postgres?host={self.home}"

    def start(self) -> None:
        with (self.home / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [self._programs / "postgres", "-D", self.data, "-k", self.home, *self._options],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, cwd=self.home,
                start_new_session=True, **self._as,
            )  # fmt: skip
        end = time.monotonic() + 60
        while subprocess.run([self._programs / "pg_isready", "-q", "-h", self.home], check=False).returncode:
            assert self._server.poll() is None and time.monotonic() < end, (self.home / "log").read_text()
            time.sleep(0.05)

    def stop_at_once(self) -> None:
        """As `pg_ctl stop -m immediate`: no checkpoint, so the next start recovers from the log."""
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait(60)


@contextlib.contextmanager
def own_postgresql(**settings: str) -> Iterator[OwnPostgreSQL]:
    """A cluster that is running, removed again whatever happens. Not below `tmp_path`: a socket's path is short."""
    home = Path(tempfile.mkdtemp(prefix="thresher-pg-"))
    try:
        cluster = OwnPostgreSQL(home, **settings)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop_at_once()
    finally:
        shutil.rmtree(home, ignore_errors=True)

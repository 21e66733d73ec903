"""A standalone Spark cluster for tests: a master and workers as processes of their own.

Where this user may make network namespaces, each of them is in its own, as machines are; otherwise on loopback.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

# A Java that lives for seconds gains nothing from optimising what it runs.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PATIENCE = 180


class Cluster:
    """A master and its workers; `master` is the address for sessions, `host` where the driver can be reached."""

    def __init__(self, folder: Path, network: Network | None) -> None:
        self._folder = folder
        self._network = network
        self._processes: list[subprocess.Popen[bytes]] = []
        self.host = network.host if network else "127.0.0.1"
        place = self._place()
        self.master = self._start("master", place, ["master.Master"], r"Starting Spark master at (\S+)")
        self.workers: list[subprocess.Popen[bytes]] = []

    def add_worker(self) -> None:
        """Start a worker of one core, and wait until the master has accepted it."""
        place = self._place()
        folder = self._folder / f"work-{len(self._processes)}"
        limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder)]
        self._start("worker", place, ["worker.Worker", *limits, self.master], r"Successfully registered with master")
        self.workers.append(self._processes[-1])

    def kill_worker(self) -> None:
        """Kill the first worker and its executors, as a machine that loses power does."""
        worker = self.workers.pop(0)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def stop(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _place(self) -> tuple[list[str], str]:
        """What to put before a command, and its address."""
        return self._network.add() if self._network else ([], "127.0.0.1")

    def _start(self, name: str, place: tuple[list[str], str], command: list[str], ready: str) -> str:
        import pyspark

        prefix, host = place
        log = self._folder / f"{name}-{len(self._processes)}.log"
        spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        kind, *arguments = command
        ports = ["--host", host, "--port", "0", "--webui-port", "0"]
        whole = [*prefix, spark_class, f"org.apache.spark.deploy.{kind}", *ports, *arguments]
        with log.open("wb") as output:
            # A session of its own: killing the group ends the executors too.
            process = subprocess.Popen(whole, stdout=output, stderr=output, start_new_session=True)
        self._processes.append(process)
        deadline = time.monotonic() + _PATIENCE
        while not (found := re.search(ready, text := log.read_text("utf-8", "replace"))):
            assert process.poll() is None and time.monotonic() < deadline, text[-3000:]
            time.sleep(0.05)
        return found[found.re.groups]


class Network:
    """A bridge with network namespaces, each with an address of its own."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._name = f"th{secrets.token_hex(3)}"
        self._block = f"10.{secrets.randbelow(100) + 100}.{secrets.randbelow(256)}"
        self._number = 1
        self.host = f"{self._block}.1"
        _ip("link", "add", self._name, "type", "bridge")
        stack.callback(_ip, "link", "del", self._name)
        _ip("addr", "add", f"{self.host}/24", "dev", self._name)
        _ip("link", "set", self._name, "up")

    def add(self) -> tuple[list[str], str]:
        self._number += 1
        name, inner, outer = (f"{self._name}{kind}{self._number}" for kind in "nio")
        address = f"{self._block}.{self._number}"
        _ip("netns", "add", name)
        self._stack.callback(_ip, "netns", "del", name)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
        _ip("link", "set", outer, "master", self._name, "up")
        for settings in (
            ("addr", "add", f"{address}/24", "dev", inner),
            ("link", "set", inner, "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", name, *settings)
        return ["ip", "netns", "exec", name], address


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _network(stack: ExitStack) -> Network | None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return None
    try:
        with ExitStack() as attempt:
            made = Network(attempt)
            made.add()
    except subprocess.CalledProcessError:
        return None
    return Network(stack)


@contextmanager
def started(folder: Path, settings: Mapping[str, str], path: str) -> Iterator[Cluster]:
    """A cluster of two workers, and this process set up for sessions on it; `path` is the workers' PYTHONPATH."""
    from thresher.tables import provide_java

    provide_java()
    secret = {"spark.authenticate": "true", "spark.authenticate.secret": secrets.token_hex(16)}
    with ExitStack() as stack:
        network = _network(stack)
        os.environ |= {
            "SPARK_CONF_DIR": str(folder),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": path,
        }
        write_defaults(folder, secret)
        cluster = Cluster(folder, network)
        stack.callback(cluster.stop)
        for _ in range(2):
            cluster.add_worker()
        driver = {"spark.driver.host": cluster.host, "spark.driver.bindAddress": cluster.host}
        write_defaults(folder, secret | driver | dict(settings))
        yield cluster


def write_defaults(folder: Path, settings: Mapping[str, str]) -> None:
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))


def bare_python(folder: Path, packages: Mapping[str, Path]) -> str:
    """An interpreter that has these packages and nothing else beside the standard library."""
    links = folder / "packages"
    links.mkdir(parents=True)
    for name, target in packages.items():
        (links / name).symlink_to(target)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{links}" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return str(python)

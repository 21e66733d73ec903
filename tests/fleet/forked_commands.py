"""Python processes that start in a moment: forks of one process that has imported everything and done nothing.

Most of a short process's life is its imports. A forked process has its own arguments, environment, directory and
streams, and from there on runs its code as any other: real sockets, real signals, a real end. What it does not show are
the imports themselves and its arguments in the list of processes; tests of these start an interpreter of their own.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

_BOOT = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from forked_commands import wait_for_a_command
del sys.path[0]
exec(wait_for_a_command(int(sys.argv[1])))
"""
_IMPORTED = ("typer._adapters", "thresher.cli.app", "thresher.console.adapter", "thresher.server.serving", "uvloop")
_LARGEST = 1 << 17


class ForkedCommand:
    """What `python -c code *arguments` does; `stdout` has both streams. It is used as a `subprocess.Popen` is."""

    def __init__(self, code: str, arguments: list[str], environment: Mapping[str, str]) -> None:
        output, its_output = os.pipe()
        status, its_status = os.pipe()
        try:
            asked = json.dumps([code, arguments, dict(environment), str(Path.cwd())]).encode()
            socket.send_fds(_origin.control(), [asked], [its_output, its_status])
        finally:
            os.close(its_output)
            os.close(its_status)
        self.stdout = os.fdopen(output, encoding="utf-8")
        self.returncode: int | None = None
        self._status = os.fdopen(status, encoding="ascii")
        self._reading = threading.Lock()
        named = self._status.readline()
        assert named, _origin.last_words()
        self.pid = int(named)

    def poll(self) -> int | None:
        with self._reading:
            if self.returncode is None and select.select([self._status], [], [], 0)[0]:
                self.returncode = int(self._status.readline())
                self._status.close()
        return self.returncode

    def wait(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("thresher", timeout)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Origin:
    """The process that all are forked from; one for each process that runs tests, from the first command on."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None
        self._starting = threading.Lock()

    def control(self) -> socket.socket:
        with self._starting:
            if self._control is None:
                self._control, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with its_end:
                    self._process = subprocess.Popen(
                        [sys.executable, "-c", _BOOT, str(its_end.fileno())],
                        stdin=subprocess.DEVNULL,
                        # Pipes, as its forks have: Python looks at a stream once, when it opens it.
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        pass_fds=[its_end.fileno()],
                        env=os.environ | {"PYTHONUNBUFFERED": "1"},
                    )
                atexit.register(self._end)
            return self._control

    def last_words(self) -> str:
        """What it printed before it ended, which it does by itself only if something cannot be imported."""
        return self._process.communicate(timeout=60)[0].decode()

    def _end(self) -> None:
        """It ends when nobody can ask it any more."""
        assert self._control is not None
        self._control.close()
        self._process.communicate(timeout=60)


_origin = _Origin()


def wait_for_a_command(descriptor: int) -> str:
    """Import what servers import, then fork for each command that is asked for. Only forks return, with their code."""
    for module in _IMPORTED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=descriptor) as control:
        while True:
            asked, descriptors, _, _ = socket.recv_fds(control, _LARGEST, 2)
            if not asked:
                os._exit(0)
            if os.fork() == 0:
                break
            for each in descriptors:
                os.close(each)
            with contextlib.suppress(ChildProcessError):  # all have ended
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    output, status = descriptors
    command = os.fork()
    if command:
        _report(command, status)
    os.close(status)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    code, sys.argv[1:], environment, directory = json.loads(asked)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    return str(code)


def _report(command: int, status: int) -> None:
    """Say which process the command has, and how it ended."""
    os.closerange(0, status)
    os.closerange(status + 1, status + 16)
    os.write(status, f"{command}\n".encode())
    _, ended = os.waitpid(command, 0)
    os.write(status, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
    os._exit(0)

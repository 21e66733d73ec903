"""The command line of tests: the same `main`, in a process of its own or, much quicker, in this one."""

import subprocess
import sys
from pathlib import Path

import pytest
from observing import captured

from thresher.cli.app import main

THRESHER = Path(sys.executable).with_name("thresher")


def in_a_process(*arguments: object, stdin: bytes | None = None) -> subprocess.CompletedProcess:
    """The installed command: its entry point, what it imports first, standard input, exit codes of a real process."""
    return subprocess.run([THRESHER, *map(str, arguments)], capture_output=True, input=stdin, timeout=120, check=False)


def in_this_process(*arguments: object) -> subprocess.CompletedProcess:
    """What `main` writes to both streams and exits with. An error that is none of ours fails the test."""
    with pytest.MonkeyPatch.context() as patch, captured() as read:
        patch.setattr(sys, "argv", ["thresher", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
        out, error = read()
    return subprocess.CompletedProcess(arguments, code, out.encode(), error.encode())

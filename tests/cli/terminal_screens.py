"""Commands in a pseudo-terminal: many in one process, each at several widths."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence

_CHILD = """
import fcntl, json, os, struct, sys, termios
from thresher.cli.app import main

asked, widths = json.loads(sys.argv[1])
for command in asked:
    for width in widths:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        sys.argv = ["thresher", *command]
        try:
            main()
        except SystemExit:
            pass
        sys.stderr.flush()
        print(chr(12), flush=True)
"""
_CONTROLS = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\]8;[^\x1b\x07]*(\x1b\\|\x07))")


def screens(commands: Sequence[Sequence[object]], widths: Sequence[int]) -> list[list[list[str]]]:
    """The lines that each command shows on a terminal of each width; progress that erases itself is left out."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
    asked = json.dumps([[list(map(str, command)) for command in commands], list(widths)])
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", _CHILD, asked], stdin=end, stdout=end, stderr=end, env=environment | {"TERM": "xterm"}
    )
    os.close(end)
    written = b""
    try:
        while block := os.read(terminal, 65536):
            written += block
    except OSError:  # the terminal's other end is closed
        pass
    os.close(terminal)
    process.wait(60)
    *shown, rest = written.decode().split("\f")
    assert len(shown) == len(commands) * len(widths), rest
    texts = [[_last(line) for line in text.replace("\r\n", "\n").strip("\n").split("\n")] for text in shown]
    return [texts[place : place + len(widths)] for place in range(0, len(texts), len(widths))]


def _last(line: str) -> str:
    """What is left on a line after progress has erased itself."""
    return _CONTROLS.sub("", re.split(r"\x1b\[2K|\r", line)[-1]).rstrip()

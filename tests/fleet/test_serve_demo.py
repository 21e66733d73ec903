"""`thresher serve --demo`: a newcomer can look at once, and nothing is left afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

import thresher as th

COMMAND = [sys.executable, "-c", "from thresher.cli import main; main()", "serve", "--demo", "--port", "0"]


@pytest.mark.slow
def test_a_demo_answers_at_once_and_cleans_up(tmp_path: Path) -> None:
    output = tmp_path / "output"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with output.open("wb") as file:
        process = subprocess.Popen(COMMAND, stdout=file, stderr=subprocess.STDOUT, env=environment)
    try:
        url, token = said(process, output, r"Open (\S+)/ and sign in with (\S+)")
        assert httpx.get(f"{url}/login", timeout=60).status_code == 200
        with th.Fleet(url, token) as fleet:
            while fleet.overview().active < 3000:
                time.sleep(0.2)
            answer = th.histogram(fleet, "country", epsilon=1, delta=1e-8)
        assert "de" in answer.to_dict()
        assert len(list(tmp_path.glob("thresher-demo-*"))) == 1
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=120)
    assert process.returncode == 0
    assert "Traceback" not in output.read_text()
    assert not list(tmp_path.glob("thresher-demo-*"))


@pytest.mark.slow
def test_a_killed_demo_takes_its_devices_along(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(COMMAND, stdout=file, stderr=file, env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        said(process, output, r"sign in with (\S+)")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    finally:
        process.kill()
        process.wait()
    assert children
    while any(alive(child) for child in children):
        time.sleep(0.1)


def alive(process: str) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def said(process: subprocess.Popen[bytes], output: Path, pattern: str) -> tuple[str, ...]:
    while not (found := re.search(pattern, output.read_text())):
        assert process.poll() is None, output.read_text()
        time.sleep(0.1)
    return found.groups()

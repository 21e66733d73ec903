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
        url, token = said(output, r"Open (\S+)/ and sign in with (\S+)")
        assert httpx.get(f"{url}/login").status_code == 200
        with th.Fleet(url, token) as fleet:
            while fleet.overview().active < 3000:
                time.sleep(0.2)
            answer = th.histogram(fleet, "country", epsilon=1, delta=1e-8)
        assert "de" in answer.to_dict()
        assert len(list(tmp_path.glob("thresher-demo-*"))) == 1
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
    assert process.returncode == 0
    assert "Traceback" not in output.read_text()
    assert not list(tmp_path.glob("thresher-demo-*"))


def said(output: Path, pattern: str) -> tuple[str, ...]:
    for _ in range(300):
        if found := re.search(pattern, output.read_text()):
            return found.groups()
        time.sleep(0.1)
    raise AssertionError(output.read_text())

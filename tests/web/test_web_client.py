"""The TypeScript client passes its own tests, and is as small as it says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "typescript"


@pytest.mark.slow
@pytest.mark.parametrize("script", ["check", "size"])
def test_the_client(script: str) -> None:
    assert (CLIENT / "node_modules").is_dir(), "the client is not built; make web builds it"
    environment = {**os.environ, "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["npm", "run", "--silent", script], cwd=CLIENT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


@pytest.mark.slow
def test_nothing_is_left_that_git_would_track() -> None:
    """No lock file: it would have the addresses of one registry."""
    listed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all", "clients", "examples"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert [line for line in listed if "package-lock" in line or "device.js" in line or "dist/" in line] == []

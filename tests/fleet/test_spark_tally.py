"""The tally on Spark, on a Spark of its own: a process has one, and whether it encrypts is set at its start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_tally_on_spark() -> None:
    cases = Path(__file__).with_name("spark_tally_cases.py")
    command = [sys.executable, "-m", "pytest", str(cases), "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "[100%]" in done.stdout

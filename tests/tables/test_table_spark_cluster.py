"""Spark as it is deployed: a master, two workers, one that dies. A process has one Spark, so this one has its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_spark_on_a_cluster() -> None:
    cases = Path(__file__).with_name("spark_cluster_cases.py")
    command = [sys.executable, "-m", "pytest", str(cases), "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    root = cases.parents[2]
    path = os.pathsep.join([str(root / "tests" / "fleet"), os.environ.get("PYTHONPATH", "")])
    # Spark Connect's library may stop a process that is forked beside its threads, as Java is started.
    environment = os.environ | {"PYTHONPATH": path, "GRPC_ENABLE_FORK_SUPPORT": "false"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, check=False, timeout=900)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "[100%]" in done.stdout

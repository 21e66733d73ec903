"""A private histogram against a plain group-by on the same engine: time, memory, growth with rows and with keys."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from measurement import Measurement
from zipf import zipf_file

DATA = Path("out/benchmarks/data")
REPEATS = 3
WHOLE_ROWS, WORD_ROWS, KEYS = 100_000_000, 20_000_000, 1_000_000
TARGETS = {"whole": 1.05, "words": 1.10}


def count(engine: str, path: Path, what: str, repeats: int = REPEATS) -> dict[str, float]:
    """Seconds of plain and private counting, the processor's too, and the process's peak of memory in MB."""
    script = Path(__file__).with_name("count_once.py")
    command = [sys.executable, str(script), engine, str(path), str(repeats), what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{engine} could not count: {done.stderr.strip().splitlines()[-1:]}")
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    busy = {f"{name}_busy": seconds for name, seconds in answer["busy"].items()}
    return {**answer["seconds"], **busy, "peak_mb": answer["peak_mb"]}


def ratio(engine: str, path: Path, name: str, *, repeats: int = REPEATS, peaks: bool = True) -> Measurement:
    both = count(engine, path, "both", repeats)
    note = f"{both['private']:.3f} s against {both['plain']:.3f} s"
    if engine != "spark":  # which counts in a process of its own
        note += f"; {both['private_busy'] / both['plain_busy']:.2f} × in processor time"
    if peaks and engine not in ("memory", "spark"):
        private, plain = (count(engine, path, each, 1)["peak_mb"] for each in ("private", "plain"))
        note += f"; peak {private:,.0f} MB against {plain:,.0f} MB"
    target = TARGETS[path.name.split("-")[0]]
    return Measurement(name=name, value=both["private"] / both["plain"], unit="× plain", target=target, note=note)


def ratios() -> list[Measurement]:
    """Private ÷ plain, on disk and in memory."""
    whole = zipf_file(DATA, WHOLE_ROWS, KEYS, "whole")
    words = zipf_file(DATA, WORD_ROWS, KEYS, "words")
    rows = []
    for engine in ("duckdb", "polars", "spark"):
        rows.append(ratio(engine, whole, f"{engine}: {WHOLE_ROWS:,} whole numbers"))
        rows.append(ratio(engine, words, f"{engine}: {WORD_ROWS:,} words"))
    fewer = zipf_file(DATA, 20_000_000, KEYS, "whole")
    rows.append(ratio("memory", fewer, "memory: 20,000,000 whole numbers as Arrow"))
    rows.append(ratio("memory", words, f"memory: {WORD_ROWS:,} words as Arrow"))
    return rows


def growth() -> list[Measurement]:
    """How the time grows with rows (at 100,000 keys) and with distinct keys (at ten million rows)."""
    rows = []
    for size in (100_000, 1_000_000, 10_000_000, 100_000_000):
        seconds = count("duckdb", zipf_file(DATA, size, 100_000, "whole"), "private")["private"]
        rows.append(Measurement(name=f"rows {size}", value=seconds, unit="s", target=None, note="100,000 keys"))
    for keys in (100, 10_000, 1_000_000, 10_000_000):
        both = count("duckdb", zipf_file(DATA, 10_000_000, keys, "whole"), "both")
        note = f"ten million rows; {both['private'] / both['plain']:.2f} × plain"
        rows.append(Measurement(name=f"keys {keys}", value=both["private"], unit="s", target=None, note=note))
    return rows


def measure() -> list[Measurement]:
    return [*ratios(), *growth()]

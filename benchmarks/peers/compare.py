"""The same private histogram by Thresher and by other libraries: time, memory, keys released, error.

`python benchmarks/peers/compare.py [--rows N] [--peers opendp,pydp]` prints a table. Every library answers the same
question about the same file at (epsilon, delta) = (1, 1e-8), one row per person, by the fastest way its public
interface offers; `runner.py` says what the clock covers.

Two things the table cannot show. The others protect against adding or removing one person, Thresher by default
against changing what one person holds: at the same epsilon that hides more of what they hold, but not that they take
part. And the others add noise to counts of the whole table, so their errors on large keys are smaller; Thresher counts
a sample.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `python benchmarks/peers/compare.py`

from peers.data import ROWS, make, true_counts
from peers.environments import CACHE, PEERS, ROOT, THRESHER, Peer, prepare, short

FOLDER = ROOT / "out" / "peers"
TIMEOUT = 900.0  # seconds for one library: warm-up and all runs
FALLBACK_ROWS = 1_000_000  # for a library that cannot finish the full size
WARM_UP_ROWS = 20_000
TOP = 1000


class Measurement(TypedDict):
    """One library. The numbers are None where there is no result; `rows` is the size that was tried last."""

    peer: str
    title: str
    version: str | None
    rows: int
    seconds: float | None
    runs: int | None
    memory_mb: float | None
    keys_released: int | None
    keys_invented: int | None  # released with a count above 0, though nobody holds them
    top_error: float | None  # mean relative error on the thousand most frequent keys; a missing key counts as 1
    factor: float | None  # seconds ÷ Thresher's seconds, on equal rows
    note: str
    error: str | None


def measure(
    rows: int = ROWS,
    peers: Iterable[Peer] = (THRESHER, *PEERS),
    environments: Path = CACHE,
    folder: Path = FOLDER,
    console: Console | None = None,
) -> list[Measurement]:
    """Make the data, install the libraries and run each of them, one after the other.

    Edge cases: a library that cannot be installed, fails, runs out of time or of memory is a row with an `error`; one
    that cannot finish `rows` rows is tried on a million.
    """
    console = console or Console(stderr=True)
    measurements = []
    for peer in peers:
        with console.status(f"{peer.title}: installing"):
            environment = prepare(peer, environments)
        if environment.problem:
            measurements.append(_failure(peer, rows, environment.problem))
            continue
        with console.status(f"{peer.title}: counting {rows:,} rows"):
            measured = _run(peer, environment.python, rows, folder)
        if measured["error"] and measured["error"].startswith("stopped") and rows > FALLBACK_ROWS:
            stopped = f"{rows:,} rows: {measured['error']}"
            with console.status(f"{peer.title}: counting {FALLBACK_ROWS:,} rows"):
                measured = _run(peer, environment.python, FALLBACK_ROWS, folder)
            measured["note"] = f"{stopped}; {measured['note']}"
        measurements.append(measured)
    own = next((each for each in measurements if each["peer"] == THRESHER.name), None)
    for each in measurements:
        if own and own["seconds"] and each["seconds"] and each["rows"] == own["rows"]:
            each["factor"] = each["seconds"] / own["seconds"]
    return measurements


def _run(peer: Peer, python: Path, rows: int, folder: Path) -> Measurement:
    """Run one library in a process of its own, and compare what it released with the truth."""
    data = make(folder / f"zipf-{rows}.parquet", rows)
    warm_up = make(folder / f"zipf-{WARM_UP_ROWS}.parquet", WARM_UP_ROWS)
    truth = true_counts(data)  # also brings the file into the page cache, for everyone alike
    output = folder / f"released-{peer.name}.parquet"
    command = [str(python), "-m", f"peers.{peer.runner}", str(data)]
    command += ["--warm-up", str(warm_up), "--output", str(output)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[1],
        start_new_session=True,  # so that a JVM and its workers can be ended with it
    )
    try:
        printed, complaints = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return _failure(peer, rows, f"stopped after {TIMEOUT:.0f} s")
    if process.returncode == -signal.SIGKILL:
        return _failure(peer, rows, "stopped by the system, most likely for lack of memory")
    answers = [line for line in printed.splitlines() if line.startswith('{"peer"')]
    if not answers:
        return _failure(peer, rows, short((complaints.strip().splitlines() or ["no answer"])[-1]))
    answer = json.loads(answers[-1])
    measurement = _failure(peer, rows, answer["error"] and short(answer["error"]))
    measurement["version"] = answer["version"]
    measurement["note"] = answer["note"]
    if answer["error"] is None:
        measurement["seconds"] = answer["seconds"]
        measurement["runs"] = answer["runs"]
        measurement["memory_mb"] = answer["memory_mb"]
        measurement["keys_released"] = answer["keys_released"]
        measurement["top_error"], measurement["keys_invented"] = accuracy(output, truth)
    return measurement


def _failure(peer: Peer, rows: int, error: str | None) -> Measurement:
    return Measurement(
        peer=peer.name,
        title=peer.title,
        version=None,
        rows=rows,
        seconds=None,
        runs=None,
        memory_mb=None,
        keys_released=None,
        keys_invented=None,
        top_error=None,
        factor=None,
        note="",
        error=error,
    )


def accuracy(released: Path, truth: npt.NDArray[np.int64]) -> tuple[float, int]:
    """Mean relative error on the most frequent keys, and how many keys were given people though nobody holds them."""
    table = pq.read_table(released)
    keys = table["key"].to_numpy()
    estimates = np.zeros(len(truth))
    estimates[keys] = table["count"].to_numpy()
    top = np.argsort(-truth, kind="stable")[:TOP]
    error = np.abs(estimates[top] - truth[top]) / truth[top]
    return float(error.mean()), int(((estimates > 0) & (truth == 0)).sum())


def show(measurements: list[Measurement], console: Console) -> None:
    """Print the table."""
    table = Table(title="Private histogram at (1, 1e-8), Zipf keys, one row per person")
    table.add_column("library")
    columns = ("rows", "seconds", "÷ Thresher", "memory", "keys", "invented", f"error, top {TOP}")
    for column in columns:
        table.add_column(column, justify="right")
    table.add_column("remarks", overflow="fold")
    for each in measurements:
        table.add_row(
            f"{each['title']} {each['version'] or ''}",
            f"{each['rows']:,}",
            _cell(each["seconds"], "{:.2f}"),
            _cell(each["factor"], "{:.1f}"),
            _cell(each["memory_mb"], "{:,.0f} MB"),
            _cell(each["keys_released"], "{:,}"),
            _cell(each["keys_invented"], "{:,}"),
            _cell(each["top_error"], "{:.2%}"),
            "; ".join(filter(None, (each["error"], each["note"]))),
        )
    console.print(table)


def _cell(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def main() -> None:
    """Parse arguments, measure, print."""
    everyone = {peer.name: peer for peer in (THRESHER, *PEERS)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--peers", default=",".join(everyone), help="names, with commas (default: %(default)s)")
    parser.add_argument("--environments", type=Path, default=CACHE, help="where they are installed")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the data and the releases go")
    parser.add_argument("--json", type=Path, help="also write the measurements to this file")
    arguments = parser.parse_args()
    names = arguments.peers.split(",")
    if unknown := sorted(set(names) - set(everyone)):
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(everyone)}")
    measurements = measure(arguments.rows, [everyone[name] for name in names], arguments.environments, arguments.folder)
    show(measurements, Console())
    if arguments.json:
        arguments.json.write_text(json.dumps(measurements, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""What a charge costs, as a ledger's history grows: milliseconds of `Ledger.reserve`, on disk when it returns.

Compared, in the same run, with one durable transaction of SQLite alone on the same disk.
"""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import thresher as th
from measurement import Measurement
from thresher.ledger import Ledger
from thresher.privacy.units import ROW

HISTORIES = (0, 1_000, 10_000)
REPEATS = 50


def measure() -> list[Measurement]:
    rows: list[Measurement] = []
    plan = th.plan(0.1, 1e-10)
    with tempfile.TemporaryDirectory() as folder:
        alone = _median(_bare(Path(folder) / "bare.db"))
        rows.append(_row("one durable transaction of SQLite alone", alone, alone, None))
        for history in HISTORIES:
            ledger = _grown(Path(folder) / f"{history}.db", plan, history)
            charged = _median(partial(ledger.reserve, plan, "a query", unit=ROW, drawn=1))
            rows.append(_row(f"a charge after {history:,} others", charged, alone, 5.0))
    return rows


def _row(name: str, seconds: float, alone: float, target: float | None) -> Measurement:
    note = f"{seconds / alone:.2g} x SQLite alone"
    return Measurement(name=name, value=1000 * seconds, unit="ms", target=target, note=note)


def _grown(path: Path, plan: th.Plan, history: int) -> Ledger:
    """A ledger with a history, written in one transaction."""
    ledger = Ledger(path, epsilon=1000, delta=1e-3)
    if history:
        ledger.reserve(plan, "histogram of word", unit=ROW, drawn=1)
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(charges)") if row[1] != "id"]
            copied = ", ".join("'r' || number" if name == "reference" else name for name in columns)
            connection.execute(
                f"WITH RECURSIVE counted(number) AS (SELECT 2 UNION ALL SELECT number + 1 FROM counted "
                f"WHERE number < {history}) INSERT INTO charges ({', '.join(columns)}) "
                f"SELECT {copied} FROM counted, (SELECT * FROM charges LIMIT 1)"
            )
    return ledger


def _bare(path: Path) -> Callable[[], None]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript("PRAGMA synchronous = EXTRA; CREATE TABLE rows (text TEXT)")

    def write() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows VALUES ('a row')")
        connection.execute("COMMIT")

    return write


def _median(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)

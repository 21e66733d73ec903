"""What leaves an engine that fails: an interrupt as an interrupt, and no tally in any frame of an error."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import thresher as th
from thresher.errors import LedgerUnavailable
from thresher.questions import Values
from thresher.tables import Table
from thresher.tables.error_guard import emptied, guarded, heeded

ROWS = pa.table({"word": ["a"] * 501 + ["b"] * 502 + ["canary"] * 3, "who": range(1006)})


ASKING = """
import json, os, signal, sys, threading, time, warnings
import duckdb, ibis, numpy as np, polars as pl, pyarrow as pa, pyarrow.csv, pyarrow.parquet
import thresher as th

warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.default_int_handler)
folder = sys.argv[1]
number = 2_000_000
words = pa.array(np.random.default_rng(0).integers(0, 10**9, number).astype(str))
rows = pa.table({"word": words, "who": np.arange(number)})
pa.parquet.write_table(rows, folder + "/rows.parquet")
pa.csv.write_csv(rows, folder + "/rows.csv")
backend = ibis.duckdb.connect()
backend.read_parquet(folder + "/rows.parquet", table_name="rows")
doors = {
    "arrow": lambda: rows,
    "stream": lambda: rows.to_reader(max_chunksize=10_000),
    "stream of DuckDB": lambda: duckdb.connect().read_parquet(folder + "/rows.parquet").order("word"),
    "relation": lambda: duckdb.connect().read_parquet(folder + "/rows.parquet"),
    "parquet": lambda: folder + "/rows.parquet",
    "csv": lambda: folder + "/rows.csv",
    "ibis": lambda: backend.table("rows"),
    "polars": lambda: pl.scan_parquet(folder + "/rows.parquet"),
}
th.histogram(rows.slice(0, 1000), "word", epsilon=1, delta=1e-8)  # imports what is needed
found = {}
for name, door in doors.items():
    for unit in ("who",) if name == "arrow" else (None, "who"):
        ledger = th.Ledger(f"{folder}/{len(found)}.db", epsilon=3, delta=1e-5)
        data = door()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            th.histogram(data, "word", unit=unit, epsilon=1, delta=1e-8, ledger=ledger)
            time.sleep(1)
            end = "answered"
        except BaseException as error:
            end = type(error).__name__
        found[f"{name} {unit}"] = [end, len(ledger.history())]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_an_interrupt_at_every_door(tmp_path: Path) -> None:
    """A real one stops the count: nothing is read again in another way, charged or answered after it."""
    done = subprocess.run([sys.executable, "-c", ASKING, tmp_path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(map(tuple, found.values())) == {("KeyboardInterrupt", 0)}, found


@pytest.fixture
def interrupts() -> Iterator[None]:
    """A handler as Python has it; some workers of pytest ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_what_a_handler_raises_is_not_lost_in_an_engine() -> None:

    def engine() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("canary") from None

    for run in (lambda: heeded(engine), lambda: guarded("it", engine), lambda: guarded("it", lambda: heeded(engine))):
        with pytest.raises(KeyboardInterrupt) as caught:
            run()
        assert caught.value.__context__ is None
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(heeded, lambda: 3).result() == 3


@pytest.mark.parametrize("unit", [None, "who"])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_an_error_has_no_tally_in_its_frames(unit: str | None, rate: float) -> None:
    """Also where rows are sampled before they are counted."""

    def charge() -> None:
        raise LedgerUnavailable("canary")

    plan = th.plan(epsilon=3, delta=1e-3, sampling_rate=rate)
    with Table(ROWS, unit, before_draw=charge) as table, pytest.raises(LedgerUnavailable) as caught:
        table.ask(Values(("word",)), plan)
    frames = list(traceback.walk_tb(caught.value.__traceback__))
    assert frames[-1][0].f_code is charge.__code__
    held = [value for frame, _ in frames[1:] for value in frame.f_locals.values()]
    assert not any(isinstance(value, pa.Table | np.ndarray) for value in held)
    assert not any("501" in repr(value) for value in held)


def test_causes_and_groups_are_emptied() -> None:
    def inner() -> None:
        canary = 501
        raise ValueError(canary)

    def outer() -> None:
        try:
            inner()
        except ValueError as error:
            raise ExceptionGroup("several", [error, TypeError()]) from error

    with pytest.raises(ExceptionGroup) as caught, emptied():
        outer()
    for error in (caught.value, caught.value.__cause__, caught.value.exceptions[0]):
        assert error is not None
        held = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
        assert not any("canary" in each for each in held)

"""The aggregator on a million sealed reports: opened, counted, thresholded, deleted; time, memory, and its growth.

The reports are Zipf words, half of the reports are decoys, and they come from the SQLite store in batches of 5,000.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import thresher as th
from measurement import Measurement, peak_mb
from thresher.mechanism import Response
from thresher.protocol import plaintext
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.rates import share
from thresher.protocol.sealing import OVERHEAD, PublicKey, open_sealed, seal
from thresher.questions import Values
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.aggregator.keys import KeyRing
from thresher.roles.aggregator.round_drawing import LocalDrawing
from thresher.roles.aggregator.store import AggregatorStore

DATA = Path("out/benchmarks/data/sealed")
REPORTS, FEWER, LOOP = 1_000_000, 500_000, 20_000
SIZE, BATCH = 64, 5_000
RECORD = SIZE + OVERHEAD
WORD = Values(("word",))
TARGET_SECONDS = 60.0


def _configuration(key: PublicKey) -> RoundConfiguration:
    rates, plan = share(th.plan(epsilon=1, delta=1e-8))
    return RoundConfiguration.of(
        fleet="fleet",
        query="query",
        index=0,
        round="round",
        question=WORD,
        plan=plan,
        rates=rates,
        bucket_size=SIZE,
        deadline=0.0,
        key_id=key.key_id,
        public_key=key.raw,
    )


def _seal_batch(configuration: bytes, number: int) -> bytes:
    config = RoundConfiguration.read(configuration)
    key, info = PublicKey(config.key_id, bytes.fromhex(config.public_key)), config.hash
    random = np.random.default_rng(number)
    words = np.minimum(random.zipf(1.3, BATCH), 100_000)
    real = random.random(BATCH) < 0.5
    plain = (
        plaintext.encode_bucket(WORD, f"word-{word:06d}", SIZE) if keep else plaintext.decoy(SIZE)
        for word, keep in zip(words.tolist(), real.tolist(), strict=True)
    )
    return b"".join(seal(each or plaintext.decoy(SIZE), key, info) for each in plain)


def sealed_reports() -> None:
    """Make the reports, once: this takes longer than opening them."""
    if (DATA / "configuration.json").exists():
        return
    DATA.mkdir(parents=True, exist_ok=True)
    configuration = _configuration(KeyRing(DATA / "keys").current()).content
    numbers = range(REPORTS // BATCH)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool, (DATA / "reports").open("wb") as file:
        for blob in pool.map(_seal_batch, [configuration] * len(numbers), numbers):
            file.write(blob)
    (DATA / "configuration.json").write_bytes(configuration)


def plain_loop(keys: KeyRing, config: RoundConfiguration) -> tuple[float, float]:
    """Seconds, and seconds of processor time, that a loop takes to open a report and do nothing else."""
    key, info = keys.get(config.key_id), config.hash
    with (DATA / "reports").open("rb") as file:
        blob = file.read(LOOP * RECORD)
    start, busy = time.perf_counter(), time.process_time()
    for place in range(0, len(blob), RECORD):
        open_sealed(blob[place : place + RECORD], key, info)
    return (time.perf_counter() - start) / LOOP, (time.process_time() - busy) / LOOP


def busy_seconds(process: int) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def once(reports: int) -> dict[str, float]:
    """One round in this process, as `measure` starts it."""
    config = RoundConfiguration.read((DATA / "configuration.json").read_bytes())
    keys = KeyRing(DATA / "keys")
    before = plain_loop(keys, config)
    with tempfile.TemporaryDirectory(dir=DATA) as folder:
        store = AggregatorStore.open(folder)
        drawing = LocalDrawing()
        aggregator = Aggregator(store, keys, drawing)
        with (DATA / "reports").open("rb") as file:
            for number in range(reports // BATCH):
                aggregator.add_batch("round", number, file.read(BATCH * RECORD))
        response = Response(asked=reports, contacted=reports, completed=reports, rates=config.rates)
        start, own = time.perf_counter(), time.process_time()
        aggregator.release(config, reports // BATCH, response)
        seconds, busy = time.perf_counter() - start, time.process_time() - own
        pool = drawing.workers._pool
        assert pool is not None
        workers = list(pool._processes)
        busy += sum(map(busy_seconds, workers))
        peaks = [peak_mb(process) for process in (os.getpid(), *workers)]
        aggregator.close()
        store.close()
    after = plain_loop(keys, config)
    plain, plain_busy = ((first + second) / 2 for first, second in zip(before, after, strict=True))
    return {
        "seconds": seconds,
        "busy": busy,
        "own_mb": peaks[0],
        "peak_mb": sum(peaks),
        "processes": len(workers),
        "plain": plain,
        "speed": plain / (seconds / reports),
        "work": busy / reports / plain_busy,
    }


def _in_a_process(reports: int) -> dict[str, float]:
    command = [sys.executable, __file__, str(reports)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def measure() -> list[Measurement]:
    sealed_reports()
    many, few = _in_a_process(REPORTS), _in_a_process(FEWER)
    rate = REPORTS / many["seconds"]
    return [
        Measurement(
            name=f"{REPORTS:,} reports opened, counted, thresholded, deleted",
            value=many["seconds"],
            unit="s",
            target=TARGET_SECONDS,
            note=f"{rate:,.0f} a second, {many['busy']:.0f} s of processor time, the processes' start included",
        ),
        Measurement(
            name="speed against a loop that only opens, on one core",
            value=many["speed"],
            unit="× plain",
            target=None,
            note=f"{many['processes']:.0f} processes; the loop opens {1 / many['plain']:,.0f} a second",
        ),
        Measurement(
            name="processor time against that loop",
            value=many["work"],
            unit="× plain",
            target=None,
            note="what reading, duplicates, counting and deleting add; it does not depend on the machine's load",
        ),
        Measurement(
            name="peak memory",
            value=many["peak_mb"],
            unit="MB",
            target=None,
            note=f"all processes; the aggregator's own {many['own_mb']:,.0f} MB",
        ),
        Measurement(
            name=f"memory that {REPORTS - FEWER:,} more reports take",
            value=(many["peak_mb"] - few["peak_mb"]) * 2**20 / (REPORTS - FEWER),
            unit="bytes a report",
            target=None,
            note=f"{few['peak_mb']:,.0f} MB for {FEWER:,} reports; a sealed report has {RECORD} bytes",
        ),
    ]


if __name__ == "__main__":
    print(json.dumps(once(int(sys.argv[1]))))

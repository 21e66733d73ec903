"""Tasks: independent pieces of an experiment, each with its own seed, run in several processes and kept on disk.

A task's seed follows from the run's seed and the task's own settings, so its rows depend neither on the order nor on
what else is run. Its file is named after them too, so a second run only does what is missing.
"""

from __future__ import annotations

import csv
import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from thresher.files import write_whole

Row: TypeAlias = dict[str, Any]
Progress: TypeAlias = Callable[[int, int, str], None]

FORMAT = 2
"""Raised when a task's meaning changes, so that older results are not taken for new ones."""


@dataclass(frozen=True, slots=True)
class Task:
    """A function that computes rows from plain settings and a seed; `experiment` names it in seeds and files."""

    experiment: str
    compute: Callable[[dict[str, Any], np.random.SeedSequence], list[Row]]
    settings: Mapping[str, Any]
    seed: int

    @property
    def digest(self) -> str:
        """Names the task by everything that its rows depend on."""
        content = [FORMAT, self.experiment, dict(self.settings), self.seed]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def file_name(self) -> str:
        """Where its rows are kept."""
        return f"{self.experiment}-{self.digest[:20]}.json"

    def rows(self) -> list[Row]:
        """Do the work."""
        number = int(self.digest[:32], 16)
        words = tuple((number >> shift) & 0xFFFFFFFF for shift in (0, 32, 64, 96))
        return self.compute(dict(self.settings), np.random.SeedSequence(self.seed, spawn_key=words))


def run(
    experiments: Mapping[str, Sequence[Task]], folder: Path, *, processes: int = 2, progress: Progress | None = None
) -> dict[str, list[Row]]:
    """The rows of every experiment, in the order of its tasks; those kept in `folder` are not computed again.

    Edge cases: interrupted, it keeps what is finished. One process runs the tasks here, without a pool.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [task for each in experiments.values() for task in each]
    finished = {task.digest: kept for task in tasks if (kept := _read(folder / task.file_name)) is not None}
    missing = [task for task in tasks if task.digest not in finished]
    if progress is not None:
        progress(len(finished), len(tasks), "")
    for task, rows in _computed(missing, processes):
        write_whole(folder / task.file_name, json.dumps(rows, allow_nan=False))
        finished[task.digest] = rows
        if progress is not None:
            progress(len(finished), len(tasks), task.experiment)
    return {name: [row for task in each for row in finished[task.digest]] for name, each in experiments.items()}


def _computed(tasks: Sequence[Task], processes: int) -> Iterable[tuple[Task, list[Row]]]:
    if processes == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, task.rows()
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(tasks)), mp_context=context) as pool:
        waiting = {pool.submit(task.rows): task for task in tasks}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


def _read(path: Path) -> list[Row] | None:
    try:
        return cast(list[Row], json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """The rows as a file, with the columns of the first one; a value of None is left empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)

"""Tasks: independent pieces of an experiment, each with its own seed, run in two processes and kept on disk.

A task's seed follows from the run's seed and the task's own settings, so its rows depend neither on the order nor on
what else is run; and its file is named after them, so a second run only does what is missing.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

Row: TypeAlias = dict[str, Any]
Progress: TypeAlias = Callable[[int, int, str], None]

FORMAT = 1
"""Raised when a task's meaning changes, so that older results are not taken for new ones."""

_PACKAGE = "thresher.lab.experiments"


@dataclass(frozen=True, slots=True)
class Task:
    """A module of this package whose function `rows(settings, seed)` does the work, and its plain settings."""

    experiment: str
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
        seed = np.random.SeedSequence(self.seed, spawn_key=words)
        module = importlib.import_module(f"{_PACKAGE}.{self.experiment}")
        return cast(list[Row], module.rows(dict(self.settings), seed))


def run(
    tasks: Sequence[Task], folder: Path, *, processes: int = 2, progress: Progress | None = None
) -> dict[str, list[Row]]:
    """The rows of every task by experiment, in the tasks' order; those kept in `folder` are not computed again.

    Edge cases: interrupted, it keeps what is finished. One process runs the tasks here, without a pool.
    """
    folder.mkdir(parents=True, exist_ok=True)
    finished = {task.digest: kept for task in tasks if (kept := _read(folder / task.file_name)) is not None}
    missing = [task for task in tasks if task.digest not in finished]
    done = len(tasks) - len(missing)
    if progress is not None:
        progress(done, len(tasks), "")
    for task, rows in _computed(missing, processes):
        _write(folder / task.file_name, rows)
        finished[task.digest] = rows
        done += 1
        if progress is not None:
            progress(done, len(tasks), task.experiment)
    gathered: dict[str, list[Row]] = {}
    for task in tasks:
        gathered.setdefault(task.experiment, []).extend(finished[task.digest])
    return gathered


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


def _write(path: Path, rows: list[Row]) -> None:
    """All or nothing: an interrupted run leaves no half file behind."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(json.dumps(rows, allow_nan=False), encoding="utf-8")
    partial.replace(path)

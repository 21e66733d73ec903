"""Every experiment by name, and the files of its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from thresher.errors import InvalidSetting
from thresher.lab.experiments import accuracy, comparison, heavy_hitters, quantile_errors, sweeps, trie_shapes
from thresher.lab.experiments.examples import examples
from thresher.lab.experiments.runner import Progress, Row, Task, run, write_csv
from thresher.lab.experiments.settings import Settings

EXPERIMENTS: dict[str, Callable[[Settings], list[Task]]] = {
    "accuracy": accuracy.tasks,
    "sweeps": sweeps.tasks,
    "heavy": heavy_hitters.tasks,
    "quantiles": quantile_errors.tasks,
}
"""The paper's experiments, which have figures."""

OTHERS: dict[str, Callable[[Settings], list[Task]]] = {"tries": trie_shapes.tasks}
"""Experiments that chose a default, which have tables in docs/lab.md."""

_ALL = EXPERIMENTS | OTHERS


def run_experiments(
    names: Sequence[str],
    settings: Settings,
    output: Path,
    *,
    processes: int = 2,
    progress: Progress | None = None,
) -> dict[str, list[Row]]:
    """Run the named experiments, write a CSV file each, and return their rows by name.

    Finished tasks are kept in `output`/tasks and not run again with the same settings.
    """
    for name in names:
        if name not in _ALL:
            raise InvalidSetting("name", f"must be one of {', '.join(_ALL)}")
    tasks = {name: _ALL[name](settings) for name in names}
    results = run(tasks, output / "tasks", processes=processes, progress=progress)
    for name, rows in results.items():
        write_csv(output / f"{name}.csv", rows)
    return results


def write_tables(rows: Sequence[Row], output: Path) -> None:
    """The paper's rule against the exact plan, from the rows of `accuracy`, and the numeric examples, as CSV files."""
    write_csv(output / "rules.csv", comparison.compared(rows))
    write_csv(output / "examples.csv", [asdict(example) for example in examples()])

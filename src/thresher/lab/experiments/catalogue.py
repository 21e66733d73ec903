"""Every experiment by name: its tasks, and the file and columns of its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from thresher.errors import InvalidSetting
from thresher.lab.experiments import accuracy, comparison, heavy, quantile_errors, sweeps
from thresher.lab.experiments.accuracy import write_csv
from thresher.lab.experiments.examples import examples
from thresher.lab.experiments.runner import Progress, Row, Task, run
from thresher.lab.experiments.settings import Settings


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is run under a name."""

    module: str
    tasks: Callable[[Settings], list[Task]]
    columns: tuple[str, ...]
    about: str


EXPERIMENTS = {
    "accuracy": Experiment("accuracy", accuracy.tasks, accuracy.COLUMNS, "errors and recall of histograms"),
    "sweeps": Experiment("sweeps", sweeps.tasks, sweeps.COLUMNS, "errors along population size and delta"),
    "heavy": Experiment("heavy", heavy.tasks, heavy.COLUMNS, "common words: TrieHH++, one round, TrieHH"),
    "quantiles": Experiment(
        "quantile_errors", quantile_errors.tasks, quantile_errors.COLUMNS, "rank errors of quantiles"
    ),
}


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
        if name not in EXPERIMENTS:
            raise InvalidSetting("name", f"must be one of {', '.join(EXPERIMENTS)}")
    chosen = {name: EXPERIMENTS[name] for name in names}
    tasks = [task for experiment in chosen.values() for task in experiment.tasks(settings)]
    found = run(tasks, output / "tasks", processes=processes, progress=progress)
    results = {name: found.get(experiment.module, []) for name, experiment in chosen.items()}
    for name, rows in results.items():
        write_csv(output / f"{name}.csv", rows, chosen[name].columns)
    return results


def write_tables(rows: Sequence[Row], output: Path) -> None:
    """The paper's rule against the exact plan, from the rows of `accuracy`, and the numeric examples, as CSV files."""
    write_csv(output / "rules.csv", comparison.compared(rows), comparison.COLUMNS)
    found = [asdict(example) for example in examples()]
    write_csv(output / "examples.csv", found, list(found[0]))

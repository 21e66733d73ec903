"""The figures of the experiments, as PNG and SVG: the paper's two grids, rule against plan, sweeps, words, quantiles.

Lines have the same look in all of them. In the grids rivals are on the paper rule's sample, as in the paper;
sample-and-threshold is shown under both rules, each on its own sample.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thresher import charts
from thresher.charts import Axes, Panel, Point
from thresher.errors import require
from thresher.lab.experiments import comparison, heavy, mechanisms, quantile_errors, sweeps
from thresher.lab.experiments.runner import Row
from thresher.lab.experiments.settings import DELTA, POPULATION, Settings

OURS = {"paper": "sample-and-threshold, paper's rule", "exact": "sample-and-threshold, exact plan"}
LINES = {
    OURS["paper"]: 0,
    OURS["exact"]: 1,
    mechanisms.LAPLACE: 2,
    mechanisms.STABILITY: 3,
    mechanisms.HADAMARD: 5,
    mechanisms.SHUFFLED: 4,
    mechanisms.SHUFFLED_SMALLEST: 7,
    mechanisms.SAMPLED: 6,
}
_FAIR_COINS = "Fair coins stand in for the shuffle's noise where more would be needed."
SPAN = 1000.0
"""Panels of errors show this factor from the smallest error up; lines that are worse run out of them."""


def figures(results: dict[str, list[Row]], settings: Settings) -> dict[str, Any]:
    """Every figure that the results allow, by name."""
    made: dict[str, Any] = {}
    if rows := results.get("accuracy"):
        made["accuracy"] = accuracy(rows, settings)
        made["recall"] = recall(rows, settings)
        made["rules"] = rules(rows, settings)
    if rows := results.get("sweeps"):
        made["population"] = sweep(rows, settings, "population")
        made["delta"] = sweep(rows, settings, "delta")
    if rows := results.get("heavy"):
        made["heavy"] = words(rows, settings)
    if rows := results.get("quantiles"):
        made["quantiles"] = quantiles(rows, settings)
    return made


def drawn(chart: Any) -> str:
    """The figure as SVG text."""
    page = io.StringIO()
    chart.save(page, format="svg")
    return page.getvalue()


def write(svg: str, name: str, output: Path) -> None:
    """The figure as .svg and, rendered from it, as .png."""
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{name}.svg").write_text(svg, encoding="utf-8")
    (output / f"{name}.png").write_bytes(require("vl_convert", "plot").svg_to_png(svg, scale=2))


def accuracy(rows: Sequence[Row], settings: Settings) -> Any:
    """Error over epsilon: a row a histogram size, a column a dataset."""
    panels = [
        [
            _error_panel(f"{dataset.title()}, {_size(buckets)}", _points(rows, dataset, buckets, "mae"))
            for dataset in settings.datasets
        ]
        for buckets in settings.accuracy_buckets
    ]
    axes = Axes("ε", "mean error ÷ n", log_up=True, up_format=".0e", places=_places(settings))
    note = f"Logarithmic; a panel spans a factor of up to {SPAN:g}, and lines that are worse run out of it."
    return charts.grid(
        panels, LINES, axes, title="Mean absolute error per bucket, as a part of all people",
        subtitle=[*_subtitle(settings), note],
    )  # fmt: skip


def recall(rows: Sequence[Row], settings: Settings) -> Any:
    """Recall over epsilon: a row a histogram size, a column a dataset."""
    panels = [
        [
            Panel(f"{dataset.title()}, {_size(buckets)}", _points(rows, dataset, buckets, "recall"), (0.0, 1.05))
            for dataset in settings.datasets
        ]
        for buckets in settings.recall_buckets
    ]
    axes = Axes("ε", "recall", places=_places(settings))
    note = "Ties at the k-th true count all belong to the top; empty buckets never do; what is not released is missed."
    return charts.grid(
        panels, LINES, axes, title="Recall of the largest tenth of all buckets", subtitle=[*_subtitle(settings), note]
    )


def rules(rows: Sequence[Row], settings: Settings) -> Any:
    """The exact plan ÷ the paper's rule: error above, recall below."""
    found = comparison.compared(rows)
    lines = {_size(buckets): place for place, buckets in enumerate(settings.buckets)}

    names = {"mae_ratio": "error", "recall_ratio": "recall"}

    def panel(dataset: str, field: str) -> Panel:
        points = [
            Point(_size(row["buckets"]), row["epsilon"], row[field], row[f"{field}_se"])
            for row in found
            if row["dataset"] == dataset and row[field] is not None
        ]
        low, high = min((point.y for point in points), default=1.0), max((point.y for point in points), default=1.0)
        around = (min(0.3, 0.9 * low), max(1.05, 1.1 * high)) if field == "mae_ratio" else (0.9 * low, 1.1 * high)
        return Panel(dataset.title(), points, around, up=f"{names[field]}, exact ÷ paper")

    panels = [[panel(dataset, field) for dataset in settings.datasets] for field in names]
    return charts.grid(
        panels, lines, Axes("ε", "exact ÷ paper", places=_places(settings)),
        title="What the exact plan changes at the same (ε, δ)",
        subtitle=["Sample-and-threshold, exact plan ÷ paper's rule: errors below 1 and recall above 1 are better.",
                  _repeated(settings)],
    )  # fmt: skip


def sweep(rows: Sequence[Row], settings: Settings, axis: str) -> Any:
    """Error along population size or delta, for two datasets."""
    names = {name: style for name, style in LINES.items() if name in (*OURS.values(), *sweeps.NAMES)}
    panels = [
        [
            Panel(
                f"{dataset.title()}, {_size(sweeps.BUCKETS)}",
                [
                    Point(_line(row), row[axis], row["mae"], row["mae_se"])
                    for row in rows
                    if row["sweep"] == axis and row["dataset"] == dataset and _is_shown(row)
                ],
            )
            for dataset in sweeps.DATASETS
        ]
    ]
    people = axis == "population"
    across = "people, n" if people else "δ"
    fixed = f"ε = {sweeps.EPSILON:g}, " + (f"δ = {DELTA:g}" if people else f"n = {POPULATION:,}")
    return charts.grid(
        panels, names,
        Axes(across, "mean error ÷ n", log_across=True, log_up=True, up_format=".0e", across_format=".0e",
             places=tuple(map(float, settings.populations if people else settings.deltas))),
        title=f"Mean absolute error per bucket along {'the number of people' if people else 'δ'}",
        subtitle=[f"{fixed}. {_repeated(settings)}", _credit(settings) + " " + _FAIR_COINS], size=(330, 230),
    )  # fmt: skip


def words(rows: Sequence[Row], settings: Settings) -> Any:
    """Recall and count error of the largest words over the total epsilon."""
    names = {
        "one-shot, paper's rule": 0,
        "one-shot, exact plan": 1,
        "TrieHH++, paper's rule": 2,
        "TrieHH++, exact plan": 3,
        "TrieHH (no counts)": 4,
    }

    def line(row: Row) -> str:
        if row["method"] == heavy.TRIE:
            return "TrieHH (no counts)"
        return f"{row['method']}, {'exact plan' if row['rule'] == 'exact' else 'paper' + chr(39) + 's rule'}"

    panels = [
        [
            Panel(
                heading,
                [
                    Point(line(row), row["epsilon"], row[field], row[f"{field}_se"])
                    for row in rows
                    if row[field] is not None
                ],
                (0.0, 1.05),
                up=up,
            )
            for heading, field, up in (
                (f"Recall of the {heavy.TOP} largest words", "recall", "recall"),
                ("Error of their counts", "count_error", "mean relative error"),
            )
        ]
    ]
    return charts.grid(
        panels, names, Axes("total ε", "", log_across=True, places=settings.total_epsilons),
        title=f"Common words of {POPULATION:,} people",
        subtitle=[
            f"Zipf's law over 10,000 made-up words; δ = {DELTA:g}; tries of {heavy.LEVELS} levels share the budget.",
            f"A word that is not found counts as an error of 1. {_repeated(settings)}",
        ], size=(330, 230),
    )  # fmt: skip


def quantiles(rows: Sequence[Row], settings: Settings) -> Any:
    """Rank errors over the total epsilon, for two kinds of values."""
    names = {
        "search, paper's rule": 0,
        "search, exact plan": 1,
        "hierarchy, paper's rule": 2,
        "hierarchy, exact plan": 3,
    }
    labels = {"paper": "paper's rule", "exact": "exact plan"}
    panels = [
        [
            Panel(
                f"{values.capitalize()} values",
                [
                    Point(
                        f"{row['method']}, {labels[row['rule']]}",
                        row["epsilon"],
                        row["rank_error"],
                        row["rank_error_se"],
                    )
                    for row in rows
                    if row["values"] == values
                ],
            )
            for values in ("uniform", "log-normal")
        ]
    ]
    return charts.grid(
        panels, names,
        Axes("total ε", "mean absolute rank error", log_across=True, log_up=True, places=settings.total_epsilons),
        title=f"Rank errors of quantiles of {POPULATION:,} people",
        subtitle=[
            f"The quantile of rank {quantile_errors.WANTED:g}; δ = {DELTA:g}, "
            f"{quantile_errors.ROUNDS} rounds, hierarchies with β = 2.",
            _repeated(settings, quantile_errors.TIMES),
        ], size=(330, 230),
    )  # fmt: skip


def _points(rows: Sequence[Row], dataset: str, buckets: int, field: str) -> list[Point]:
    return [
        Point(_line(row), row["epsilon"], row[field], row[f"{field}_se"])
        for row in rows
        if row["dataset"] == dataset and row["buckets"] == buckets and _is_shown(row)
    ]


def _is_shown(row: Row) -> bool:
    return row["mechanism"] == mechanisms.THRESHOLD or (row["rule"] == "paper" and row["mechanism"] in LINES)


def _line(row: Row) -> str:
    return OURS[row["rule"]] if row["mechanism"] == mechanisms.THRESHOLD else str(row["mechanism"])


def _error_panel(heading: str, points: list[Point]) -> Panel:
    if not points:
        return Panel(heading, points)
    low, high = min(point.y for point in points), max(point.y for point in points)
    return Panel(heading, points, (0.7 * low, min(1.4 * high, SPAN * low)))


def _size(buckets: int) -> str:
    return f"B = {buckets:,}"


def _places(settings: Settings) -> tuple[float, ...]:
    return tuple(epsilon for epsilon in settings.epsilons if round(10 * epsilon) % 2 == 0 or epsilon in (0.1, 1.0))


def _subtitle(settings: Settings) -> list[str]:
    return [
        f"n = {POPULATION:,} (Shakespeare: all words), δ = {DELTA:g}, α = 1/6. {_repeated(settings)}",
        f"Rivals use the paper rule's sample. {_credit(settings)}",
    ]


def _repeated(settings: Settings, times: int = 1) -> str:
    return f"Means of {times * settings.repetitions} repetitions; bars are standard errors."


def _credit(settings: Settings) -> str:
    return f"Amplification by sampling is {'' if settings.credit_amplification else 'not '}credited to rivals."

"""When adding noise would be better: this plan's expected error beside noisy histograms with the same guarantee.

Whoever holds a *whole* table can add noise to whole counts. That error does not grow with the count, so large counts
come out more precisely; sampling wins where only a sample exists, and gives whole numbers, no invented keys and
k-anonymity. All errors here are root mean squares relative to the true count; a bucket that is dropped counts as zero.

- `laplace`: noise of scale Δ/ε on every bucket of a *public* list of buckets.
- `stability`: the same noise on buckets that occur, and a threshold 1 + (Δ/ε)·ln(1/δ') that hides which ones do, for
  unknown buckets; δ' is 2δ for add-remove, where one bucket may appear or vanish, and δ for replace, where two may.
- `on_sample`: the stability-based histogram of a sample at this plan's rate. Amplification by sampling is not credited.

Δ is 1 for add-remove and 2 for replace. Several rounds share epsilon and delta equally among noisy histograms.
Reference: Dwork, McSherry, Nissim and Smith 2006 (Laplace); Korolova et al. 2009 and Bun, Nissim and Stemmer 2016
(stability).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thresher.errors import InvalidSetting
from thresher.privacy.binomial import Floats, log_point
from thresher.privacy.settings import Adjacency, check_count
from thresher.privacy.visibility import relative_error

if TYPE_CHECKING:
    from thresher.privacy.plans import Plan


@dataclass(frozen=True, slots=True)
class ComparedSize:
    """Relative errors for a bucket of `count` units."""

    count: int
    thresher: float
    laplace: float
    stability: float
    on_sample: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Errors by bucket size, and in words which mechanism suits whom."""

    plan: Plan
    rows: tuple[ComparedSize, ...]

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain dictionaries."""
        return [asdict(row) for row in self.rows]

    @property
    def verdict(self) -> str:
        """When each is the better choice, with the sizes at which it changes."""
        better = [row.count for row in self.rows if row.thresher <= row.stability and row.thresher < 0.9]
        beats = f"from {better[0]:,} to {better[-1]:,} units" if better else "at no size"
        sampled = [row.count for row in self.rows if row.thresher <= row.on_sample and row.thresher < 0.9]
        against_sample = f"from {sampled[0]:,} units on" if sampled else "at no size"
        return (
            "If you hold the whole table, adding noise to whole counts has the smaller error on large counts; against "
            f"a stability-based histogram of everyone this plan is ahead {beats}. If you can only reach a sample, as "
            f"with a fleet, or hold one, compare with noise on the sample: there this plan is ahead {against_sample}. "
            "It also gives whole numbers, invents no keys, and releases nothing held by fewer than its threshold."
        )

    def __str__(self) -> str:
        head = f"{'bucket of':>12}  {'this plan':>10}  {'Laplace':>10}  {'stability':>10}  {'on a sample':>11}"
        lines = [
            f"{row.count:>12,}  {row.thresher:>10.3%}  {row.laplace:>10.3%}  {row.stability:>10.3%}  "
            f"{row.on_sample:>11.3%}"
            for row in self.rows
        ]
        return "\n".join(["relative error (root mean square)", head, *lines, "", self.verdict])

    def plot(self, path: str | Path | None = None) -> Any:
        """Error against bucket size, one line a mechanism; shown in notebooks or saved as .png, .svg or .html."""
        from thresher import charts

        lines = {
            "this plan (sample and threshold)": [row.thresher for row in self.rows],
            "Laplace, whole table, public buckets": [row.laplace for row in self.rows],
            "stability-based, whole table": [row.stability for row in self.rows],
            "stability-based, the same sample": [row.on_sample for row in self.rows],
        }
        chart = charts.error_lines(
            [row.count for row in self.rows],
            lines,
            title="Error by bucket size, at the same guarantee",
            subtitle=str(self.plan.guarantee),
        )
        return charts.show(chart, path)


def noise_scale(epsilon: float, adjacency: Adjacency, rounds: int = 1) -> float:
    """The scale Δ·rounds/ε of Laplace noise on counts: Δ is 2 for replace, where two counts change, else 1."""
    return (2 if adjacency == "replace" else 1) * rounds / epsilon


def stability_threshold(scale: float, delta: float, adjacency: Adjacency) -> float:
    """The smallest noisy count that a stability-based histogram shows: 1 + scale·ln(1/δ')."""
    return 1 + scale * math.log(1 / (delta * (1 if adjacency == "replace" else 2)))


def compare(plan: Plan, counts: Sequence[int] | None = None) -> Comparison:
    """The plan beside noisy histograms of the whole table and of the same sample."""
    if not isinstance(counts, Iterable | None):
        raise InvalidSetting("counts", f"must be a list, not {type(counts).__name__}", hint="Such as `counts=[1000]`.")
    sizes = default_sizes(plan) if counts is None else [check_count(count, least=1) for count in counts]
    times = plan.rounds * plan.contributions
    scale = noise_scale(plan.epsilon, plan.adjacency, times)
    cut = stability_threshold(scale, plan.delta / times, plan.adjacency)
    rows = [
        ComparedSize(
            count=size,
            thresher=relative_error(plan.sampling_rate, plan.threshold, size),
            laplace=math.sqrt(2) * scale / size,
            stability=math.sqrt(float(_stability_error(np.array([size], float), scale, cut, size)[0])) / size,
            on_sample=math.sqrt(_sampled_error(plan.sampling_rate, scale, cut, size)) / size,
        )
        for size in sizes
    ]
    return Comparison(plan, tuple(rows))


def default_sizes(plan: Plan) -> list[int]:
    """Sizes from a tenth of what is visible to a million units, three to a decade and a half."""
    start = max(1, plan.smallest_visible(0.5) // 10)
    sizes = np.geomspace(start, max(1e6, 100 * start), 25)
    return sorted({round(float(f"{size:.2g}")) for size in sizes})


def _stability_error(held: Floats, scale: float, cut: float, truth: float, factor: float = 1.0) -> Floats:
    """Mean squared error of factor·(held + Laplace), or zero where the noisy count is below `cut`, against `truth`."""
    gap = cut - held
    tail = np.exp(-np.abs(gap) / scale) / 2
    released = np.where(gap >= 0, tail, 1 - tail)
    # Moments of Laplace noise above the gap; the part below a negative gap mirrors the part above a positive one.
    first = tail * (np.abs(gap) + scale)
    beyond = tail * (gap**2 + 2 * np.abs(gap) * scale + 2 * scale**2)
    second = np.where(gap >= 0, beyond, 2 * scale**2 - beyond)
    shift = factor * held - truth
    error: Floats = factor**2 * second + 2 * factor * shift * first + shift**2 * released + truth**2 * (1 - released)
    return error


def _sampled_error(rate: float, scale: float, cut: float, size: int) -> float:
    """The same, averaged over the sampled count."""
    mean, spread = size * rate, math.sqrt(size * rate * (1 - rate))
    low, high = max(0, math.floor(mean - 9 * spread - 5)), min(size, math.ceil(mean + 9 * spread + 5))
    sampled = np.unique(np.rint(np.linspace(low, high, min(high - low + 1, 4000))))
    weight = np.exp(log_point(size, sampled, rate))
    return float((weight * _stability_error(sampled, scale, cut, size, 1 / rate)).sum() / weight.sum())

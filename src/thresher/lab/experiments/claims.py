"""The paper's claims about its figures, each judged by the numbers of this run and by nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from thresher.lab.experiments import mechanisms
from thresher.lab.experiments.runner import Row
from thresher.lab.experiments.settings import Rule

HOLDS, EXCEPT, FAILS, UNTESTED = "holds", "holds except", "does not hold", "not tested"


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of a figure: whether the claim is true there, and the number that decides."""

    label: str
    right: bool
    number: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a claim: the word, where it fails, the range of the deciding numbers, and why it may fail."""

    claim: str
    verdict: str
    exceptions: tuple[str, ...]
    numbers: str
    reason: str

    def __str__(self) -> str:
        where = f": {'; '.join(self.exceptions)}" if self.exceptions else ""
        return f"{self.verdict}{where} ({self.numbers})"


class Results:
    """Rows of the accuracy experiment under one rule, found by what they are about."""

    def __init__(self, rows: Iterable[Row], rule: Rule) -> None:
        self._rows = {
            (row["dataset"], row["buckets"], row["epsilon"], row["mechanism"]): row
            for row in rows
            if row["rule"] == rule
        }
        self.datasets = tuple(dict.fromkeys(key[0] for key in self._rows))
        self.buckets = tuple(sorted({key[1] for key in self._rows}))
        self.epsilons = tuple(sorted({key[2] for key in self._rows}))

    def cells(self) -> list[tuple[str, int, float]]:
        """Every dataset, histogram size and epsilon."""
        return list(dict.fromkeys(key[:3] for key in self._rows))

    def error(self, cell: tuple[str, int, float], mechanism: str) -> float:
        """The mean absolute error there."""
        return float(self._rows[*cell, mechanism]["mae"])

    def recall(self, cell: tuple[str, int, float], mechanism: str = mechanisms.THRESHOLD) -> float:
        """The recall there."""
        return float(self._rows[*cell, mechanism]["recall"])

    def ratio(self, cell: tuple[str, int, float], mechanism: str) -> float:
        """How many times the error of sample-and-threshold a rival's is."""
        return self.error(cell, mechanism) / self.error(cell, mechanisms.THRESHOLD)


def judge(rows: Sequence[Row], rule: Rule = "paper") -> list[Verdict]:
    """A verdict on each claim, with sample-and-threshold and all rivals on this rule's sample."""
    results = Results(rows, rule)
    return [_verdict(claim, cases(results), describe, reason) for claim, cases, describe, reason in _CLAIMS]


def _verdict(claim: str, cases: list[Case], describe: str, reason: str) -> Verdict:
    if not cases:
        return Verdict(claim, UNTESTED, (), "no such case in this run", "")
    wrong = [case for case in cases if not case.right]
    low, high = min(case.number for case in cases), max(case.number for case in cases)
    numbers = f"{describe} {_plain(low)} to {_plain(high)}; true in {len(cases) - len(wrong)} of {len(cases)} cases"
    if not wrong:
        return Verdict(claim, HOLDS, (), numbers, "")
    word = EXCEPT if 2 * len(wrong) < len(cases) else FAILS
    return Verdict(claim, word, tuple(_grouped(wrong)), numbers, reason)


def _grouped(cases: Sequence[Case]) -> list[str]:
    """Exceptions by the part of their label before the epsilon, each with its epsilons and numbers."""
    groups: dict[str, list[tuple[str, float]]] = {}
    for case in cases:
        place, _, epsilon = case.label.partition(", ε = ")
        groups.setdefault(place, []).append((epsilon, case.number))
    lines = []
    for place, found in groups.items():
        named = [epsilon for epsilon, _ in found if epsilon]
        several = f"{named[0]} … {named[-1]}, {len(named)} values" if len(named) > 3 else ", ".join(named)
        low, high = min(number for _, number in found), max(number for _, number in found)
        span = _plain(low) if low == high else f"{_plain(low)} to {_plain(high)}"
        lines.append(f"{place}{f' at ε = {several}' if several else ''} ({span})")
    return lines


def _plain(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _label(cell: tuple[str, int, float]) -> str:
    dataset, buckets, epsilon = cell
    return f"{dataset}, B = 2^{round(math.log2(buckets))}, ε = {epsilon:g}"


def _cases(
    results: Results, wanted: Callable[[str, int, float], bool], number: Callable[[tuple[str, int, float]], float],
    right: Callable[[float], bool],
) -> list[Case]:  # fmt: skip
    found = [(cell, number(cell)) for cell in results.cells() if wanted(*cell)]
    return [Case(_label(cell), right(value), value) for cell, value in found]


def _ahead_of(mechanism: str) -> Callable[[Results], list[Case]]:
    return lambda results: _cases(
        results,
        lambda dataset, buckets, _: dataset in ("binomial", "geometric") and buckets >= 2**10,
        lambda cell: results.ratio(cell, mechanism),
        lambda ratio: ratio > 1,
    )


def _local_is_worse(results: Results) -> list[Case]:
    return _cases(
        results,
        lambda *_: True,
        lambda cell: math.log10(results.ratio(cell, mechanisms.HADAMARD)),
        lambda orders: 1 <= orders <= 4,
    )


def _hadamard_is_best_local(results: Results) -> list[Case]:
    return _cases(
        results,
        lambda *_: True,
        lambda cell: results.error(cell, mechanisms.UNARY) / results.error(cell, mechanisms.HADAMARD),
        lambda ratio: ratio >= 1,
    )


def _shuffle_is_worse(results: Results) -> list[Case]:
    return _cases(
        results, lambda *_: True, lambda cell: results.ratio(cell, mechanisms.SHUFFLED), lambda ratio: ratio > 1
    )


def _changes(
    results: Results, number: Callable[[tuple[str, int, float]], float], right: Callable[[float], bool]
) -> list[Case]:
    """The factor by which a number changes from each histogram size to the next larger one."""
    cases = []
    for dataset in results.datasets:
        for epsilon in results.epsilons:
            for small, large in pairwise(results.buckets):
                change = number((dataset, large, epsilon)) / number((dataset, small, epsilon))
                sizes = f"B = 2^{round(math.log2(small))} to 2^{round(math.log2(large))}"
                cases.append(Case(f"{dataset}, {sizes}, ε = {epsilon:g}", right(change), change))
    return cases


def _shuffle_gap_grows(results: Results) -> list[Case]:
    return _changes(results, lambda cell: results.ratio(cell, mechanisms.SHUFFLED), lambda change: change > 1)


def _error_falls(results: Results) -> list[Case]:
    return _changes(results, lambda cell: results.error(cell, mechanisms.THRESHOLD), lambda change: change < 1)


def _shakespeare_exception(exponent: int, mechanism: str) -> Callable[[Results], list[Case]]:
    return lambda results: _cases(
        results,
        lambda dataset, buckets, epsilon: dataset == "shakespeare" and buckets == 2**exponent and epsilon > 0.5,
        lambda cell: results.ratio(cell, mechanism),
        lambda ratio: ratio < 1,
    )


def _recall_is_near_perfect(results: Results) -> list[Case]:
    return _cases(results, lambda _, buckets, __: buckets == 2**8, results.recall, lambda found: found >= 0.95)


def _zeros_are_worse(results: Results) -> list[Case]:
    return _cases(results, lambda *_: True, lambda cell: results.ratio(cell, mechanisms.ZEROS), lambda ratio: ratio > 1)


_Claim = tuple[str, Callable[[Results], list[Case]], str, str]

_NOISE = "Laplace's error is, in multiples of ours,"
_DROPPED = (
    "The threshold takes a bucket of c people away where cp is below τ, an error of c; noise costs each bucket the "
    "same, its scale ÷ p. Where most people are in buckets below τ/p noise is cheaper, where most buckets are nearly "
    "empty it is dearer."
)
_NARROW = "; the same with noise of scale 1/ε, which hides a person's presence but not a change of value"

_CLAIMS: tuple[_Claim, ...] = (
    (
        "Sample-and-threshold is ahead of Laplace noise for Binomial and Geometric data at B ≥ 2^10, at every ε",
        _ahead_of(mechanisms.LAPLACE),
        _NOISE,
        _DROPPED,
    ),
    (
        "Ahead of Laplace noise for Binomial and Geometric data at B ≥ 2^10, at every ε" + _NARROW,
        _ahead_of(mechanisms.LAPLACE_ADD_REMOVE),
        _NOISE,
        _DROPPED,
    ),
    (
        "Local privacy is worse by one to four orders of magnitude",
        _local_is_worse,
        "orders of magnitude:",
        "The local error per bucket hardly depends on B and grows like 1/ε, while ours falls with B: the gap widens "
        "with B and with privacy, and does not stop at four orders.",
    ),
    (
        "Hadamard response is the best of the local oracles tried",
        _hadamard_is_best_local,
        "the error of unary encoding, in multiples of Hadamard response's, is",
        "Its variance is m·(e^ε + 1)²/(e^ε − 1)², that of optimised unary encoding 4m·e^ε/(e^ε − 1)²: less by a factor "
        "of cosh²(ε/2), a quarter at ε = 1 and nothing at small ε, where chance decides. The paper does not say which "
        "unary encoding it tried.",
    ),
    (
        "Shuffled noise is worse everywhere",
        _shuffle_is_worse,
        "its error is, in multiples of ours,",
        "Where most buckets are below the threshold, dropping them costs as much as the noise would.",
    ),
    (
        "The gap to shuffled noise grows with B",
        _shuffle_gap_grows,
        "from one B to the next the gap is multiplied by",
        "The noise in a bucket does not depend on B, while the error of sample-and-threshold falls with B only as "
        "long as the largest buckets stay above the threshold.",
    ),
    *(
        (
            f"Shakespeare at B = 2^{exponent} is an exception: Laplace noise wins at larger ε (above 0.5){also}",
            _shakespeare_exception(exponent, mechanism),
            _NOISE,
            _DROPPED,
        )
        for exponent in (10, 14)
        for mechanism, also in ((mechanisms.LAPLACE, ""), (mechanisms.LAPLACE_ADD_REMOVE, _NARROW))
    ),
    (
        "Recall is near perfect (at least 0.95) at B = 2^8",
        _recall_is_near_perfect,
        "recall",
        "Among the largest tenth there are buckets below the threshold, or neighbours that the sample cannot tell "
        "apart; recall counts both as missed.",
    ),
    (
        "The error per bucket falls as B grows",
        _error_falls,
        "from one B to the next our error is multiplied by",
        "More buckets below the threshold are dropped whole, which can outweigh that each is smaller.",
    ),
    (
        "Reporting zero for every bucket is worse than sample-and-threshold",
        _zeros_are_worse,
        "the error of zeros is, in multiples of ours,",
        "Where every bucket is below the threshold, nothing is released and the two are the same.",
    ),
)

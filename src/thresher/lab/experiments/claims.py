"""The paper's claims about its figures, each judged by the numbers of this run and by nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from thresher.lab.experiments import mechanisms
from thresher.lab.experiments.runner import Row
from thresher.lab.experiments.settings import Rule

HOLDS, EXCEPT, FAILS, UNTESTED = "holds", "holds except", "does not hold", "not tested"

Cell: TypeAlias = tuple[str, int, float]
"""One place in a figure: dataset, histogram size and epsilon."""


class Results:
    """Rows of the accuracy experiment under one rule, found by what they are about."""

    def __init__(self, rows: Iterable[Row], rule: Rule) -> None:
        self._rows = {
            (row["dataset"], row["buckets"], row["epsilon"], row["mechanism"]): row
            for row in rows
            if row["rule"] == rule
        }
        self.cells: list[Cell] = list(dict.fromkeys(key[:3] for key in self._rows))

    def error(self, cell: Cell, mechanism: str = mechanisms.THRESHOLD) -> float:
        """The mean absolute error there."""
        return float(self._rows[*cell, mechanism]["mae"])

    def recall(self, cell: Cell) -> float:
        """The recall of sample-and-threshold there."""
        return float(self._rows[*cell, mechanisms.THRESHOLD]["recall"])


Number: TypeAlias = Callable[[Results, Cell], float]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim holds in a cell where `number` is `right`; it is made for the cells of `where`.

    A claim `along_buckets` is about the factor by which the number changes from each histogram size to the next larger
    one. `describe` introduces the numbers in words, and `reason` says why the claim may fail.
    """

    text: str
    number: Number
    right: Callable[[float], bool]
    describe: str
    reason: str
    where: Callable[[str, int, float], bool] = lambda *_: True
    along_buckets: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of a figure, or two neighbours: whether the claim is true there, and the number that decides."""

    place: str
    epsilon: float
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


def judge(rows: Sequence[Row], rule: Rule = "paper") -> list[Verdict]:
    """A verdict on each claim, with sample-and-threshold and all rivals on this rule's sample."""
    results = Results(rows, rule)
    return [_verdict(claim, _cases(claim, results)) for claim in _CLAIMS]


def _cases(claim: Claim, results: Results) -> list[Case]:
    cells = [cell for cell in results.cells if claim.where(*cell)]
    cases = []
    if claim.along_buckets:
        steps = list(pairwise(sorted({buckets for _, buckets, _ in cells})))
        for dataset in dict.fromkeys(dataset for dataset, _, _ in cells):
            for epsilon in sorted({epsilon for _, _, epsilon in cells}):
                for small, large in steps:
                    before, after = (claim.number(results, (dataset, size, epsilon)) for size in (small, large))
                    place, change = f"{dataset}, B = {_power(small)} to {_power(large)}", after / before
                    cases.append(Case(place, epsilon, claim.right(change), change))
        return cases
    for cell in cells:
        number = claim.number(results, cell)
        cases.append(Case(f"{cell[0]}, B = {_power(cell[1])}", cell[2], claim.right(number), number))
    return cases


def _verdict(claim: Claim, cases: list[Case]) -> Verdict:
    if not cases:
        return Verdict(claim.text, UNTESTED, (), "no such case in this run", "")
    wrong = [case for case in cases if not case.right]
    low, high = _range(cases)
    numbers = (
        f"{claim.describe} {_plain(low)} to {_plain(high)}; true in {len(cases) - len(wrong)} of {len(cases)} cases"
    )
    if not wrong:
        return Verdict(claim.text, HOLDS, (), numbers, "")
    word = EXCEPT if 2 * len(wrong) < len(cases) else FAILS
    return Verdict(claim.text, word, tuple(_exceptions(wrong)), numbers, claim.reason)


def _exceptions(cases: Sequence[Case]) -> Iterable[str]:
    """A text for each place, with its epsilons and numbers."""
    for place in dict.fromkeys(case.place for case in cases):
        found = [case for case in cases if case.place == place]
        named = [f"{case.epsilon:g}" for case in found]
        several = f"{named[0]} … {named[-1]}, {len(named)} values" if len(named) > 3 else ", ".join(named)
        yield f"{place} at ε = {several} ({' to '.join(map(_plain, dict.fromkeys(_range(found))))})"


def _range(cases: Sequence[Case]) -> tuple[float, float]:
    return min(case.number for case in cases), max(case.number for case in cases)


def _plain(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _power(buckets: int) -> str:
    return f"2^{round(math.log2(buckets))}"


def _times_ours(mechanism: str) -> Number:
    """How many times the error of sample-and-threshold the mechanism's is."""
    return lambda results, cell: results.error(cell, mechanism) / results.error(cell)


def _is_large_and_synthetic(dataset: str, buckets: int, _: float) -> bool:
    return dataset in ("binomial", "geometric") and buckets >= 2**10


def _shakespeare_exception(exponent: int, mechanism: str, also: str) -> Claim:
    return Claim(
        f"Shakespeare at B = 2^{exponent} is an exception: Laplace noise wins at larger ε (above 0.5){also}",
        _times_ours(mechanism),
        lambda ratio: ratio < 1,
        _NOISE,
        _DROPPED,
        where=lambda dataset, buckets, epsilon: dataset == "shakespeare" and buckets == 2**exponent and epsilon > 0.5,
    )


_NOISE = "Laplace's error is, in multiples of ours,"
_DROPPED = (
    "The threshold takes a bucket of c people away where cp is below τ, an error of c; noise costs each bucket the "
    "same, its scale ÷ p. Where most people are in buckets below τ/p noise is cheaper, where most buckets are nearly "
    "empty it is dearer."
)
_NARROW = "; the same with noise of scale 1/ε, which hides a person's presence but not a change of value"

_CLAIMS: tuple[Claim, ...] = (
    Claim(
        "Sample-and-threshold is ahead of Laplace noise for Binomial and Geometric data at B ≥ 2^10, at every ε",
        _times_ours(mechanisms.LAPLACE),
        lambda ratio: ratio > 1,
        _NOISE,
        _DROPPED,
        where=_is_large_and_synthetic,
    ),
    Claim(
        "Ahead of Laplace noise for Binomial and Geometric data at B ≥ 2^10, at every ε" + _NARROW,
        _times_ours(mechanisms.LAPLACE_ADD_REMOVE),
        lambda ratio: ratio > 1,
        _NOISE,
        _DROPPED,
        where=_is_large_and_synthetic,
    ),
    Claim(
        "Local privacy is worse by one to four orders of magnitude",
        lambda results, cell: math.log10(_times_ours(mechanisms.HADAMARD)(results, cell)),
        lambda orders: 1 <= orders <= 4,
        "orders of magnitude:",
        "The local error per bucket hardly depends on B and grows like 1/ε, while ours falls with B: the gap widens "
        "with B and with privacy, and does not stop at four orders.",
    ),
    Claim(
        "Hadamard response is the best of the local oracles tried",
        lambda results, cell: results.error(cell, mechanisms.UNARY) / results.error(cell, mechanisms.HADAMARD),
        lambda ratio: ratio >= 1,
        "the error of unary encoding, in multiples of Hadamard response's, is",
        "Its variance is m·(e^ε + 1)²/(e^ε − 1)², that of optimised unary encoding 4m·e^ε/(e^ε − 1)²: less by a factor "
        "of cosh²(ε/2), a quarter at ε = 1 and nothing at small ε, where chance decides. The paper does not say which "
        "unary encoding it tried.",
    ),
    Claim(
        "Shuffled noise is worse everywhere",
        _times_ours(mechanisms.SHUFFLED),
        lambda ratio: ratio > 1,
        "its error is, in multiples of ours,",
        "Where most buckets are below the threshold, dropping them costs as much as the noise would.",
    ),
    Claim(
        "The gap to shuffled noise grows with B",
        _times_ours(mechanisms.SHUFFLED),
        lambda change: change > 1,
        "from one B to the next the gap is multiplied by",
        "The noise in a bucket does not depend on B, while the error of sample-and-threshold falls with B only as "
        "long as the largest buckets stay above the threshold.",
        along_buckets=True,
    ),
    *(
        _shakespeare_exception(exponent, mechanism, also)
        for exponent in (10, 14)
        for mechanism, also in ((mechanisms.LAPLACE, ""), (mechanisms.LAPLACE_ADD_REMOVE, _NARROW))
    ),
    Claim(
        "Recall is near perfect (at least 0.95) at B = 2^8",
        Results.recall,
        lambda found: found >= 0.95,
        "recall",
        "Among the largest tenth there are buckets below the threshold, or neighbours that the sample cannot tell "
        "apart; recall counts both as missed.",
        where=lambda _, buckets, __: buckets == 2**8,
    ),
    Claim(
        "The error per bucket falls as B grows",
        Results.error,
        lambda change: change < 1,
        "from one B to the next our error is multiplied by",
        "More buckets below the threshold are dropped whole, which can outweigh that each is smaller.",
        along_buckets=True,
    ),
    Claim(
        "Reporting zero for every bucket is worse than sample-and-threshold",
        _times_ours(mechanisms.ZEROS),
        lambda ratio: ratio > 1,
        "the error of zeros is, in multiples of ours,",
        "Where every bucket is below the threshold, nothing is released and the two are the same.",
    ),
)

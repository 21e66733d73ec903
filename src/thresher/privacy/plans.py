"""A plan: sampling rate, threshold, and what they guarantee over how many rounds."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from thresher.errors import Hint, InvalidFormat, InvalidSetting, VerificationFailed
from thresher.privacy import binomial, guarantee, paper, visibility
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.intervals import Integers, intervals
from thresher.privacy.settings import (
    Adjacency,
    check_adjacency,
    check_contributions,
    check_count,
    check_delta,
    check_epsilon,
    check_probability,
    check_rounds,
    check_threshold,
    rate_numerator,
)
from thresher.privacy.units import Unit

if TYPE_CHECKING:
    from thresher.privacy.comparison import Comparison
    from thresher.privacy.frontier import Frontier

FORMAT = "thresher-plan"
VERSION = 2
"""Version 2 adds `contributions`. A plan of one contribution is still written as version 1."""


@dataclass(frozen=True, slots=True)
class PaperComparison:
    """A plan beside the paper's rule for the same total target: p = α(1−e^−ε), τ = ln(1/δ)/C_α with its α = 1/6.

    `best_alpha_visible` is what the rule could see at most, with α tuned to the target; the paper leaves that open.
    """

    sampling_rate: float
    threshold: int
    smallest_visible: int
    rate_factor: float
    visible_factor: float
    best_alpha_visible: int


@dataclass(frozen=True, slots=True)
class Plan:
    """How to sample and what to drop, with the total guarantee over all rounds. Made by `thresher.plan`.

    Guarantee: `rounds` rounds, each a fresh sample at `sampling_rate` (a whole number of 2^-64) of which counts below
    `threshold` are dropped, are together (epsilon, delta)-differentially private under `adjacency`; `verify` recomputes
    it. A unit counts in up to `contributions` distinct buckets of a round, each kept by a coin of its own.

    Args:
        sampling_rate: the probability that a coin keeps a unit in a round's sample.
        threshold: the smallest sampled count that is released.
        epsilon, delta: what all rounds together guarantee.
        adjacency: "replace" or "add-remove".
        rounds: how many rounds there are.
        contributions: how many distinct values of a unit count in a round.
    """

    sampling_rate: float
    threshold: int
    epsilon: float
    delta: float
    adjacency: Adjacency = "replace"
    rounds: int = 1
    contributions: int = 1

    def __post_init__(self) -> None:
        rate_numerator(self.sampling_rate)
        rate = float(self.sampling_rate)
        if rate != self.sampling_rate:
            raise InvalidSetting("sampling_rate", "must be a float", hint="Round it down with dyadic.")
        # One plan has one form: a threshold of 20.0 is 20, an epsilon of 1 is 1.0, and a NumPy number is Python's.
        object.__setattr__(self, "sampling_rate", rate)
        object.__setattr__(self, "threshold", check_threshold(self.threshold))
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_delta(self.delta))
        object.__setattr__(self, "adjacency", check_adjacency(self.adjacency))
        object.__setattr__(self, "rounds", check_rounds(self.rounds))
        object.__setattr__(self, "contributions", check_contributions(self.contributions, self.rounds))

    @property
    def exact_rate(self) -> Fraction:
        """The sampling rate as an exact fraction."""
        return Fraction(self.sampling_rate)

    @property
    def stated(self) -> Guarantee:
        """What the plan states, unchecked; `guarantee` checks it."""
        return Guarantee(self.epsilon, self.delta, self.adjacency, self.rounds, contributions=self.contributions)

    @property
    def guarantee(self) -> Guarantee:
        """What all rounds together guarantee, recomputed once for each plan; `VerificationFailed` if it does not hold.

        Edge cases: the first time takes as long as `verify`, up to seconds for plans of many rounds.
        """
        self._check(_reached(self, self.sampling_rate))
        return self.stated

    def promise(self, unit: Unit | None = None) -> str:
        """The guarantee for one `unit` in one line; a plan that does not keep what it states says that it has none."""
        try:
            return str(self.guarantee.for_unit(unit))
        except VerificationFailed:
            return "no guarantee: the plan does not keep what it states"

    def verify(self) -> float:
        """Recompute delta at this epsilon from the rate and the threshold alone, and return it.

        Raises `VerificationFailed` if it is above what the plan states.
        """
        reached = delta_reached(self, self.sampling_rate)
        self._check(reached)
        return reached

    def _check(self, reached: float) -> None:
        if not reached <= self.delta:
            raise VerificationFailed(
                f"At epsilon = {self.epsilon:g}, this sampling_rate and threshold guarantee delta = {reached:.3g}, "
                f"not {self.delta:g}.",
                hint=Hint(
                    "Make the plan again.",
                    python="Make the plan again with thresher.plan.",
                    command="Make the plan again: thresher plan.",
                ),
            )

    def sees(self, count: ArrayLike) -> Any:
        """Probability that a bucket held by `count` units is released in a round; arrays give arrays."""
        values = np.asarray(count)
        if values.ndim == 0:
            return visibility.seen_probability(self.sampling_rate, self.threshold, check_count(values.item()))
        if not (np.issubdtype(values.dtype, np.number) and np.all(values >= 0)):
            raise InvalidSetting("count", "must hold whole numbers, 0 or more")
        return binomial.reach(values, self.threshold, self.sampling_rate)

    def smallest_visible(self, probability: float = 0.95) -> int:
        """The smallest bucket that is released in a round with at least this probability."""
        return visibility.smallest_visible(self.sampling_rate, self.threshold, check_probability(probability))

    def relative_error(self, count: int) -> float:
        """Root mean square relative error of the estimate for a bucket of `count` units; dropping it counts as zero."""
        return visibility.relative_error(self.sampling_rate, self.threshold, check_count(count, least=1))

    def interval(self, sampled: int, confidence: float = 0.95) -> tuple[int, int]:
        """How many units may hold a bucket that was released with this sampled count.

        Guarantee: covers the truth with at least `confidence`, given that the bucket was released.
        """
        sampled = check_count(sampled, setting="sampled", least=1)
        lower, upper = self.intervals([sampled], confidence)
        return int(lower[0]), int(upper[0])

    def intervals(self, sampled: ArrayLike, confidence: float = 0.95) -> tuple[Integers, Integers]:
        """The same for many released counts at once."""
        check_probability(confidence, setting="confidence")
        if np.min(sampled, initial=self.threshold) < self.threshold:
            raise InvalidSetting(
                "sampled",
                "is below the threshold",
                hint="Only counts of at least the threshold are released.",
            )
        return intervals(self.sampling_rate, self.threshold, sampled, confidence)

    def frontier(self, probability: float = 0.95) -> Frontier:
        """Every threshold worth considering for the same target, with its largest rate and what is seen."""
        from thresher.privacy.frontier import frontier

        return frontier(self, probability)

    def compare(self, counts: Sequence[int] | None = None) -> Comparison:
        """Expected errors beside noisy histograms of the whole table and of the same sample, and when each is best."""
        from thresher.privacy.comparison import compare

        return compare(self, counts)

    def versus_paper(self, probability: float = 0.95) -> PaperComparison:
        """How far this plan is ahead of the paper's rule for the same total (epsilon, delta) and rounds."""
        times = self.rounds * self.contributions
        rule = paper.rule(self.epsilon, self.delta, rounds=times)
        tuned = paper.best_rule(self.epsilon, self.delta, rounds=times, probability=probability)
        needs = rule.visible_count(probability)
        return PaperComparison(
            sampling_rate=rule.sampling_rate,
            threshold=rule.threshold,
            smallest_visible=needs,
            rate_factor=self.sampling_rate / rule.sampling_rate,
            visible_factor=needs / self.smallest_visible(probability),
            best_alpha_visible=tuned.visible_count(probability),
        )

    def to_dict(self) -> dict[str, Any]:
        """A dictionary of plain values that `from_dict` and any JSON library read back exactly."""
        content = asdict(self)
        if self.contributions == 1:
            del content["contributions"]
        return {"format": FORMAT, "version": 1 if self.contributions == 1 else VERSION, **content}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Plan:
        """Read what `to_dict` wrote. Anything unknown, missing or out of range is an error."""
        if _fields(content).get("format") != FORMAT:
            raise InvalidFormat("This is not a Thresher plan.", hint="Give what Plan.to_dict returned.")
        version = content.get("version")
        if type(version) is not int or not 1 <= version <= VERSION:
            raise InvalidFormat(
                f"This plan has a version that this Thresher does not read; it reads versions 1 to {VERSION}.",
                hint="Upgrade Thresher, or make the plan again.",
            )
        fields = {key: value for key, value in content.items() if key not in ("format", "version")}
        needed = [name for name in cls.__slots__ if version > 1 or name != "contributions"]
        if set(fields) != set(needed):
            raise InvalidFormat(
                "This plan has missing or unknown fields.",
                hint=f"It needs exactly: {', '.join(needed)}.",
            )
        made = cls(**fields)
        if version > 1 and made.contributions == 1:  # one plan has one form
            raise InvalidFormat("This plan of one contribution has the version of several.")
        return made

    def __str__(self) -> str:
        """A card for people: the plan, its guarantee, what will be seen, and the paper's rule for comparison."""
        paper = self.versus_paper()
        rounds = "one round" if self.rounds == 1 else f"each of {self.rounds} rounds"
        errors = [
            f"{_two_digits(100 * self.relative_error(size))} % for a bucket of {size:,} units"
            for size in (1_000, 100_000)
        ]
        if self.contributions > 1:
            rounds = f"{rounds}, up to {self.contributions} values of each"
        lines = [
            "Thresher plan",
            f"  sample      {self.sampling_rate:.4g} of all units, in {rounds} (exactly {self.sampling_rate!r})",
            f"  threshold   counts below {self.threshold} in the sample are dropped",
            f"  guarantee   {self.promise()}",
            f"  seen        with 95 % probability: buckets of {self.smallest_visible(0.95):,} units or more",
            f"              with 50 % probability: buckets of {self.smallest_visible(0.5):,}",
            f"  error       typically {errors[0]}, {errors[1]}",
            f"  the paper   for the same target: rate {paper.sampling_rate:.4g}, threshold {paper.threshold}, sees "
            f"{paper.smallest_visible:,} ({paper.best_alpha_visible:,} at best);",
            f"              this plan samples {_two_digits(paper.rate_factor)} times as many units and sees buckets "
            f"{_two_digits(paper.visible_factor)} times smaller",
        ]
        return "\n".join(lines)


def _two_digits(number: float) -> str:
    """A number in two digits, without an exponent where it is not huge: 4.8, 1,700."""
    return f"{float(f'{number:.2g}'):,g}"


def delta_reached(plan: Plan, sampling_rate: float) -> float:
    """The delta that a plan's threshold and rounds reach at its epsilon and this rate, whatever the plan states."""
    return guarantee.delta(
        sampling_rate=sampling_rate,
        threshold=plan.threshold,
        epsilon=plan.epsilon,
        adjacency=plan.adjacency,
        rounds=plan.rounds,
        contributions=plan.contributions,
    )


_reached = functools.lru_cache(maxsize=1024)(delta_reached)


def _fields(content: Any) -> Mapping[str, Any]:
    """The content if it is a mapping, else an empty one."""
    return content if isinstance(content, Mapping) else {}

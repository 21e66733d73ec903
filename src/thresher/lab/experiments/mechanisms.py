"""The mechanisms of the comparison at one target, each on the same sample: ours, its rivals, and two yardsticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from thresher.lab import rivals
from thresher.lab.data import Counts, Floats
from thresher.lab.experiments import expected
from thresher.privacy import Plan

THRESHOLD = "sample-and-threshold"
LAPLACE = rivals.CentralLaplace.name
LAPLACE_ADD_REMOVE = f"{LAPLACE}, add-remove"
STABILITY = rivals.StabilityHistogram.name
HADAMARD = rivals.HadamardResponse.name
UNARY = rivals.OptimisedUnaryEncoding.name
SHUFFLED = rivals.ShuffledBernoulli.name
SHUFFLED_SMALLEST = f"{SHUFFLED}, smallest"
SAMPLED = rivals.NotPrivate.name
ZEROS = "all zeros"

_GRID = 1.02

NAMES = (
    THRESHOLD,
    LAPLACE,
    LAPLACE_ADD_REMOVE,
    STABILITY,
    HADAMARD,
    UNARY,
    SHUFFLED,
    SHUFFLED_SMALLEST,
    SAMPLED,
    ZEROS,
)


@dataclass(frozen=True, slots=True)
class Mechanism:
    """Estimated counts of a sample from its counts, and, where it is known, the expected error after ÷ p.

    `expected_error` takes the whole population's counts and the sampling rate, and gives units per bucket.
    """

    name: str
    estimate: Callable[[Counts, np.random.Generator], Floats]
    expected_error: Callable[[Counts, float], float | None] = lambda _, __: None


def at(plan: Plan, *, names: Sequence[str] | None = None, credit_amplification: bool = False) -> list[Mechanism]:
    """The named mechanisms, by default all, in the order of `NAMES`, at the plan's epsilon and delta.

    Guarantee: each is (epsilon, delta)-private for replace-one neighbours, but for the sample by itself, which is not
    private, and for Laplace noise of scale 1/ε, which is so for add-remove only: the paper does not say which it used.
    Without credit for amplification the rivals are so for whoever is in the sample. With it their noise is that of
    ε' = ln(1 + (e^ε − 1)/p) and δ' = δ/p, which a sample at rate p turns into (ε, δ) for the whole population, for
    mechanisms that show the size of the sample up to its fluctuation. Sample-and-threshold has no other source of
    privacy than the sample, and gets no credit.
    Edge cases: the published shuffle parameter needs ε²m ≥ 100·ln(2/δ) in a sample of m and ε ≤ 1; below, fair coins
    are used, the most noise there is, though it guarantees less; above, that of ε = 1.
    """
    epsilon, delta = plan.epsilon, plan.delta
    if credit_amplification:
        epsilon = math.log1p(math.expm1(epsilon) / plan.sampling_rate)
        delta = min(0.5, delta / plan.sampling_rate)
    noise, narrow = rivals.CentralLaplace(epsilon), rivals.CentralLaplace(epsilon, "add-remove")
    every = [
        Mechanism(
            THRESHOLD,
            lambda counts, _: np.where(counts >= plan.threshold, counts, 0).astype(np.float64),
            lambda people, rate: expected.threshold_error(people, rate, plan.threshold),
        ),
        Mechanism(LAPLACE, noise.estimate, lambda people, rate: expected.laplace_error(people, rate, noise.scale)),
        Mechanism(
            LAPLACE_ADD_REMOVE,
            narrow.estimate,
            lambda people, rate: expected.laplace_error(people, rate, narrow.scale),
        ),
        Mechanism(STABILITY, rivals.StabilityHistogram(epsilon, delta).estimate),
        Mechanism(HADAMARD, rivals.HadamardResponse(epsilon).estimate),
        Mechanism(UNARY, rivals.OptimisedUnaryEncoding(epsilon).estimate),
        Mechanism(SHUFFLED, SteadyShuffle(min(epsilon, 1.0), delta, "published", capped=True).estimate),
        Mechanism(SHUFFLED_SMALLEST, SteadyShuffle(epsilon, delta, "smallest", capped=True).estimate),
        Mechanism(SAMPLED, rivals.NotPrivate().estimate),
        Mechanism(ZEROS, lambda counts, _: np.zeros(len(counts))),
    ]
    return [mechanism for mechanism in every if names is None or mechanism.name in names]


class SteadyShuffle(rivals.ShuffledBernoulli):
    """Shuffled noise whose rate is found for a sample up to two per cent smaller, on a grid.

    Guarantee: that of its parent. A smaller sample needs a larger rate, so the rate is never too small. The search for
    the smallest rate takes long and is cached; on the grid, most repetitions find it there. Errors grow by at most one
    per cent.
    """

    def noise_rate(self, clients: int) -> float:
        """The probability with which a client adds itself to a bucket."""
        return super().noise_rate(max(1, int(_GRID ** math.floor(math.log(max(1, clients), _GRID)))))

"""What the experiments vary, and the two rules that they compare."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from thresher.errors import InvalidSetting
from thresher.privacy import Plan, paper
from thresher.privacy.planner import make_plan
from thresher.privacy.settings import dyadic

Rule = Literal["paper", "exact"]
RULES: tuple[Rule, ...] = get_args(Rule)

ALPHA = 1 / 6
DELTA = 1e-8
POPULATION = 1_000_000


@functools.lru_cache(maxsize=512)
def plan_of(rule: Rule, epsilon: float, delta: float, rounds: int = 1) -> Plan:
    """The plan of a rule for a total of (epsilon, delta): the paper's with α = 1/6, or the best that is exact.

    Guarantee: both are valid for replace-one neighbours, the paper's; its rate is rounded down to a dyadic number.
    """
    if rule == "exact":
        return make_plan(epsilon, delta, rounds=rounds)
    if rule != "paper":
        raise InvalidSetting("rule", "must be 'paper' or 'exact'")
    printed = paper.rule(epsilon, delta, ALPHA, rounds)
    return Plan(dyadic(printed.sampling_rate), printed.threshold, epsilon, delta, "replace", rounds)


@dataclass(frozen=True, slots=True)
class Settings:
    """One run of the lab. `full` is the paper's; `fast` has fewer points and repetitions, for a first look and tests.

    `credit_amplification` lets the rivals spend what sampling at rate p gives them for free: their epsilon on the
    sample is then ln(1 + (e^ε − 1)/p). The paper does not, so it is off unless asked for.
    """

    epsilons: tuple[float, ...]
    accuracy_buckets: tuple[int, ...]
    recall_buckets: tuple[int, ...]
    datasets: tuple[str, ...]
    repetitions: int
    populations: tuple[int, ...]
    deltas: tuple[float, ...]
    total_epsilons: tuple[float, ...]
    seed: int = 1
    credit_amplification: bool = False
    text: Path | None = None

    @property
    def buckets(self) -> tuple[int, ...]:
        """All histogram sizes, smallest first."""
        return tuple(sorted({*self.accuracy_buckets, *self.recall_buckets}))

    @property
    def text_digest(self) -> str:
        """Names the text that is used, so that results from another one are not taken for its."""
        if self.text is None:
            return "complete works"
        try:
            return hashlib.sha256(self.text.read_bytes()).hexdigest()
        except OSError:
            raise InvalidSetting("text", "is a file that cannot be read", hint="Give a text file.") from None


def full(*, seed: int = 1, text: Path | None = None, credit_amplification: bool = False) -> Settings:
    """The paper's settings: ε = 0.1 … 1.0, B = 2^6 … 2^14, ten repetitions."""
    return Settings(
        epsilons=tuple(round(0.1 * step, 1) for step in range(1, 11)),
        accuracy_buckets=(2**6, 2**10, 2**14),
        recall_buckets=(2**8, 2**12),
        datasets=("binomial", "geometric", "shakespeare"),
        repetitions=10,
        populations=(10**4, 10**5, 10**6, 10**7, 10**8),
        deltas=(1e-4, 1e-6, 1e-8, 1e-10, 1e-12),
        total_epsilons=(0.5, 1.0, 2.0, 4.0),
        seed=seed,
        credit_amplification=credit_amplification,
        text=text,
    )


def fast(
    *, seed: int = 1, text: Path | None = None, credit_amplification: bool = False, shakespeare: bool = False
) -> Settings:
    """Three repetitions at a few points; Shakespeare only if a text is given, or `shakespeare` is at hand."""
    return replace(
        full(seed=seed, text=text, credit_amplification=credit_amplification),
        epsilons=(0.1, 0.4, 1.0),
        accuracy_buckets=(2**6, 2**10),
        recall_buckets=(2**8,),
        datasets=("binomial", "geometric", *(("shakespeare",) if text or shakespeare else ())),
        repetitions=3,
        populations=(10**4, 10**6),
        deltas=(1e-4, 1e-8),
        total_epsilons=(1.0, 4.0),
    )

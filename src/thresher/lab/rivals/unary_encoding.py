"""Optimised unary encoding: every client reports one noisy bit a bucket."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thresher.lab.data import Counts, Floats
from thresher.privacy.settings import check_epsilon

OWN_BIT = 0.5
"""Probability that a client reports a one for the bucket that it holds."""


@dataclass(frozen=True, slots=True)
class OptimisedUnaryEncoding:
    """A client's report has a one at its own bucket with probability 1/2, at any other with q = 1/(e^ε + 1).

    Guarantee: (epsilon, 0) for each client's report by itself, hence for replace: two bits change, and the ratio is at
    most (1/2)(1 − q)/((1/2)q) = e^ε. How many clients take part is public.

    The bits are independent given what clients hold, so a bucket held by c of m clients has Bin(c, 1/2) + Bin(m − c, q)
    ones, independently of the others: two draws a bucket are exact.
    Reference: Wang, Blocki, Li and Jha 2017.
    """

    name: ClassVar[str] = "optimised unary encoding"

    epsilon: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def other_bit(self) -> float:
        """Probability that a client reports a one for a bucket that it does not hold."""
        return 1 / (math.exp(self.epsilon) + 1)

    def estimate(self, counts: Counts, random: np.random.Generator) -> Floats:
        """Unbiased estimates, (ones − m·q)/(1/2 − q)."""
        clients = int(counts.sum())
        ones = random.binomial(counts, OWN_BIT) + random.binomial(clients - counts, self.other_bit)
        return np.asarray(ones - clients * self.other_bit, dtype=np.float64) / (OWN_BIT - self.other_bit)

    def variance(self, counts: Counts) -> Floats:
        """The estimates' variances, (c/4 + (m − c)·q(1 − q))/(1/2 − q)²."""
        noise = self.other_bit * (1 - self.other_bit)
        spread: Floats = counts * OWN_BIT**2 + (counts.sum() - counts) * noise
        return spread / (OWN_BIT - self.other_bit) ** 2

"""Hadamard response: every client reports one number of log2(B) bits, from half of all numbers more likely."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thresher.lab.data import Counts, Floats
from thresher.privacy.settings import check_epsilon


@dataclass(frozen=True, slots=True)
class HadamardResponse:
    """The one-block scheme: bucket x is row x + 1 of the Hadamard matrix of order K, the power of two above B.

    A client draws its report uniformly from the columns where its row is +1, with probability e^ε/(1 + e^ε), else from
    those where it is −1; either is half of the K columns (row 0, all ones, stays unused, so K ≥ B + 1).

    Guarantee: (epsilon, 0) for each client's report by itself, hence for replace: all reports have one of two
    probabilities, a factor of e^ε apart. How many clients take part is public. Holds and is unbiased for every epsilon;
    the error is of the optimal order for epsilon up to about 1, beyond which the paper uses several blocks.
    Reference: Acharya, Sun and Zhang 2019, the high-privacy scheme.
    """

    name: ClassVar[str] = "local Hadamard response"

    epsilon: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    def estimate(self, counts: Counts, random: np.random.Generator) -> Floats:
        """Unbiased estimates from one report a client."""
        return self.decode(self.reports(counts, random), len(counts))

    def reports(self, counts: Counts, random: np.random.Generator) -> Counts:
        """How many clients send each of the K reports.

        One vectorised draw a client: a uniform column, moved into the other half of its row if it should be there.
        Flipping in the column a bit that the row has set is a one-to-one map between the halves, so the result is
        uniform in the half that was chosen.
        """
        order = _order(len(counts))
        rows = np.repeat(np.arange(1, len(counts) + 1), counts)
        columns = random.integers(order, size=len(rows))
        wanted = random.random(len(rows)) >= 1 / (1 + math.exp(-self.epsilon))
        # The matrix's entry is +1 where row and column have an even number of set bits in common.
        moved = (np.bitwise_count(rows & columns) & 1) != wanted
        columns ^= np.where(moved, rows & -rows, 0)
        return np.bincount(columns, minlength=order)

    def decode(self, reports: Counts | Floats, buckets: int) -> Floats:
        """Counts from reports: the Hadamard transform, divided by tanh(ε/2) = (e^ε − 1)/(e^ε + 1).

        Two different rows agree in exactly half of the columns, so other buckets' clients add zero on average.
        """
        return _transform(reports.astype(np.float64))[1 : buckets + 1] / math.tanh(self.epsilon / 2)

    def variance(self, counts: Counts) -> Floats:
        """The estimates' variances, m/tanh²(ε/2) − c."""
        return float(counts.sum()) / math.tanh(self.epsilon / 2) ** 2 - counts.astype(np.float64)


def _order(buckets: int) -> int:
    """The smallest power of two above the number of buckets."""
    return 1 << buckets.bit_length()


def _transform(values: Floats) -> Floats:
    """The Hadamard matrix of a power-of-two order times the values, in K·log2(K) steps."""
    order, width = len(values), 1
    while width < order:
        halves = values.reshape(-1, 2, width)
        values = np.stack((halves[:, 0] + halves[:, 1], halves[:, 0] - halves[:, 1]), axis=1).reshape(order)
        width *= 2
    return values

"""The exact guarantee of shuffled Bernoulli noise, and the least noise that a guarantee needs.

With m clients that each report every bucket with probability q, a bucket held by c shows c + Bin(m, q). One client who
changes bucket makes (X + 1, Y) out of (X, Y + 1), X and Y independent Bin(m, q); all else is unchanged. The privacy
loss at (u, v) is g(u) − g(v) with g(u) = ln[u(1 − q)/((m − u + 1)q)], which grows with u. So for each v the best event
is an upper tail of u, and

    delta(ε) = Σ_v Pr[Y = v] · (Pr[X + 1 ≥ k] − s·Pr[X ≥ k]),   s = e^(ε + g(v)),  k the least u with e^g(u) > s.

Exchanging the two buckets turns one direction into the other, so one covers both.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from thresher.errors import Unreachable
from thresher.privacy.settings import check_count, check_delta, check_epsilon, check_probability

_HALVINGS = 20


def shuffle_delta(clients: int, noise_rate: float, epsilon: float) -> float:
    """The least delta at which m clients with noise of rate q are (epsilon, delta)-private, for replace.

    Guarantee: exact up to floating point, and never too low for leaving out tails: values of Y beyond 12 standard
    deviations count in full, which makes a delta below about 1e-30 come out larger than it is.
    """
    from scipy.stats import binom

    m = check_count(clients, setting="clients", least=1)
    q = check_probability(noise_rate, setting="noise_rate")
    mean, spread = m * q, math.sqrt(m * q * (1 - q))
    low, high = max(0, math.floor(mean - 12 * spread - 30)), min(m, math.ceil(mean + 12 * spread + 30))
    v = np.arange(low, high + 1, dtype=np.float64)
    # s·q, which stays finite at v = 0, where the other law puts nothing: s is 0 and the tail is everything.
    scaled = math.exp(check_epsilon(epsilon)) * v * (1 - q) / (m - v + 1)
    k = np.floor((m + 1) * scaled / (1 - q + scaled)) + 1
    tails = binom.sf(k - 2, m, q) - scaled / q * binom.sf(k - 1, m, q)
    inside = binom.pmf(v, m, q) @ np.maximum(tails, 0)
    return float(inside + binom.cdf(low - 1, m, q) + binom.sf(high, m, q))


@lru_cache(maxsize=1024)
def smallest_noise_rate(clients: int, epsilon: float, delta: float) -> float:
    """The smallest rate up to 1/2 at which m clients are (epsilon, delta)-private, for replace.

    Guarantee: `shuffle_delta` at the result is at most delta. That it is the smallest, to one part in a million, rests
    on delta falling in the rate up to 1/2, which is observed, not proved.
    Edge cases: where even fair coins are too little noise, `Unreachable` is raised.
    """
    wanted = check_delta(delta)
    if not (clients > 0 and shuffle_delta(clients, 0.5, epsilon) <= wanted):
        raise Unreachable(
            f"No noise rate makes {clients} clients private at epsilon={epsilon} and delta={delta}.",
            hint="Take more clients, or a larger epsilon or delta.",
        )
    enough = 0.5
    while shuffle_delta(clients, enough / 2, epsilon) <= wanted:
        enough /= 2
    step = enough / 4
    for _ in range(_HALVINGS):
        if shuffle_delta(clients, enough - step, epsilon) <= wanted:
            enough -= step
        step /= 2
    return enough

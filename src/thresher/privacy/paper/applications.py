"""The paper's applications: TrieHH++ (section 4.1), quantile search and hierarchies (section 4.2).

Guarantees here are those of basic composition, as (epsilon, delta) pairs; `thresher.privacy` composes
exactly.
"""

from __future__ import annotations

import math

from thresher.errors import InvalidSetting
from thresher.privacy.paper.accuracy import sampling_error_scale
from thresher.privacy.settings import (
    check_count,
    check_delta,
    check_epsilon,
    check_rate,
    check_rounds,
    check_threshold,
)


def triehh_guarantee(epsilon: float, delta: float, levels: int) -> tuple[float, float]:
    """Total (epsilon, delta) of TrieHH++ over its levels by basic composition: (Lε, Lδ).

    Guarantee: valid for levels that are asked with fresh coins; what a level asks may depend on earlier
    releases.
    Edge cases: delta is at most 1.0. One level is enough to find heavy hitters alone.
    Reference: paper, Lemma 6 (section 4.1); docs/privacy.md, section 6.
    """
    number = check_rounds(levels, setting="levels")
    return number * check_epsilon(epsilon), min(1.0, number * check_delta(delta))


def advanced_composition_as_printed(epsilon: float, delta: float, levels: int) -> tuple[float, float]:
    """(Lε² + ε√(L·ln(1/(δL))), 2Lδ), as in the proof of Lemma 6. Not a guarantee.

    It is not the theorem it cites (Dwork and Roth 2014), which has √(2L·ln(1/δ')): without the 2 there are
    mechanisms that exceed it. The theorem is `thresher.privacy.composition.advanced`.

    Edge cases: the paper asks for epsilon < 1; L·δ must be below 1.
    Reference: paper, proof of Lemma 6; docs/privacy.md, section 11.
    """
    each, number = check_epsilon(epsilon), check_rounds(levels, setting="levels")
    total_delta = number * check_delta(delta)
    if not each < 1:
        raise InvalidSetting("epsilon", "must be below 1 for this expression", hint="The paper asks for it.")
    if not total_delta < 1:
        raise InvalidSetting("delta", "times levels must be below 1", hint="Lower delta or use fewer levels.")
    total = number * each**2 + each * math.sqrt(number * -math.log(total_delta))
    return total, min(1.0, 2 * total_delta)


def quantile_search_guarantee(epsilon: float, delta: float, rounds: int) -> tuple[float, float]:
    """Total (epsilon, delta) of a binary search with h rounds by basic composition: (hε, hδ).

    Guarantee: valid for fresh coins in every round; the split points may depend on earlier releases.
    Reference: paper, Lemma 7 (section 4.2); docs/privacy.md, section 6.
    """
    return triehh_guarantee(epsilon, delta, check_rounds(rounds))


def quantile_value_error(rounds: int) -> float:
    """How far a binary search of h rounds over [0, 1] can be from its target: 2^−h.

    The paper's buckets [0, t] and [t, 1] share the point t; Thresher's are half-open.

    Reference: paper, Lemma 7 (section 4.2).
    """
    return math.ldexp(1.0, -check_rounds(rounds))


def quantile_rank_error_scale(sample_size: float) -> float:
    """The scale of a searched quantile's rank error, 1/√m, with m the expected sample of one round.

    The paper gives it inside an O, for quantiles between τ/m and 1 − τ/m: it is a scale, not a bound.

    Edge cases: outside that range the smaller side is dropped and the search sees it as empty.
    Reference: paper, Lemma 7 (section 4.2).
    """
    return sampling_error_scale(sample_size)


def hierarchy_probes(levels: int, branching: int) -> int:
    """The most buckets that a range [0, r) is put together from: L(β − 1).

    Reference: paper, section 4.2.
    """
    return check_rounds(levels, setting="levels") * (check_count(branching, setting="branching", least=2) - 1)


def hierarchy_resolution(levels: int, branching: int) -> float:
    """The width of the finest bucket of a hierarchy over [0, 1): β^−L.

    The paper's Lemma 8 says 2^−L, which is the case β = 2.

    Reference: paper, Lemma 8 (section 4.2); docs/privacy.md, section 11.
    """
    number = check_rounds(levels, setting="levels")
    return float(check_count(branching, setting="branching", least=2)) ** -number


def hierarchy_error(
    levels: int, branching: int, threshold: int, sampling_rate: float, population: int
) -> tuple[float, float]:
    """Rank error of a hierarchical histogram: (most lost to the threshold, standard deviation of sampling).

    The first is L(β − 1)τ/(pn): each of the L(β − 1) buckets of a range may be dropped, with less than τ
    sampled units in it. The second is at most 1/√(pn): the buckets of a range are disjoint and their coins
    independent, so variances add up to at most (1 − p)/(pn). The paper's (β − 1)(Lτ)²/(εn) takes the rate to
    be ε/(Lτ), which is not the rate of its rule, and leaves sampling out.

    Guarantee: the first is a bound in every release, for the sampled ranks; the second is a standard
    deviation.
    Reference: paper, section 4.2, before Lemma 8; docs/privacy.md, section 11.
    """
    n = check_count(population, setting="population", least=1)
    expected = check_rate(sampling_rate) * n
    lost = hierarchy_probes(levels, branching) * check_threshold(threshold) / expected
    return lost, 1 / math.sqrt(expected)


def hierarchy_error_as_printed(levels: int, branching: int, threshold: int, epsilon: float, population: int) -> float:
    """(β − 1)(Lτ)²/(εn), as in the paper. For comparison only: use `hierarchy_error`.

    Reference: paper, section 4.2 and Lemma 8; docs/privacy.md, section 11.
    """
    n = check_count(population, setting="population", least=1)
    probes = hierarchy_probes(levels, branching)
    tau = check_threshold(threshold)
    return probes * levels * tau**2 / (check_epsilon(epsilon) * n)

"""Levels of two intervals that make one joint statement: their coverage, and that they are narrower than one pair."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher.errors import InvalidSetting
from thresher.privacy.differences import paired_levels


def joint(pairs: tuple[tuple[float, float], ...]) -> float:
    """Pr[for some pair, U < c and V < d] for independent uniform U and V: the area under a staircase, by strips."""
    edges = sorted({0.0, 1.0, *(first for first, _ in pairs)})
    area = 0.0
    for left, right in itertools.pairwise(edges):
        middle = (left + right) / 2
        area += (right - left) * max((second for first, second in pairs if middle < first), default=0.0)
    return area


@given(st.floats(0.01, 1 - 1e-6))
def test_the_levels_cover_as_stated(confidence):
    pairs = paired_levels(confidence)
    assert joint(pairs) == pytest.approx(confidence, abs=1e-12)
    assert [first for first, _ in pairs] == sorted(first for first, _ in pairs)
    assert [second for _, second in pairs] == sorted((second for _, second in pairs), reverse=True)
    assert all(0 < level < 1 for pair in pairs for level in pair)


def test_coverage_would_find_levels_that_are_too_low():
    """The negative control: pairs of the stated confidence itself, with nothing to spare for the second number."""
    assert joint(((0.95, 0.95),)) == pytest.approx(0.95**2)


def test_six_pairs_are_narrower_than_one():
    from statistics import NormalDist

    def width(pairs):
        half = NormalDist().inv_cdf
        return max(half(0.5 + first / 2) + half(0.5 + second / 2) for first, second in pairs)

    one = width(((math.sqrt(0.95), math.sqrt(0.95)),))
    best = NormalDist().inv_cdf(0.975) * math.sqrt(2)
    assert one / best == pytest.approx(1.61, abs=0.01)
    assert width(paired_levels(0.95)) / best == pytest.approx(1.31, abs=0.01)


@pytest.mark.parametrize("confidence", [0, 1, math.nan, 1 - 1e-12, "high"])
def test_confidence_is_checked(confidence):
    with pytest.raises(InvalidSetting, match="confidence"):
        paired_levels(confidence)

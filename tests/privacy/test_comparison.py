"""Expected errors of noisy histograms against simulation, and an honest verdict."""

import math

import numpy as np
import pytest

import thresher as th
from thresher.errors import InvalidSetting
from thresher.privacy.comparison import _sampled_error, _stability_error

DRAWS = 400_000


def simulated(held: np.ndarray, scale: float, cut: float, truth: float, factor: float) -> tuple[float, float]:
    noisy = held + np.random.default_rng(3).laplace(0, scale, DRAWS)
    squared = (np.where(noisy >= cut, factor * noisy, 0.0) - truth) ** 2
    return float(squared.mean()), float(squared.std() / math.sqrt(DRAWS))


@pytest.mark.parametrize("truth", [30, 38, 50, 500])
def test_stability_error_is_the_mean_over_the_noise(truth):
    mean, spread = simulated(np.full(DRAWS, float(truth)), 2.0, 37.8, truth, 1.0)
    computed = float(_stability_error(np.array([float(truth)]), 2.0, 37.8, truth)[0])
    assert abs(computed - mean) < 6 * spread  # false alarm 2e-9
    assert abs(1.1 * computed - mean) > 6 * spread  # the check can fail


def test_error_on_a_sample_is_the_mean_over_sample_and_noise():
    held = np.random.default_rng(4).binomial(150, 0.3, DRAWS).astype(float)
    mean, spread = simulated(held, 2.0, 37.8, 150, 1 / 0.3)
    computed = _sampled_error(0.3, 2.0, 37.8, 150)
    assert abs(computed - mean) < 6 * spread
    assert abs(1.06 * computed - mean) > 6 * spread


def test_it_says_that_whole_tables_are_better_off_with_noise():
    comparison = th.plan(epsilon=1.0, delta=1e-8).compare()
    largest = comparison.rows[-1]
    assert largest.count >= 1_000_000
    assert largest.stability < largest.thresher / 100
    assert largest.thresher < largest.on_sample * 1.001
    assert "adding noise to whole counts has the smaller error" in str(comparison)
    assert len(comparison.to_dicts()) == len(comparison.rows)


@pytest.mark.slow
def test_given_sizes_and_picture(tmp_path):
    comparison = th.plan(epsilon=1.0, delta=1e-8, adjacency="add-remove").compare([100, 1000])
    assert [row.count for row in comparison.rows] == [100, 1000]
    assert comparison.rows[1].laplace == pytest.approx(math.sqrt(2) / 1000)
    comparison.plot(tmp_path / "compare.svg")
    assert b"stability-based" in (tmp_path / "compare.svg").read_bytes()
    with pytest.raises(th.errors.InvalidSetting):
        th.plan(epsilon=1.0, delta=1e-8).compare([0])


def test_one_size_is_not_a_list():
    with pytest.raises(InvalidSetting, match="counts must be a list, not int"):
        th.plan(1, 1e-8).compare(1000)

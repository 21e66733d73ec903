"""Rounds of one query that were asked of very different numbers of devices: numbers stand for the largest of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import thresher as th
from thresher.mechanism import Release, Response
from thresher.mechanism.common_rates import common_rates, rows_at
from thresher.protocol.rates import share
from thresher.questions import END
from thresher.verbs import HeavyHitters, HeavyHittersQuery, Ranges, RangesQuery
from thresher.verbs.drivers import replay

ALPHA = 1e-6
"""False alarm: an interval that misses with exactly 5 % fails a check with this probability."""

DEVICES = 1_500
TWO, SIX = th.plan(8, 1e-6, rounds=2), th.plan(4, 1e-6, rounds=6)
HOLDERS = 395


def response(plan: th.Plan, asked: int, completed: int | None = None) -> Response:
    return Response(asked, asked, asked if completed is None else completed, share(plan, 1.0, "aggregator")[0])


def released(plan: th.Plan, column: str, counts: dict, of: Response) -> Release:
    kept = {bucket: count for bucket, count in counts.items() if count >= plan.threshold}
    return Release.of(list(kept), list(kept.values()), plan, private=True, columns=(column,), response=of)


def trie(random: np.random.Generator, asked: tuple[int, int]) -> HeavyHitters:
    """ "the" is held by 395 of 1,500 devices and "other" by the rest; a round asks some of them, drawn at random."""
    releases = []
    for level, number in enumerate(asked):
        the = random.hypergeometric(HOLDERS, DEVICES - HOLDERS, number)
        held = {"the" + END: the, ("othe", "other" + END)[level]: number - the}
        counts = {bucket: int(random.binomial(units, TWO.sampling_rate)) for bucket, units in held.items()}
        releases.append(released(TWO, "word", counts, response(TWO, number)))
    return replay(HeavyHittersQuery("word", TWO, "trie", 4), releases)  # type: ignore[no-any-return]


def ranges(random: np.random.Generator, numbers: np.ndarray, asked: list[int]) -> Ranges:
    query = RangesQuery("x", SIX, 0, 1_024, 4)
    releases = []
    for question, number in zip(query.grid.questions("x"), asked, strict=True):
        held = random.permutation(numbers)[:number]
        held = held[random.random(number) < SIX.sampling_rate]
        cells, counts = np.unique((held * question.cells / 1_024).astype(int), return_counts=True)
        found = dict(zip(cells.tolist(), counts.tolist(), strict=True))
        releases.append(released(SIX, "x", found, response(SIX, number)))
    return replay(query, releases)  # type: ignore[no-any-return]


def test_rates_are_relative_to_the_most_devices_that_a_round_asked() -> None:
    of = [response(TWO, 1_500, 1_200), response(TWO, 102), response(TWO, 50, 0)]
    releases = [released(TWO, "word", {}, each) for each in of]
    kept = of[0].kept_rate
    assert common_rates(releases) == (kept * 1_200 / 1_500, kept * 102 / 1_500, kept / 1_500)
    assert common_rates(releases[:1]) == (releases[0].rate,)
    table = Release.of(["a"], [200], TWO, private=True)
    assert common_rates([table, table]) == (TWO.sampling_rate,) * 2


def test_rows_at_the_own_rate_are_the_rows() -> None:
    release = released(TWO, "word", {"a": 200, "b": 300}, response(TWO, 1_000))
    assert rows_at(release, release.rate) == list(release)
    halved = rows_at(release, release.rate / 2)
    for row, half in zip(release, halved, strict=True):
        assert half.estimate == pytest.approx(2 * row.estimate)
        assert half.interval[0] > 1.8 * row.interval[0]
    confident = rows_at(release, release.rate, 0.9999)
    assert all(wide.interval[1] > row.interval[1] for wide, row in zip(confident, release, strict=True))


def test_equal_rounds_keep_their_numbers() -> None:
    """As written before rounds had a common scale: the total over the sum of the releases' own rates."""
    answer = trie(np.random.default_rng(1), (DEVICES, DEVICES))
    counts = [release["the" + END].count for release in answer.releases]
    assert answer["the"].estimate == pytest.approx(sum(counts) / sum(release.rate for release in answer.releases))
    assert (answer["the"].rounds, answer["other"].rounds) == (2, 1)
    assert answer["other"].interval == answer.releases[1]["other" + END].interval
    numbers = np.random.default_rng(2).uniform(0, 1_024, DEVICES)
    tree = ranges(np.random.default_rng(3), numbers, [DEVICES] * 6).hierarchy
    assert set(tree.rates) == {response(SIX, DEVICES).rate}
    assert tree.unevenness == 1


@pytest.mark.slow
@pytest.mark.parametrize("asked", [(1_500, 102), (300, 1_500), (1_500, 900), (1_500, 1_500)])
def test_a_text_is_counted_for_the_most_devices(asked: tuple[int, int]) -> None:
    random, runs = np.random.default_rng(sum(asked)), 200
    missed = late = at_own_rates = 0
    for _ in range(runs):
        answer = trie(random, asked)
        if "the" in answer:
            low, high = answer["the"].interval
            missed += not low <= HOLDERS <= high
            assert low <= answer["the"].estimate <= high
        if "other" in answer:
            late += not answer["other"].interval[0] <= DEVICES - HOLDERS <= answer["other"].interval[1]
            low, high = answer.releases[1]["other" + END].interval
            at_own_rates += not low <= DEVICES - HOLDERS <= high
    allowed = binom.ppf(1 - ALPHA, runs, 0.05)
    assert missed <= allowed and late <= allowed
    assert (at_own_rates > allowed) == (asked[1] < DEVICES)  # what each round says of its own devices would fail


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["smooth", "ties"])
@pytest.mark.parametrize(
    "asked",
    [
        [4, *[DEVICES] * 5],
        [DEVICES, 4, *[DEVICES] * 4],
        [*[DEVICES] * 5, 4],
        [0, *[DEVICES] * 5],
        [DEVICES, 900, 1_200, 700, 1_500, 1_000],
        [DEVICES] * 6,
    ],
    ids=["first", "second", "last", "none", "all", "equal"],
)
def test_ranges_count_the_most_devices(asked: list[int], kind: str) -> None:
    random, runs = np.random.default_rng(7), 30
    drawn = random.lognormal(5, 1, DEVICES) if kind == "smooth" else random.choice([3.0, 40, 41, 300, 700], DEVICES)
    numbers = np.clip(drawn, 0, 1_023.9)
    bounds = [(0, 1_024), (0, 256), (0, 100), (64, 512)]
    misses = np.zeros((3, len(bounds)))
    for _ in range(runs):
        answer = ranges(random, numbers, asked)
        for place, (low, high) in enumerate(bounds):
            true = int(((numbers >= low) & (numbers < high)).sum())
            positions = (answer.hierarchy.position(low), answer.hierarchy.position(high))
            sure = answer.hierarchy.sure_count_bounds(*positions, 0.025)
            counted, part = answer.count(low, high).interval, answer.fraction(low, high).interval
            ends = (counted, sure, tuple(DEVICES * end for end in part))
            misses[:, place] += [not least - 1e-6 <= true <= most + 1e-6 for least, most in ends]
        median = float(np.quantile(numbers, 0.5, method="inverted_cdf"))
        least, most = answer.quantile(0.5).interval
        assert least <= median <= most or kind == "smooth"
        shown = answer.to_arrow().to_pylist()
        assert all(row["estimate"] < 2 * DEVICES for row in shown)
    assert misses.max() <= binom.ppf(1 - ALPHA, runs, 0.05)
    low, high = answer.count(0, 1_024).interval
    assert 1_200 < low <= high < 2_000


def test_a_round_of_few_devices_does_not_bound_what_others_counted() -> None:
    """Four devices complete the coarsest level; what it dropped is not known to be small."""
    numbers = np.random.default_rng(4).uniform(0, 1_024, DEVICES)
    answer = ranges(np.random.default_rng(5), numbers, [4, *[DEVICES] * 5])
    assert len(answer.releases[0]) == 0
    assert answer.count(0, 1_024).interval[0] < DEVICES < answer.count(0, 1_024).interval[1] < 2_000
    assert abs(answer.count(0, 1_024).estimate - DEVICES) < 300
    assert answer.hierarchy.sure_count_bounds(0, 4_096, 0.025)[1] >= DEVICES
    own = [release.rate for release in answer.releases]
    assert len(set(own)) == 1  # each round's own rate is the same, and hides it


def test_what_no_round_showed_is_bounded_by_the_round_of_the_fewest() -> None:
    random = np.random.default_rng(6)
    few, many = (trie(random, asked).readings().unseen_upper for asked in ((1_500, 300), (1_500, 1_500)))
    assert few is not None and many is not None
    assert few > 4 * many

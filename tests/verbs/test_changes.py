"""What changed between two releases: coverage of its intervals, summed exactly; what appeared and vanished."""

from __future__ import annotations

import datetime as dt
import itertools

import numpy as np
import pyarrow as pa
import pytest
from in_memory_people import CountsPopulation, NumbersPopulation
from scipy import stats

import thresher as th
from thresher.errors import InvalidSetting
from thresher.mechanism import Release
from thresher.privacy.intervals import intervals
from thresher.privacy.visibility import smallest_visible
from thresher.questions import Values
from thresher.verbs import Changes, HistogramQuery, OneSided, OverTime, Reading, Readings, changes, quantiles, ranges

ALPHA = 1e-9  # false alarm per check
CONFIDENCE = 0.95
MONDAY = dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC)
TUESDAY = MONDAY + dt.timedelta(days=1)
PLAN = th.plan(1, 1e-8)
KEYS = (("first", pa.int64()), ("second", pa.int64()))


def all_pairs(rate: float, threshold: int, counts: range, *, conditional: bool = True) -> Changes:
    """The changes for every pair of sampled counts: each pair is a bucket of its own."""
    pairs = list(itertools.product(counts, counts))

    def reading(which: int):
        def read(confidence: float) -> Readings:
            ends = intervals(rate, threshold if conditional else 0, [pair[which] for pair in pairs], confidence)
            rows = zip(pairs, *(end.tolist() for end in ends), strict=True)
            return Readings(
                KEYS, tuple(Reading(pair, "", pair[which] / rate, lower, upper) for pair, lower, upper in rows)
            )

        return read

    return Changes.between((MONDAY, reading(0)), (TUESDAY, reading(1)), CONFIDENCE)


def coverages(rate: float, threshold: int, sizes: tuple[int, ...], **how: bool) -> list[float]:
    """Exact probabilities, given that both were released, that both intervals contain the truth, for pairs of sizes."""
    most = int(max(sizes) * rate + 8 * np.sqrt(max(sizes) * rate)) + 2
    counts = range(threshold, most)
    table = all_pairs(rate, threshold, counts, **how).to_arrow()
    shape = (len(counts), len(counts))
    lower, upper, low, high = (
        table[name].to_numpy().reshape(shape) for name in ("lower", "upper", "relative_lower", "relative_upper")
    )
    laws = {size: stats.binom.pmf(counts, size, rate) for size in sizes}
    assert all(law.sum() > 0 for law in laws.values())
    found = []
    for before, after in itertools.product(sizes, sizes):
        mass = np.outer(laws[before] / laws[before].sum(), laws[after] / laws[after].sum())
        inside = (lower <= after - before) & (after - before <= upper)
        relative = after / before - 1
        inside &= (low <= relative + 1e-12) & (relative - 1e-12 <= high)
        found.append(float(mass[inside].sum()))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "threshold", "sizes"),
    [
        (0.3, 10, (12, 25, 33, 40, 80)),
        (0.1, 20, (60, 150, 200, 260)),
        (0.8, 5, (5, 6, 8, 40)),
    ],
)
def test_change_and_relative_change_are_covered_together(rate, threshold, sizes):
    assert min(coverages(rate, threshold, sizes)) >= CONFIDENCE - 1e-9


def test_coverage_would_find_intervals_that_forget_the_threshold():
    """The first negative control: buckets near the threshold are seen only where they were lucky."""
    assert min(coverages(0.1, 20, (60, 200), conditional=False)) < 0.5


@pytest.mark.slow
def test_coverage_would_find_levels_that_are_too_low(monkeypatch):
    """The second negative control: the levels of a lower confidence."""
    levels = changes.paired_levels
    monkeypatch.setattr(changes, "paired_levels", lambda confidence: levels(0.6))
    assert min(coverages(0.3, 10, (40, 90))) < CONFIDENCE - 0.02


def histogram(counts: dict[str, int]):
    return HistogramQuery(Values(("country",)), PLAN).run(CountsPopulation(counts))


@pytest.mark.slow
def test_changes_of_a_histogram_are_covered():
    sizes = {f"country {index}": 110 + 7 * index for index in range(400)}
    grown = {name: size + 30 for name, size in sizes.items()}
    over_time = OverTime([(MONDAY, histogram(sizes)), (TUESDAY, histogram(grown))])
    found = over_time.changes()
    assert len(found) > 300

    def p_value(truth: float) -> float:
        missed = sum(not row.interval[0] <= truth <= row.interval[1] for row in found)
        return float(stats.binom.sf(missed - 1, len(found), 1 - CONFIDENCE))

    assert p_value(30) > ALPHA
    assert p_value(700) < ALPHA  # the test can fail


@pytest.mark.slow
def test_changes_of_quantiles_and_ranges_are_covered():
    draws = np.random.default_rng(7)
    first, second = (NumbersPopulation(draws.normal(middle, 15, 20_000).clip(0, 99.9)) for middle in (40, 44))
    truth = float(np.quantile(second.numbers, 0.5) - np.quantile(first.numbers, 0.5))
    grown = int(sum(second.numbers >= 48)) - int(sum(first.numbers >= 48))
    plan, bounds = th.plan(2, 1e-6, rounds=4), {"lower": 0, "upper": 100}
    missed, missed_ranges, mistaken, certain, runs = 0, 0, 0, 0, 60
    for seed in range(runs):
        people = [each.seeded(2 * seed + which) for which, each in enumerate((first, second))]
        asked = [quantiles(each, "x", 0.5, plan=plan, method="hierarchy", **bounds) for each in people]
        (row,) = OverTime(list(zip((MONDAY, TUESDAY), asked, strict=True))).changes()
        missed += not row.interval[0] <= truth <= row.interval[1]
        mistaken += not row.interval[0] <= truth + 10 <= row.interval[1]
        counted = [ranges(each, "x", plan=plan, **bounds) for each in people]
        (row,) = OverTime(list(zip((MONDAY, TUESDAY), counted, strict=True)), ranges=[(48, 100)]).changes()
        missed_ranges += not row.interval[0] <= grown <= row.interval[1]
        certain += bool(row.changed)
    assert stats.binom.sf(missed - 1, runs, 1 - CONFIDENCE) > ALPHA
    assert stats.binom.sf(missed_ranges - 1, runs, 1 - CONFIDENCE) > ALPHA
    assert stats.binom.sf(mistaken - 1, runs, 1 - CONFIDENCE) < ALPHA  # the test can fail
    assert certain > runs / 2  # the intervals say something: they exclude no change


def test_changes_of_the_last_two_releases_or_since_a_date():
    points = [
        (MONDAY + dt.timedelta(days=day), histogram({"fr": size, "de": 3000}))
        for day, size in enumerate((9000, 6000, 3000))
    ]
    over_time = OverTime([*points[:2], (MONDAY + dt.timedelta(hours=30), None), points[2]])
    last = over_time.changes()
    assert (last.earlier, last.later) == (points[1][0], points[2][0])
    rows = {row.bucket: row for row in last}
    assert rows["fr"].changed and rows["fr"].change == pytest.approx(-3000, abs=1200)
    assert rows["fr"].relative == pytest.approx(-0.5, abs=0.2)
    assert rows["fr"] in last.changed
    assert over_time.changes(since=MONDAY.date()).earlier == MONDAY
    assert over_time.changes(since=points[1][0]).earlier == points[1][0]
    wide, narrow = (over_time.changes(confidence=level) for level in (0.999, 0.5))
    assert all(a.interval[0] < b.interval[0] for a, b in zip(wide, narrow, strict=True))
    assert "fr" in str(last) and "→" in str(last)
    for since in (MONDAY - dt.timedelta(days=1), points[2][0], dt.datetime(2026, 3, 3)):
        with pytest.raises(InvalidSetting, match="since"):
            over_time.changes(since=since)
    with pytest.raises(InvalidSetting, match="two releases"):
        OverTime(points[:1]).changes()


def test_what_appeared_and_vanished_has_its_caveat():
    before = histogram({"fr": 5000, "old": 3000, "tiny": 3})
    after = histogram({"fr": 5000, "new": 3000})
    found = OverTime([(MONDAY, before), (TUESDAY, after)]).changes()
    assert [each.bucket for each in found.appeared] == ["new"]
    assert [each.bucket for each in found.vanished] == ["old"]
    assert all(each.certain for each in (*found.appeared, *found.vanished))
    most = found.appeared[0].unseen_upper
    assert PLAN.sees(most + 1) >= 0.95 > PLAN.sees(most)
    near = OneSided(Reading(("x",), "x", 110.0, 70, 150), most)
    assert not near.certain
    unknown = OneSided(Reading(("x",), "x", 5000.0, 4800, 5200), None)
    assert not unknown.certain
    text = str(found)
    assert "new appeared" in text and f"at most {most}" in text and "chance" not in text


def false_alarms(rate: float, threshold: int, sizes: range, unseen_upper: int) -> float:
    """The highest exact probability that a bucket that did not change is listed as certain to have appeared."""
    counts = np.arange(threshold, sizes.stop)
    lower, _ = intervals(rate, threshold, counts, CONFIDENCE)
    units = np.array(sizes)
    seen = stats.binom.pmf(counts[lower > unseen_upper], units[:, None], rate).sum(axis=1)
    return float((stats.binom.cdf(threshold - 1, units, rate) * seen).max())


def test_a_bucket_that_did_not_change_is_seldom_certain():
    for rate, threshold in ((0.1, 20), (0.3, 10), (0.8, 5)):
        most = smallest_visible(rate, threshold, CONFIDENCE) - 1
        sizes = range(threshold, 3 * most)
        assert false_alarms(rate, threshold, sizes, most) <= 1 - CONFIDENCE
        assert false_alarms(rate, threshold, sizes, threshold) > 1 - CONFIDENCE  # it can fail


def test_a_release_that_nobody_completed_bounds_nothing():
    from thresher.mechanism import Response
    from thresher.protocol.rates import share

    rates, plan = share(PLAN)
    silent = Release.of([], [], plan, private=True, response=Response(10, 0, 0, rates))
    assert silent.unseen_upper() is None
    table = Release.of([], [], plan, private=True)
    assert table.unseen_upper(0.95) == plan.smallest_visible(0.95) - 1
    assert table.unseen_upper(0.95, rounds=5) == plan.smallest_visible(0.99) - 1

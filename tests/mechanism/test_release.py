"""A release holds what survived and nothing else, says what it guarantees, and can be stored and checked."""

import copy
import datetime as dt
import json
import pickle
import re
from dataclasses import replace

import numpy as np
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thresher as th
from thresher.errors import InvalidFormat, InvalidSetting, MissingExtra, NotReleased, VerificationFailed
from thresher.mechanism import Release, sample_and_threshold, thin, threshold
from thresher.testing import SeededRandomness

PLAN = th.plan(epsilon=1.0, delta=1e-8)
TRUTH = {"fr": 10_000, "de": 500, "rare": 3, "it": 160, "pt": 2_000, "two words": 900}


@pytest.fixture
def release() -> Release:
    return sample_and_threshold(TRUTH, PLAN, columns=("country",))


def test_rows_are_sorted_by_count_then_bucket_and_reach_the_threshold(release):
    counts = release.counts
    assert np.all(counts >= PLAN.threshold)
    assert list(counts) == sorted(counts, reverse=True)
    tied = Release.of(["b", "c", "a"], [50, 60, 50], PLAN, private=True)
    assert tied.buckets == ["c", "a", "b"]


def test_columns_follow_from_the_count(release):
    table = release.to_arrow()
    assert table.column_names == ["country", "count", "estimate", "lower", "upper"]
    np.testing.assert_allclose(release.estimates, release.counts / PLAN.sampling_rate)
    row = release["fr"]
    assert row.interval == PLAN.interval(row.count)
    assert row.interval[0] <= row.estimate <= row.interval[1]
    assert release.adjacency == "replace"
    assert release.guarantee == PLAN.guarantee


def computed(release: Release) -> bool:
    """Whether the release has its table, with all numbers, already."""
    try:
        Release.table.__get__(release)  # the slot itself, which computes nothing
    except AttributeError:
        return False
    return True


def test_intervals_are_computed_when_somebody_looks_and_equal_those_computed_at_once(release):
    before = (release.buckets, release.counts.tolist(), release.estimates.tolist(), release.columns, len(release))
    assert repr(release) and "fr" in release and not computed(release)
    lower, upper = PLAN.intervals(release.counts)
    assert release.intervals.tolist() == np.column_stack([lower, upper]).tolist()
    assert computed(release)
    assert before == (
        *(
            release.buckets,
            release.counts.tolist(),
            release.table["estimate"].to_pylist(),
            release.columns,
            len(release),
        ),
    )
    at_once = Release(release.table, PLAN, True)
    assert computed(at_once) and at_once.to_json() == release.to_json()
    release.verify()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each)), replace])
def test_copies_of_a_release_that_nobody_looked_at_are_the_same(release, copied):
    twin = copied(release)
    assert twin.to_json() == release.to_json()
    assert twin.verify() == release.guarantee


def test_a_changed_copy_does_not_remember_the_rows_before_the_change(release):
    part = replace(release, table=release.table.slice(0, 2))
    assert len(part) == 2 and part.buckets == release.buckets[:2]
    wrong = release.table.set_column(2, "estimate", pa.array([1.0] * len(release)))
    forged = replace(release, table=wrong)
    assert forged.estimates.tolist() == [1.0] * len(release)  # as it says, so that `verify` can find it
    with pytest.raises(VerificationFailed):
        forged.verify()


@pytest.mark.parametrize("name", ["estimate", "lower", "upper"])
def test_counts_alone_do_not_hide_a_bucket_with_the_name_of_a_number(name):
    with pytest.raises(InvalidSetting):
        Release(pa.table({name: ["a"], "count": [PLAN.threshold]}), PLAN, True)


def test_a_release_has_no_other_attributes(release):
    with pytest.raises(AttributeError):
        _ = release.tally


def test_conversions_agree(release):
    frame = release.to_pandas()
    assert list(frame["country"]) == release.buckets == release.to_polars()["country"].to_list()
    assert release.to_dict()["fr"] == release["fr"].estimate
    assert [row.bucket for row in release] == release.buckets
    assert len(release) == len(frame)
    assert isinstance(release.to_polars(), polars.DataFrame)


def test_a_bucket_that_is_not_there(release):
    with pytest.raises(NotReleased) as caught:
        release["rare"]
    assert isinstance(caught.value, KeyError)
    assert "rare" not in str(caught.value)
    assert "rare" not in release
    assert "fr" in release
    assert "below the threshold" in caught.value.hint


def test_a_bucket_asked_for_by_another_type_is_told_apart_from_one_that_was_dropped(release):
    for asked, named in ((42, "number"), (dt.date(2024, 1, 1), "date"), (("fr", 1), "text, number")):
        with pytest.raises(NotReleased) as caught:
            release[asked]
        assert f"buckets are text, and {named} was asked for" in caught.value.hint
        assert "threshold" not in caught.value.hint


def test_nothing_below_the_threshold_leaves(release):
    """A canary held by three people appears in no form of the release."""
    shown = " ".join(
        [
            repr(release),
            str(release),
            release.to_json(),
            release._repr_html_(),
            str(release.certificate()),
            str(release.table),
        ]
    )
    assert "rare" not in shown
    assert not re.search(r"dropped|sample.?size|total", shown)


def test_an_empty_release_is_an_answer():
    empty = sample_and_threshold({"a": 1, "b": 2}, PLAN)
    assert len(empty) == 0
    assert empty.verify() == PLAN.guarantee
    assert Release.from_json(empty.to_json()).table.equals(empty.table)
    assert len(sample_and_threshold({}, PLAN)) == 0


def test_thin_and_threshold_are_the_two_steps():
    sampled = thin([1000, 10, 0], PLAN)
    assert list(threshold(np.array([24, 25, 26]), PLAN)) == [False, True, True]
    assert np.all(sampled <= [1000, 10, 0])


@pytest.mark.parametrize(
    "buckets",
    [
        [1, 2, 3],
        [1.5, -2.0, float("inf")],
        [True, False],
        [dt.date(2024, 2, 29), dt.date(1969, 7, 20)],
        [dt.datetime(2024, 2, 29, 12, 0, 0, 5), dt.datetime(1900, 1, 1)],
        ["", "a\nb", 'quo"te', "é", "🎉", "שלום", "<b>"],
        pa.array(["x", "y"]).dictionary_encode(),
        pa.array([1, 2], pa.uint8()),
        pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("ns", "Europe/Paris")),
    ],
)
def test_every_type_survives_storage(buckets, tmp_path):
    made = Release.of(buckets, [100] * len(buckets), PLAN, private=True)
    made.save(tmp_path / "release.json")
    again = Release.load(tmp_path / "release.json")
    assert again.table.equals(made.table)
    assert again.plan == PLAN
    assert again.verify() == PLAN.guarantee
    assert list(tmp_path.iterdir()) == [tmp_path / "release.json"]


def test_several_columns_make_one_bucket():
    made = Release.of([("fr", 1), ("de", 2)], [30, 40], PLAN, private=True, columns=("country", "os"))
    assert made.buckets == [("de", 2), ("fr", 1)]
    assert made["fr", 1].count == 30
    assert Release.from_json(made.to_json()).buckets == made.buckets


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(), st.integers(PLAN.threshold, 10**9), max_size=20))
@pytest.mark.slow
def test_storage_round_trips(counts):
    made = Release.of(pa.array(list(counts), pa.string()), list(counts.values()), PLAN, private=True)
    again = Release.from_json(made.to_json())
    assert again.table.equals(made.table)
    assert again.verify() == made.guarantee


# Verification.


def altered(release: Release, change) -> str:
    content = json.loads(release.to_json())
    change(content)
    return json.dumps(content)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["rows"][1].__setitem__(0, 999_999),
        lambda content: content["rows"][0].__setitem__(0, "forged"),
        lambda content: content["certificate"].update(epsilon=0.5),
        lambda content: content["certificate"].update(digest="sha256:0"),
        lambda content: content["plan"].update(threshold=10),
        lambda content: content["plan"].update(delta=1e-12),
        lambda content: content.update(confidence=0.5),
    ],
)
def test_an_altered_release_does_not_load(release, change):
    with pytest.raises(VerificationFailed):
        Release.from_json(altered(release, change))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": "thresher-release", "version": 1}',
        '{"format": "thresher-release", "version": 99}',
        '{"format": "other"}',
    ],
)
def test_what_is_not_a_release_is_refused(text):
    with pytest.raises(InvalidFormat):
        Release.from_json(text)


def test_missing_and_binary_files_are_clear_errors(tmp_path):
    with pytest.raises(InvalidFormat, match="cannot be read"):
        Release.load(tmp_path / "none.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidFormat):
        Release.load(tmp_path / "binary")


def test_verify_recomputes_the_guarantee_from_rate_and_threshold():
    boast = th.Plan(PLAN.sampling_rate, PLAN.threshold - 5, 1.0, 1e-8)
    with pytest.raises(VerificationFailed, match="guarantee delta"):
        Release.of(["a"], [100], boast, private=True).verify()


def test_verify_finds_rows_that_do_not_follow_from_their_counts(release):
    shifted = release.table.set_column(2, "estimate", pa.array(release.estimates + 1))
    with pytest.raises(VerificationFailed, match="does not follow"):
        Release(shifted, PLAN, True).verify()


def test_a_seeded_release_guarantees_nothing_and_says_so(tmp_path):
    seeded = sample_and_threshold(TRUTH, PLAN, SeededRandomness(1))
    assert seeded.private is False
    assert "not private" in repr(seeded)
    assert seeded.certificate()["private"] is False
    for attempt in (lambda: seeded.guarantee, seeded.verify):
        with pytest.raises(VerificationFailed, match="seeded"):
            attempt()
    seeded.save(tmp_path / "seeded.json")
    assert Release.load(tmp_path / "seeded.json").private is False
    same = sample_and_threshold(TRUTH, PLAN, SeededRandomness(1))
    assert same.table.equals(seeded.table)


# Bad input.


def test_counts_below_the_threshold_cannot_be_made_into_a_release():
    with pytest.raises(InvalidSetting, match="at least the threshold"):
        Release.of(["a"], [PLAN.threshold - 1], PLAN, private=True)


def test_reserved_columns_and_lengths():
    with pytest.raises(InvalidSetting, match="must not be called count"):
        Release.of(["a"], [100], PLAN, private=True, columns=("count",))
    with pytest.raises(InvalidSetting, match="2 entries for 1 buckets"):
        sample_and_threshold((["a"], [100, 200]), PLAN)


@pytest.mark.parametrize("buckets", [[b"bytes"], [object()], [[1, 2]], ["a", 1]])
def test_buckets_of_other_types_are_refused_without_showing_them(buckets):
    with pytest.raises(InvalidSetting, match="cannot be released") as caught:
        Release.of(buckets, [100] * len(buckets), PLAN, private=True)
    assert "bytes" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_missing_extra_says_how_to_get_it(release, monkeypatch):
    import importlib

    real = importlib.import_module

    def without(name, *rest):
        if name in ("polars", "pandas", "altair", "vl_convert"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    for attempt, extra in ((release.to_polars, "polars"), (release.to_pandas, "pandas"), (release.plot, "plot")):
        with pytest.raises(MissingExtra, match=re.escape(f"thresher[{extra}]")):
            attempt()


# Pictures.


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_plot_writes_a_picture(release, tmp_path, suffix):
    path = tmp_path / f"histogram.{suffix}"
    release.plot(path)
    content = path.read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<svg", "html": b"<!DOCTYPE html>"}[suffix]
    assert content.lstrip().startswith(start)
    if suffix == "svg":
        assert b"fr" in content
        assert b"rare" not in content


@pytest.mark.slow
def test_plot_names_the_confidence_of_its_intervals():
    drawn = Release.of(["a"], [5_000], PLAN, private=False, confidence=0.99).plot().to_dict()
    assert "99 % interval" in str(drawn)


def test_plot_refuses_other_files(release, tmp_path):
    with pytest.raises(InvalidSetting, match=r"\.png"):
        release.plot(tmp_path / "histogram.docx")


def test_html_shows_values_as_text():
    made = Release.of(["<script>alert(1)</script>"], [100], PLAN, private=True)
    assert "<script>" not in made._repr_html_()
    assert "&lt;script&gt;" in made._repr_html_()

"""Which values of a device are sent where several count: distinct buckets of the round, chosen before any coin."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import secrets
from collections import Counter

import pytest
from device_cases import ALWAYS, Tosses, configuration, device, opened, sealed, shown, take
from scipy import stats

from thresher.device import chosen_values
from thresher.device.chosen_values import MOST_ELEMENTS, chosen, plaintexts
from thresher.device.policy import Policy
from thresher.privacy.plans import Plan
from thresher.privacy.rates import ONE
from thresher.protocol.pieces import piece_size, pieces
from thresher.protocol.plaintext import DECOY, decode_payload, payload
from thresher.questions import Among, Between, Bins, Cells, Dates, Filtered, Joint, Prefixes, Values, Where

ALPHA = 1e-9  # false alarm per check
WORDS = Values(("word",))
SIZE = 64
THREE = Plan(1 / 16, 14, 1.0, 1e-8, "replace", 1, 3)


def numbers(contributions: int) -> list[int]:
    return [secrets.randbits(1024) for _ in range(contributions + 1)]


def sent(question, held, contributions: int = 3) -> list:
    """The buckets that are sent, decoys as None."""
    values = held if isinstance(held, tuple) and len(question.columns) > 1 else (held,)
    found = plaintexts(question, values, SIZE, numbers(contributions))
    assert len(found) == contributions
    return [None if each is None else decode_payload(payload(each), question) for each in found]


# The choice


def test_all_ordered_choices_are_equally_likely():
    drawn = Counter(tuple(chosen(5, numbers(3)[:3])) for _ in range(12_000))
    assert set(drawn) == set(itertools.permutations(range(5), 3))
    assert stats.chisquare(list(drawn.values())).pvalue > ALPHA
    biased = Counter(tuple(sorted(secrets.choice(range(5)) for _ in range(3))) for _ in range(12_000))
    assert stats.chisquare(list(biased.values())).pvalue < ALPHA  # chosen with replacement, the check fails


def test_what_is_missing_is_shuffled_among_what_is_there():
    drawn = Counter(tuple(chosen(1, numbers(3)[:3])) for _ in range(9_000))
    assert set(drawn) == {(0, None, None), (None, 0, None), (None, None, 0)}
    assert stats.chisquare(list(drawn.values())).pvalue > ALPHA
    assert chosen(0, numbers(4)[:4]) == [None] * 4


def test_a_choice_among_very_many_is_made_without_listing_them():
    found = chosen(1000**32, numbers(10)[:10])
    assert len(set(found)) == 10 and max(found) > 1000**30


# Buckets of the round


def test_equal_buckets_are_one():
    assert Counter(sent(WORDS, ["a", "a", "b", "a"])) == {"a": 1, "b": 1, None: 1}
    assert Counter(sent(WORDS, [1, "1", True, 1.0])) == {"1": 1, "true": 1, None: 1}
    assert Counter(sent(WORDS, ["e\u0301", "\u00e9", "\u00e9\x00"])) == {"\u00e9": 1, None: 2}
    assert Counter(sent(Prefixes("word", 2), ["fra", "frb", "de"])) == {"fr": 1, "de": 1, None: 1}
    assert Counter(sent(Bins("age", (0, 10, 20)), [1, 2, 9, 11, None, -5, "x"])) == {0: 1, 10: 1, None: 1}
    assert Counter(sent(Bins("age", (-1.0, -0.0, 1.0)), [0.0, -0.0, 0.5])) == {0.0: 1, None: 2}
    assert Counter(sent(Cells("age", 0, 10, 5), [1, 1.5, 9])) == {0: 1, 4: 1, None: 1}
    days = [dt.date(2026, 1, 5), dt.date(2026, 1, 7)]
    assert Counter(sent(Dates("day", "week"), days)) == {dt.date(2026, 1, 5): 1, None: 2}


def test_one_value_is_a_list_of_one():
    assert Counter(sent(WORDS, "hello")) == {"hello": 1, None: 2}
    assert sent(WORDS, None) == sent(WORDS, []) == sent(WORDS, ()) == [None] * 3


def test_what_cannot_be_sent_takes_no_place():
    held = ["x" * 100, "\ud800", None, float("nan"), "a", "b", "c"]
    for _ in range(20):
        assert set(sent(WORDS, held)) == {"a", "b", "c"}


def test_an_element_that_raises_has_no_bucket():
    class Broken:
        def __float__(self) -> float:
            raise RuntimeError("secret")

        def __str__(self) -> str:
            raise RuntimeError("secret")

    assert Counter(sent(Cells("age", 0, 10, 5), [Broken(), 3])) == {1: 1, None: 2}


def test_combinations_of_several_lists_are_chosen_without_making_all_of_them():
    question = Joint((Values(("word",)), Bins("age", (0, 10, 20))))
    held = ["a", "b", "a"], [1, 2, 15]
    drawn = Counter(frozenset(sent(question, held, 3)) for _ in range(2_000))
    every = [("a", 0), ("a", 10), ("b", 0), ("b", 10)]
    assert set(drawn) == {frozenset(three) for three in itertools.combinations(every, 3)}
    assert stats.chisquare(list(drawn.values())).pvalue > ALPHA
    assert sent(question, (["a"], []), 3) == [None] * 3
    assert Counter(sent(question, ("a", 5), 2)) == {("a", 0): 1, None: 1}
    many = Values(tuple(f"c{number}" for number in range(4)))
    found = sent(many, tuple([f"v{each}" for each in range(300)] for _ in many.columns), 5)
    assert len(set(found)) == 5 and None not in found


def test_of_a_long_list_a_bounded_number_of_elements_is_looked_at(monkeypatch):
    looked = []
    whole = chosen_values._encoded

    def counted(part, values, size):
        looked.append(1)
        return whole(part, values, size)

    monkeypatch.setattr(chosen_values, "_encoded", counted)
    held = [f"w{each}" for each in range(20 * MOST_ELEMENTS)]
    seen = {each for _ in range(20) for each in sent(WORDS, held, 10)}
    assert len(looked) == 20 * MOST_ELEMENTS
    places = sorted(int(each[1:]) // MOST_ELEMENTS for each in seen)
    assert len(set(places)) > 5  # anywhere in the list, and not at its beginning alone


# Sealing


def round_of_three(**changes):
    return configuration(plan=THREE, **changes)


@pytest.mark.parametrize(
    "holds",
    ["a", ["a"], ["a", "b", "c"], list("abcdefgh"), [], None, ["a", "a"], lambda: ["a"], list(map(str, range(5000)))],
    ids=["one", "a list of one", "three", "eight", "empty", "nothing", "equal", "a function", "many"],
)
def test_the_same_number_of_bytes_and_bits_whatever_is_held(holds):
    tosses = Tosses()
    core = device({"word": holds}, randomness=tosses, policy=Policy())
    asked = round_of_three(**ALWAYS)
    [name] = take(core, shown(asked))
    assert len(sealed(core, name)) == 3 * piece_size(64)
    assert tosses.drawn == 4  # a number for each contribution, and one for the place where a long list begins


@pytest.mark.slow
def test_each_value_has_a_coin_of_its_own():
    """Of three values that all devices hold, the numbers that are kept have the law of three independent coins."""
    plan = Plan(0.5, 40, 4.0, 1e-5, "replace", 1, 3)
    kept = Counter()
    policy = Policy(max_epsilon=50, max_delta=0.5, period_epsilon=5_000, period_delta=0.9)
    for number in range(1_500):
        core = device({"word": ["a", "b", "c"]}, policy=policy)
        asked = configuration(f"round-{number}", plan=plan)
        [name] = take(core, shown(asked))
        found = [opened(piece, asked) for piece in pieces(sealed(core, name), piece_size(64))]
        kept[sum(each is not DECOY for each in found)] += 1
    assert asked.device_rate == ONE // 2
    expected = [1_500 * math.comb(3, heads) / 8 for heads in range(4)]
    assert stats.chisquare([kept[heads] for heads in range(4)], expected).pvalue > ALPHA
    one_coin = [750, 0, 0, 750]
    assert stats.chisquare(one_coin, expected).pvalue < ALPHA


# Filters


class Looked(Between):
    """A condition that counts the values it looks at."""

    __slots__ = ("seen",)

    def holds(self, value: object) -> bool:
        self.seen.append(value)
        return super().holds(value)


def filtered(column: str) -> tuple[Filtered, list]:
    condition = Looked(column, 0, 10)
    object.__setattr__(condition, "seen", [])
    return Filtered(WORDS, Where((condition,))), condition.seen


@pytest.mark.parametrize("contributions", [1, 3])
def test_a_filter_looks_at_a_bounded_number_of_elements(contributions):
    question, seen = filtered("size")
    drawn = [secrets.randbits(1024) for _ in range(contributions + (contributions > 1))]
    found = plaintexts(question, ("a", [5] * (5 * MOST_ELEMENTS)), SIZE, drawn)
    assert MOST_ELEMENTS <= len(seen) <= MOST_ELEMENTS + 1  # and once more, for the element that was chosen
    assert sum(each is not None for each in found) == 1
    question, seen = filtered("word")
    places = set()
    for _ in range(20):
        drawn = [secrets.randbits(1024) for _ in drawn]
        plaintexts(question, (list(range(20 * MOST_ELEMENTS)),), SIZE, drawn)
        places.add(seen[0] // MOST_ELEMENTS)
        assert MOST_ELEMENTS <= len(seen) <= MOST_ELEMENTS + 1
        seen.clear()
    assert len(places) > 5  # anywhere in the list; false alarm below 1e-9


def test_of_a_short_list_a_filter_leaves_all_that_satisfy_it():
    question = Filtered(WORDS, Where((Among("word", ("a", "b", "c")),)))
    held = ["x", "a", "b", "y", "c", "z"]
    one = Counter(plaintexts(question, (held,), SIZE, [secrets.randbits(256)])[0] for _ in range(3_000))
    assert {decode_payload(payload(each), question) for each in one} == {"a", "b", "c"}
    assert stats.chisquare(list(one.values())).pvalue > ALPHA
    assert stats.chisquare([500, 500, 2_000]).pvalue < ALPHA  # the check can fail
    for number in range(12):  # the very element that the number names
        [sent_piece] = plaintexts(question, (held,), SIZE, [number])
        assert decode_payload(payload(sent_piece), question) == "abc"[number % 3]


def test_listed_values_are_looked_up_in_a_set():
    condition = Among("word", ("b", "a", "b"))
    object.__setattr__(condition, "values", ())  # the tuple, which would be searched from its start, is not read
    assert condition.holds("a") and condition.holds("b") and not condition.holds("c")
    assert Among("word", ("a",)) == Among("word", ("a", "a")) and "_listed" not in repr(condition)

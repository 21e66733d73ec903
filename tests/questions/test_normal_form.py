"""Text is normalised in a time that its length bounds: 30 marks in a row, and no more."""

from __future__ import annotations

import re
import unicodedata

import pytest

from thresher.questions import Prefixes, Values, normal
from thresher.questions.normal_form import MARK, MOST_MARKS, composed
from thresher.questions.spelling import as_text

MOST = "a" + "\u0301\u0323" * (MOST_MARKS // 2)
TOO_MANY = MOST + "\u0301"


@pytest.mark.parametrize("text", ["", "Paris", "e\u0301", "\uac00", "\u1100\u1161", MOST, MOST * 40, "\u0301" * 30])
def test_text_with_up_to_thirty_marks_in_a_row_is_normalised(text: str) -> None:
    assert composed(text) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("before", [0, 1, 14, 15, 16, 1000])
@pytest.mark.parametrize("mark", ["\u0301", "\u0f73", "\U0001e94a", "\u3099"])
def test_text_with_more_is_no_value(before: int, mark: str) -> None:
    text = "é" * before + mark * 31
    assert composed(text) is None
    assert normal(text) is None
    assert as_text(text) is None
    assert Values(("word",)).bucket(text) is None
    assert Values(("word", "day")).bucket((text, "Monday")) is None
    assert Prefixes("word", 3).bucket(text) is None


def test_nul_does_not_part_marks() -> None:
    assert normal("a" + "\x00\u0301" * 31) is None


@pytest.mark.slow
def test_all_marks_of_this_unicode_are_known() -> None:
    characters = (chr(point) for point in range(0x110000) if not 0xD800 <= point <= 0xDFFF)
    marks = {each for each in characters if unicodedata.combining(unicodedata.normalize("NFD", each)[0])}
    assert marks - known_marks() == set()
    # Later versions of Unicode have more, and no mark ever becomes a letter.
    assert all(unicodedata.category(each) in ("Cn", "Mn", "Mc") for each in known_marks())


def known_marks() -> set[str]:
    return set(re.findall(MARK, "".join(chr(point) for point in range(0x110000) if not 0xD800 <= point <= 0xDFFF)))


def test_many_marks_take_no_time() -> None:
    assert composed("a" + "\u0301\u0323" * 5_000_000) is None  # hours, if they were sorted
    assert len(composed("é" * 5_000_000) or "") == 5_000_000

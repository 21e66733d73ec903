"""Unicode's normal form NFC, for text of which the time is bounded by its length.

A normaliser sorts the marks that follow a letter, and most do so in a time that grows with the square of their number:
one text of 240 kB, a letter with 120,000 accents, takes seven seconds. No language writes more than a few. UAX #15
(Stream-Safe Text Format) allows 30 in a row, and so does Thresher, on every engine: text with more is no value.

The marks, Unicode's *non-starters*, are listed here as of Unicode 17, so that the rule is the same whatever version an
engine has. Also listed are the four characters that NFC replaces by marks alone.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import re
import sys
import unicodedata
from typing import Any

END = "\x00"
"""Marks, at the end of a prefix, that the text ends there. NUL cannot be typed and is removed from values."""

MOST_MARKS = 30

_MARKS = """
    300-34E 350-36F 483-487 591-5BD 5BF 5C1-5C2 5C4-5C5 5C7 610-61A 64B-65F 670 6D6-6DC 6DF-6E4 6E7-6E8 6EA-6ED 711
    730-74A 7EB-7F3 7FD 816-819 81B-823 825-827 829-82D 859-85B 897-89F 8CA-8E1 8E3-8FF 93C 94D 951-954 9BC 9CD 9FE
    A3C A4D ABC ACD B3C B4D BCD C3C C4D C55-C56 CBC CCD D3B-D3C D4D DCA E38-E3A E48-E4B EB8-EBA EC8-ECB F18-F19 F35
    F37 F39 F71-F75 F7A-F7D F80-F84 F86-F87 FC6 1037 1039-103A 108D 135D-135F 1714-1715 1734 17D2 17DD 18A9
    1939-193B 1A17-1A18 1A60 1A75-1A7C 1A7F 1AB0-1ABD 1ABF-1ADD 1AE0-1AEB 1B34 1B44 1B6B-1B73 1BAA-1BAB 1BE6
    1BF2-1BF3 1C37 1CD0-1CD2 1CD4-1CE0 1CE2-1CE8 1CED 1CF4 1CF8-1CF9 1DC0-1DFF 20D0-20DC 20E1 20E5-20F0 2CEF-2CF1
    2D7F 2DE0-2DFF 302A-302F 3099-309A A66F A674-A67D A69E-A69F A6F0-A6F1 A806 A82C A8C4 A8E0-A8F1 A92B-A92D A953
    A9B3 A9C0 AAB0 AAB2-AAB4 AAB7-AAB8 AABE-AABF AAC1 AAF6 ABED FB1E FE20-FE2F 101FD 102E0 10376-1037A 10A0D 10A0F
    10A38-10A3A 10A3F 10AE5-10AE6 10D24-10D27 10D69-10D6D 10EAB-10EAC 10EFA-10EFB 10EFD-10EFF 10F46-10F50
    10F82-10F85 11046 11070 1107F 110B9-110BA 11100-11102 11133-11134 11173 111C0 111CA 11235-11236 112E9-112EA
    1133B-1133C 1134D 11366-1136C 11370-11374 113CE-113D0 11442 11446 1145E 114C2-114C3 115BF-115C0 1163F
    116B6-116B7 1172B 11839-1183A 1193D-1193E 11943 119E0 11A34 11A47 11A99 11C3F 11D42 11D44-11D45 11D97
    11F41-11F42 1612F 16AF0-16AF4 16B30-16B36 16FF0-16FF1 1BC9E 1D165-1D169 1D16D-1D172 1D17B-1D182 1D185-1D18B
    1D1AA-1D1AD 1D242-1D244 1E000-1E006 1E008-1E018 1E01B-1E021 1E023-1E024 1E026-1E02A 1E08F 1E130-1E136 1E2AE
    1E2EC-1E2EF 1E4EC-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1E8D0-1E8D6 1E944-1E94A
"""


def mark_ranges() -> list[tuple[int, int]]:
    """The first and the last code point of every range of marks, in order."""
    ends = [[int(end, 16) for end in part.split("-")] for part in _MARKS.split()]
    return [(each[0], each[-1]) for each in ends]


def _character_class() -> str:
    ends = [dict.fromkeys(map(chr, ends)) for ends in mark_ranges()]
    return "[" + "".join(map("-".join, ends)) + "]"


MARK = _character_class()
"""A regular expression for one mark; the same for Python, DuckDB, Polars, Java and PostgreSQL."""

TOO_MANY_MARKS = f"{MARK}{{{MOST_MARKS + 1}}}"
"""A regular expression that is found in text that is no value."""

LEAST_BYTES = 2 * (MOST_MARKS + 1)
"""Text of fewer bytes cannot have too many."""

NORMALISED_TO_ASCII = {"\u037e": ";", "\u1fef": "`", "\u212a": "K"}
"""The only characters outside of ASCII that NFC makes ASCII. Any other text with an ASCII form is ASCII itself."""

_ONE, _TOO_MANY = re.compile(MARK), re.compile(TOO_MANY_MARKS)
_STEP = MOST_MARKS // 2


def composed(text: str) -> str | None:
    """Text in NFC; None where it has more than `MOST_MARKS` marks in a row, or a surrogate, which no UTF-8 can write.

    Guarantee: takes a time that grows with the text's length alone.
    """
    if text.isascii():
        return text
    try:
        str.encode(text)  # not `text.encode()`: a subclass of `str` may have a method of its own
    except UnicodeEncodeError:
        return None
    # A row of too many holds a character of every step; to look at those alone is quicker.
    if _ONE.search(text[::_STEP]) and _TOO_MANY.search(text):
        return None
    return unicodedata.normalize("NFC", text)


def spellings(text: str, most: int) -> set[str] | None:
    """All texts that NFC makes this one of, `text` in NFC among them; None where they are more than `most`.

    Canonical equivalence is what two steps generate: a character and its decomposition are the same, and neighbouring
    marks of different classes may change places.
    """
    start = unicodedata.normalize("NFC", text)
    found, waiting = {start}, [start]
    while waiting:
        new = set(_neighbours(waiting.pop())) - found
        found |= new
        waiting.extend(new)
        if len(found) > most:
            return None
    return {each for each in found if composed(each) == start}


def _neighbours(text: str) -> list[str]:
    """The texts that are one step away."""
    parted, joined = _decompositions()
    steps = []  # places, each with how many characters another text replaces there
    for place, character in enumerate(text):
        if character in parted:
            steps.append((place, 1, parted[character]))
        for length in (1, 2):
            steps += [(place, length, whole) for whole in joined.get(text[place : place + length], ())]
        classes = [unicodedata.combining(each) for each in text[place : place + 2]]
        if len(classes) == 2 and all(classes) and classes[0] != classes[1]:
            steps.append((place, 2, text[place + 1] + character))
    return [text[:place] + other + text[place + length :] for place, length, other in steps]


@functools.cache
def _decompositions() -> tuple[dict[str, str], dict[str, list[str]]]:
    """What single characters decompose to in one step, and the characters that decompose to a text."""
    parted = {}
    for character in map(chr, range(sys.maxunicode + 1)):
        if "가" <= character <= "힣":  # listed nowhere: computed
            syllable = unicodedata.normalize("NFD", character)
            parted[character] = unicodedata.normalize("NFC", syllable[:2]) + syllable[2] if syllable[2:] else syllable
        elif (listed := unicodedata.decomposition(character)) and not listed.startswith("<"):
            parted[character] = "".join(chr(int(code, 16)) for code in listed.split())
    joined: dict[str, list[str]] = {}
    for character, parts in parted.items():
        joined.setdefault(parts, []).append(character)
    return parted, joined


def normal(value: Any) -> Any:
    """A value in the form in which it is counted: text in NFC without NUL; None and NaN are "no value".

    Text with more than `MOST_MARKS` combining marks in a row, or with a surrogate, is no value either. NUL is removed
    first, since removing it may bring characters together that compose. A device reads a time with a zone on that
    zone's wall clock, which is the local time of whoever holds it. A table reads such times on the wall clock of one
    zone for all units.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return composed(value.replace(END, ""))
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value

"""How numbers and labels are written, in pictures and on the console's pages."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections import Counter
from collections.abc import Sequence


def count(value: float | None) -> str:
    """A number of people or devices: whole, with thousands separated."""
    return "–" if value is None or math.isnan(value) else f"{value:,.0f}"


def short(value: float) -> str:
    """A number in three digits and a unit where it is large: 950, 12.3k, 4M."""
    for size, unit, scale in ((1e9, "bn", 1e9), (1e6, "M", 1e6), (1e4, "k", 1e3)):
        if abs(value) >= size:
            return f"{value / scale:.3g}{unit}"
    return f"{value:,.6g}"


def amount(value: float | None) -> str:
    """An epsilon, a delta or a measured value, in as few digits as say it: 1, 0.25, 1e-8, 1,234.5."""
    if value is None or math.isnan(value):
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1e15:
        text = f"{value:,.4f}" if abs(value) < 10 else f"{value:,.2f}" if abs(value) < 10_000 else f"{value:,.0f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def percent(value: float | None) -> str:
    """A part of a whole."""
    if value is None or math.isnan(value):
        return "–"
    if 0 < value < 0.0001:
        return "< 0.01 %"
    if 0.9999 < value < 1:
        return "> 99.99 %"
    text = f"{100 * value:.{1 if value >= 0.1 else 2}f}"
    return f"{text.rstrip('0').rstrip('.')} %"


def printable(text: object) -> str:
    """A value as one line: control characters, and marks that reorder the text around them, are made visible.

    Joiners stay, because Persian, Indic scripts and emoji are written with them.
    """
    return "".join(character if _shows(character) else "\ufffd" for character in str(text))


def shortened(text: str, longest: int) -> str:
    """A label in at most this many characters; one that was cut ends in an ellipsis."""
    shown = printable(text)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def told_apart(labels: Sequence[str], longest: int) -> list[str]:
    """Labels in at most this many characters each; those that would be cut to one text are cut in their middle."""
    cut = [shortened(label, longest) for label in labels]
    seen = Counter(cut)
    return [
        short if seen[short] == 1 or not short.endswith("…") else fitted(label, longest).rstrip()
        for label, short in zip(labels, cut, strict=True)
    ]


def fitted(text: str, width: int) -> str:
    """A label that takes exactly this many columns of a terminal; one that is too long is cut in its middle."""
    shown = printable(text)
    if _columns(shown) > width:
        end = _first_columns(shown[::-1], width // 2)[::-1]
        shown = f"{_first_columns(shown, width - 1 - _columns(end))}…{end}"
    return shown + " " * (width - _columns(shown))


def _first_columns(text: str, width: int) -> str:
    """As much of a text as takes at most so many columns."""
    ends = itertools.takewhile(lambda taken: taken <= width, itertools.accumulate(map(_columns, text)))
    return text[: sum(1 for _ in ends)]


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes: two for a character of East Asian scripts, none for marks."""
    marks = sum(unicodedata.category(character) in ("Mn", "Me", "Cf") for character in text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) - marks + wide


def _shows(character: str) -> bool:
    return character.isprintable() or character in "\u200c\u200d" or unicodedata.category(character) == "Zs"

"""The part of a public range that a picture of a distribution shows: where the data is.

A window is read off the released distribution, so it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from thresher.charts.numbers import amount

TAIL = 0.005
"""The part of all units at either end that need not be in the picture."""
_NEARLY_ALL = 0.8
"""A window that has this much of the public range shows all of it."""


class Window(NamedTuple):
    """From where to where a picture goes; `public` is the whole range where that is more, otherwise None."""

    low: float
    high: float
    public: tuple[float, float] | None = None

    def in_words(self, marks: Iterable[tuple[float, float, float, float]] = ()) -> str:
        """What the picture shows, and whether intervals of its marks (`Answer.marks`) go on beyond it.

        Edge cases: empty where it shows the whole range.
        """
        if self.public is None:
            return ""
        low, high, least, most = (amount(end) for end in (self.low, self.high, *self.public))
        shown = f"Shown: {low} to {high}, where the data is, of the public range {least} to {most}."
        beyond = any(left < self.low or right > self.high for _, _, left, right in marks)
        return f"{shown} An interval that reaches the edge goes on beyond it." if beyond else shown


def window_of(
    values: Sequence[float], low: float, high: float, public: tuple[float, float], intervals: Sequence[float] = ()
) -> Window:
    """The window of a picture that goes at most from `low` to `high`, with round ends.

    It has all these values in it, and the ends of intervals as far as they do not make it more than twice as wide.
    """
    first, last = (min(max(end, low), high) for end in (min(values), max(values)))
    wide = (last - first) or (high - low) / 100
    first = min([first, *(max(end, first - wide / 2, low) for end in intervals)])
    last = max([last, *(min(end, last + wide / 2, high) for end in intervals)])
    step = 10.0 ** math.floor(math.log10(wide / 4))
    start, stop = max(math.floor(first / step) * step, low), min(math.ceil(last / step) * step, high)
    if not start < stop:  # all of it is at one round number
        start, stop = max(start - step, low), min(stop + step, high)
    return Window(low, high) if stop - start >= _NEARLY_ALL * (high - low) else Window(start, stop, public)


def common_window(windows: Sequence[Window]) -> Window | None:
    """The window of several pictures with the same axis; None without any."""
    if not windows:
        return None
    public = None if any(window.public is None for window in windows) else windows[0].public
    return Window(min(window.low for window in windows), max(window.high for window in windows), public)

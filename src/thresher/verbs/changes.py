"""What changed between two releases of a series: post-processing of what was released, which costs nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from thresher.charts.calendar import minute
from thresher.charts.numbers import amount, count, percent, printable
from thresher.mechanism.tabular import Tabular
from thresher.privacy.differences import paired_levels
from thresher.verbs.readings import Reading, Readings

if TYPE_CHECKING:
    import pyarrow as pa

Ends = tuple[float | None, float | None]
Read = Callable[[float], Readings]
"""Reads an answer at a confidence."""
Dated = tuple[dt.datetime, Read]
"""A date, and its answer."""


@dataclass(frozen=True, slots=True)
class Change:
    """How much one number has changed, for a bucket that both releases have.

    Guarantee: for every pair of true numbers, given that both releases have the bucket, `interval` contains the true
    change, and at the same time `relative_interval` the true relative change, with probability at least the stated
    confidence. See `thresher.privacy.differences` for the proof.
    Edge cases: an interval is (None, None) where the verb states none. A relative change is None where the earlier
    number may be 0 or negative.
    """

    before: Reading
    after: Reading
    interval: Ends
    relative_interval: Ends

    @property
    def bucket(self) -> Any:
        """Which number it is."""
        return self.after.bucket

    @property
    def change(self) -> float:
        """The later estimate minus the earlier one; NaN where one of them is not known."""
        return self.after.estimate - self.before.estimate

    @property
    def relative(self) -> float | None:
        """The change as a part of the earlier estimate."""
        return None if self.relative_interval[0] is None else self.change / self.before.estimate

    @property
    def changed(self) -> bool | None:
        """Whether no change lies outside the interval; None where there is no interval."""
        lower, upper = self.interval
        return None if lower is None or upper is None else not lower <= 0 <= upper


@dataclass(frozen=True, slots=True)
class OneSided:
    """A bucket that only one of the two releases has.

    It appeared or vanished *above the threshold*. That alone says little: a bucket near the threshold comes and goes
    by chance. `unseen_upper` is how many units it may have had at most when it was not released; a larger bucket would
    have been released with at least the stated confidence. None means that there is no such bound.

    Guarantee: a bucket that did not grow (or shrink) is listed as `certain` with probability at most 1 − confidence.
    *Proof.* Say it appeared, and that its true number fell from k to m ≤ k. If k is above `unseen_upper`, the earlier
    release missed it with probability at most 1 − confidence. If not, `certain` says m ≤ k < lower, and the interval's
    lower end is above m with probability at most (1 − confidence)/2, given release. ∎
    """

    reading: Reading
    unseen_upper: int | None

    @property
    def bucket(self) -> Any:
        """Which bucket it is."""
        return self.reading.bucket

    @property
    def certain(self) -> bool:
        """Whether chance alone does not explain it: the interval lies above `unseen_upper`."""
        lower = self.reading.lower
        return lower is not None and self.unseen_upper is not None and lower > self.unseen_upper


class _Box(NamedTuple):
    """One of the rectangles that together contain both numbers: the interval of each."""

    before: tuple[float, float]
    after: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Changes(Tabular):
    """What changed between two releases.

    Each `Change` holds on its own: of 100 numbers that did not change, on average up to 100·(1 − confidence) lie beyond
    their intervals by chance. Ask for a higher confidence where that matters.

    Iterating gives the changes; `appeared` and `vanished` are the buckets that only one of the releases has.
    """

    earlier: dt.datetime
    later: dt.datetime
    confidence: float
    rows: tuple[Change, ...]
    appeared: tuple[OneSided, ...]
    vanished: tuple[OneSided, ...]
    readings: Readings
    """The later release's, for the names and types of columns."""

    @classmethod
    def between(cls, earlier: Dated, later: Dated, confidence: float) -> Changes:
        """Compare two answers of one query, from independent samples. Each is read at any confidence."""
        pairs = paired_levels(confidence)
        before, after = earlier[1](confidence), later[1](confidence)
        old, new = before.by_key(), after.by_key()
        firsts = _nested(earlier[1], [level for level, _ in pairs])
        seconds = _nested(later[1], [level for _, level in reversed(pairs)])[::-1]
        rows = []
        for key, reading in new.items():
            if key in old:
                found = [
                    _Box(first[key], second[key])
                    for first, second in zip(firsts, seconds, strict=True)
                    if key in first and key in second
                ]
                rows.append(Change(old[key], reading, *_ends(found)))
        return cls(
            earlier[0],
            later[0],
            confidence,
            tuple(rows),
            tuple(OneSided(reading, before.unseen_upper) for key, reading in new.items() if key not in old),
            tuple(OneSided(reading, after.unseen_upper) for key, reading in old.items() if key not in new),
            after if len(after.rows) or not len(before.rows) else before,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.rows)

    @property
    def changed(self) -> tuple[Change, ...]:
        """The changes beyond their intervals."""
        return tuple(row for row in self.rows if row.changed)

    def to_arrow(self) -> pa.Table:
        """One row a bucket that both releases have: before, after, the change, the relative change, and `changed`."""
        import pyarrow as pa

        columns = {
            name: pa.array([row.after.key[index] for row in self.rows], kind)
            for index, (name, kind) in enumerate(self.readings.key_columns)
        }
        numbers: dict[str, Callable[[Change], float | None]] = {
            "before": lambda row: row.before.estimate,
            "after": lambda row: row.after.estimate,
            "change": lambda row: row.change,
            "lower": lambda row: row.interval[0],
            "upper": lambda row: row.interval[1],
            "relative": lambda row: row.relative,
            "relative_lower": lambda row: row.relative_interval[0],
            "relative_upper": lambda row: row.relative_interval[1],
        }
        for name, number in numbers.items():
            columns[name] = pa.array(list(map(number, self.rows)), pa.float64(), from_pandas=True)
        return pa.table(columns | {"changed": pa.array([row.changed for row in self.rows], pa.bool_())})

    def in_words(self) -> list[str]:
        """A sentence for each change beyond its interval, and for each bucket that appeared or vanished."""
        sure = percent(self.confidence)
        lines = [f"{_name(row.after)}: {self.change_in_words(row)}." for row in self.changed]
        for verb, found, when in (("appeared", self.appeared, "before"), ("vanished", self.vanished, "now")):
            for each in found:
                bound = (
                    "nothing is known about it"
                    if each.unseen_upper is None
                    else f"it had at most {count(each.unseen_upper)} ({sure})"
                )
                why = "" if each.certain else " It may be chance: it is close to the threshold."
                lines.append(f"{_name(each.reading)} {verb}; {when}, below the threshold, {bound}.{why}")
        return lines

    def change_in_words(self, row: Change) -> str:
        """One change as a part of a sentence, with its interval where there is one."""
        write = count if self.readings.counts else amount
        lower, upper = row.interval
        known = ""
        if lower is not None and upper is not None:
            known = f" ({percent(self.confidence)}: {signed(lower, write)} to {signed(upper, write)})"
        return f"{write(row.before.estimate)} → {write(row.after.estimate)}, {signed(row.change, write)}{known}"

    def __repr__(self) -> str:
        return (
            f"<Changes from {minute(self.earlier)} to {minute(self.later)}: {len(self.changed)} of "
            f"{len(self.rows):,} beyond their interval, {len(self.appeared)} appeared, {len(self.vanished)} vanished>"
        )

    def __str__(self) -> str:
        return "\n".join([repr(self)[1:-1], *self.in_words()])


def _nested(read: Read, levels: Sequence[float]) -> list[dict[tuple[Any, ...], tuple[float, float]]]:
    """The intervals of an answer at rising levels, by key; each contains those of the levels below it."""
    found: list[dict[tuple[Any, ...], tuple[float, float]]] = []
    for level in levels:
        inner = found[-1] if found else {}
        intervals = {}
        for row in read(level).rows:
            if row.lower is not None and row.upper is not None:
                low, high = inner.get(row.key, (row.lower, row.upper))
                intervals[row.key] = (min(low, row.lower), max(high, row.upper))
        found.append(intervals)
    return found


def _ends(boxes: Sequence[_Box]) -> tuple[Ends, Ends]:
    """Between which ends the change and the relative change lie, in whichever of the rectangles the two numbers are."""
    if not boxes:
        return (None, None), (None, None)
    change = (
        min(box.after[0] - box.before[1] for box in boxes),
        max(box.after[1] - box.before[0] for box in boxes),
    )
    if not all(box.before[0] > 0 and box.after[0] >= 0 for box in boxes):
        return change, (None, None)
    return change, (
        min(box.after[0] / box.before[1] for box in boxes) - 1,
        max(box.after[1] / box.before[0] for box in boxes) - 1,
    )


def _name(reading: Reading) -> str:
    return printable(reading.label)


def signed(value: float, write: Callable[[float], str]) -> str:
    """A change with its sign; one that is written as 0 has none."""
    size = write(abs(value))
    return f"{'±' if size == write(0) else '+' if value > 0 else '−'}{size}"

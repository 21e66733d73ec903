"""Where each bucket of a histogram stands when people read it: the same in pictures, pages, terminals and notebooks.

A release is sorted by count. People read bins, dates and numbers along their axis, with the places in between that were
not released. This looks at the release and at public settings only, so it is post-processing.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from thresher.mechanism.release import Release, ReleasedBucket
from thresher.questions import Question

LONGEST_AXIS = 400
"""Rows of the tallest picture: thinner ones could not be told apart."""
SCREEN = 60
"""Rows of an axis on a page or in a terminal: a year of weeks, or an hour of minutes."""


class Place(NamedTuple):
    """A bucket, and what was released of it: None if it was below the threshold."""

    bucket: Any
    row: ReleasedBucket | None


class Places(NamedTuple):
    """The buckets that are shown, from top to bottom."""

    rows: list[Place]
    ordered: bool
    """Whether they stand in the order of an axis; otherwise the largest come first."""
    hidden: int
    """How many released buckets are not among them."""


def places_of(release: Release, question: Question, listed: Sequence[Any] | None, *, most: int, longest: int) -> Places:
    """The buckets of a histogram in the order in which people read them.

    Bins have their whole axis, dates all periods from the first released one to the last. Whole values that are
    numbers, dates or times have the order of their axis, unless there are more than `LONGEST_AXIS`. So have several
    columns, one after the other, unless there are more than `SCREEN` buckets. All others come largest first.

    Args:
        release: what was released.
        question: what was asked.
        listed: the public list of buckets, if there is one. They are the axis, or come last where there is none.
        most: how many released buckets without an axis are shown, and how many listed ones that were not released.
        longest: how many places of an axis are shown. An axis that is longer is cut to where the first and the last
            released bucket are; if it is still longer, the largest buckets are shown, in the order of the axis.
    """
    released = {row.bucket: row for row in release}
    largest = list(released)
    missing = [bucket for bucket in listed or () if bucket not in released]
    order = None if question.ordered else _order(question, release, missing)
    if question.ordered:
        shown = _axis(question, largest, listed, longest)
    elif order is not None:
        shown = sorted([*largest[:longest], *missing[:longest]], key=order)
    else:
        shown = [*largest[:most], *missing[:most]]
    rows = [Place(bucket, released.get(bucket)) for bucket in shown]
    hidden = len(released) - sum(place.row is not None for place in rows)
    return Places(rows, question.ordered or order is not None, hidden)


def _axis(question: Question, largest: list[Any], listed: Sequence[Any] | None, longest: int) -> list[Any]:
    """The places of an axis, at most so many; `largest` are the released ones, largest first."""
    whole = list(question.axis(largest)) if listed is None else sorted(listed)
    if len(whole) > longest and largest:
        whole = whole[bisect_left(whole, min(largest)) : bisect_right(whole, max(largest))]
    return whole if len(whole) <= longest else sorted(largest[:longest])


def _order(question: Question, release: Release, missing: Sequence[Any]) -> Any:
    """What buckets without a public axis are sorted by; None where the largest come first."""
    buckets = [*release.buckets, *missing]
    parts = question.parts
    if not 0 < len(buckets) <= (LONGEST_AXIS if len(parts) == 1 else SCREEN):
        return None
    if len(parts) == 1:
        return (lambda bucket: bucket) if _comparable(buckets) else None
    columns = list(zip(*buckets, strict=True))
    natural = [part.ordered or _comparable(column) for part, column in zip(parts, columns, strict=True)]
    if not any(natural):
        return None
    ranks = [None if each else _ranks(release, place) for place, each in enumerate(natural)]
    return lambda bucket: tuple(
        value if rank is None else (rank.get(value, len(rank)), value)
        for value, rank in zip(bucket, ranks, strict=True)
    )


def _ranks(release: Release, place: int) -> dict[Any, int]:
    """The values of one of several columns, numbered from the one with the most released units on."""
    sums: dict[Any, float] = {}
    for row in release:
        sums[row.bucket[place]] = sums.get(row.bucket[place], 0.0) + row.estimate
    return {value: rank for rank, value in enumerate(sorted(sums, key=lambda each: -sums[each]))}


def _comparable(values: Sequence[Any]) -> bool:
    """Whether all values are numbers, all are dates, or all are times that can be compared."""
    kinds = {type(value) for value in values}
    if kinds == {dt.datetime}:
        return len({value.tzinfo is None for value in values}) == 1
    return kinds <= {int, float, Decimal} or kinds == {dt.date}

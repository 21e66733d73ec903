"""The answer of a query with groups: the verb's own answer for each group, and what all of them show together."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from thresher.errors import NotReleased
from thresher.mechanism.release_table import bucket_columns
from thresher.questions.normal_form import normal
from thresher.verbs.accuracy import CONFIDENCE
from thresher.verbs.answer import Answer, Field, Shown
from thresher.verbs.grouping import GroupableQuery, group_of, rows_of_group
from thresher.verbs.public_lists import BELOW, RELEASED, STATUS
from thresher.verbs.readings import Reading, Readings
from thresher.verbs.windows import Window, common_window

if TYPE_CHECKING:
    import pyarrow as pa

    from thresher.charts import GroupRow

A = TypeVar("A", bound=Answer)
MOST_DRAWN = 40
"""How many groups a picture shows: the first ones in their order."""


@dataclass(frozen=True, eq=False, repr=False)
class Grouped(Answer, Generic[A]):
    """An answer for each group of which anything was released: `found["1.2.3"]`, or `found["1.2.3", "linux"]`.

    A group that is not here was below the threshold in all its cells, or nobody is in it; the releases do not tell
    which. `missing` are the groups of the public list that are not here.

    Guarantee: that of the query without groups. Each unit is in one cell of one group in each round, and taking the
    releases apart is post-processing. `releases` are the whole rounds, with the group columns first.
    """

    query: GroupableQuery
    grouped = True

    @functools.cached_property
    def _places(self) -> tuple[dict[Any, list[int]], ...]:
        """For each release, the rows of each group."""
        columns = len(self.query.by)
        found: list[dict[Any, list[int]]] = []
        for release in self.releases:
            places: dict[Any, list[int]] = {}
            for row, bucket in enumerate(release.buckets):
                places.setdefault(group_of(bucket, columns), []).append(row)
            found.append(places)
        return tuple(found)

    @functools.cached_property
    def groups(self) -> tuple[Any, ...]:
        """The groups that have an answer: in the order of the public list, or in their natural order without one."""
        released = {group for places in self._places for group in places}
        if self.query.groups is not None:
            return tuple(group for group in self.query.groups if group in released)
        return tuple(sorted(released, key=lambda group: tuple(map(_natural, self._values(group)))))

    @property
    def missing(self) -> tuple[Any, ...]:
        """The groups of the public list of which nothing was released, in its order."""
        return tuple(group for group in self.query.groups or () if group not in self._answers_known)

    @functools.cached_property
    def _answers_known(self) -> frozenset[Any]:
        return frozenset(self.groups)

    @functools.cached_property
    def _answers(self) -> dict[Any, A]:
        """The answers that were asked for already."""
        return {}

    @functools.cached_property
    def _nothing(self) -> A:
        """The answer of a group without rows: it has the right columns."""
        return self._answer_of([() for _ in self.releases])

    def _answer_of(self, rows: Sequence[Sequence[int]]) -> A:
        columns = len(self.query.by)
        found: A = self.query.answer_of_group(
            [rows_of_group(release, each, columns) for release, each in zip(self.releases, rows, strict=True)]
        )
        return found

    def __getitem__(self, group: Any) -> A:
        key = self._key(group)
        if key not in self._answers_known:
            raise NotReleased("This group was not released.", hint=self._why_not(key))
        if key not in self._answers:
            self._answers[key] = self._answer_of([places.get(key, ()) for places in self._places])
        return self._answers[key]

    def _key(self, group: Any) -> Any:
        """A group as it is counted."""
        if len(self.query.by) == 1:
            return normal(group)
        return tuple(map(normal, group)) if isinstance(group, tuple | list) else group

    def _why_not(self, key: Any) -> str:
        columns = len(self.query.by)
        if columns > 1 and not (isinstance(key, tuple) and len(key) == columns):
            return f"A group is a value of each of {' and '.join(self.query.by)}."
        if self.query.groups is not None and key not in self.query.groups:
            return "It is not in the list of groups that was given."
        return "All its cells were below the threshold, or nobody is in it; the answer does not tell which."

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.groups)

    def __contains__(self, group: object) -> bool:
        return self._key(group) in self._answers_known

    def keys(self) -> tuple[Any, ...]:
        """The groups that have an answer."""
        return self.groups

    def values(self) -> list[A]:
        """Their answers."""
        return [self[group] for group in self.groups]

    def items(self) -> list[tuple[Any, A]]:
        """The groups that have an answer, each with it."""
        return [(group, self[group]) for group in self.groups]

    def label(self, group: Any) -> str:
        """A group as people read it."""
        return " · ".join(map(str, self._values(group)))

    def _values(self, group: Any) -> tuple[Any, ...]:
        return group if len(self.query.by) > 1 else (group,)

    @property
    def measured(self) -> str:
        """The column that was asked about, without the group columns."""
        return self._nothing.measured

    @property
    def reads_ranges(self) -> bool:  # type: ignore[override]
        """Whether the groups' answers have ranges to read off."""
        return self._nothing.reads_ranges

    def range_ends(self, lower: float, upper: float) -> tuple[float, float]:
        """As the groups' answers have them."""
        return self._nothing.range_ends(lower, upper)

    @property
    def pairs(self) -> Mapping[str, tuple[str, str]]:  # type: ignore[override]
        """As the groups' answers have them."""
        return self._nothing.pairs

    @property
    def details(self) -> frozenset[str]:  # type: ignore[override]
        """As the groups' answers have them."""
        return self._nothing.details

    @property
    def explained(self) -> str:
        """Why a group may not be there, and what the numbers of each mean."""
        return (
            "Each group has its own rows. A group that is not there was below the threshold in all its cells, or "
            f"nobody is in it; the two look the same. {self._nothing.explained}"
        ).rstrip()

    def key_columns(self, own: Sequence[str]) -> list[tuple[str, pa.DataType]]:
        """The group columns with their types; one that is called as a column of the answers is called group_…"""
        import pyarrow as pa

        found: list[tuple[str, pa.DataType]] = []
        listed = None if self.query.groups is None else bucket_columns(self.query.groups, self.query.by)
        for index, name in enumerate(self.query.by):
            kind = self.releases[0].table.schema.field(name).type
            if listed is not None and (not len(self) or pa.types.is_floating(listed[index].type)):
                kind = listed[index].type
            while name in (*own, *(each for each, _ in found)):
                name = f"group_{name}"
            found.append((name, kind))
        return found

    def to_arrow(self) -> pa.Table:
        """The group columns, then the columns of the groups' answers, a row for each of theirs.

        With a public list there is also a column `status`, and a row without numbers for each missing group.
        """
        import pyarrow as pa

        tables = [(group, answer.to_arrow()) for group, answer in self.items()]
        schema = self._nothing.to_arrow().schema
        keys = self.key_columns([*schema.names, STATUS])
        sizes = [(group, table.num_rows) for group, table in tables] + [(group, 1) for group in self.missing]
        columns: dict[str, Any] = {}
        for index, (name, kind) in enumerate(keys):
            values = [self._values(group)[index] for group, size in sizes for _ in range(size)]
            columns[name] = pa.array(values, kind)
        below = len(self.missing)
        for field in schema:
            chunks = [chunk for _, table in tables for chunk in table[field.name].chunks]
            columns[field.name] = pa.chunked_array([*chunks, pa.nulls(below, field.type)], type=field.type)
        if self.query.groups is not None:
            rows = sum(table.num_rows for _, table in tables)
            columns[STATUS] = pa.array([RELEASED] * rows + [BELOW] * below, pa.string())
        return pa.table(columns).combine_chunks()

    def more(self) -> dict[str, Any]:
        """Each group with what its answer says besides its rows, and the listed groups that have no answer."""
        found = [{"group": self._values(group), **answer.more()} for group, answer in self.items()]
        return {"groups": found, "missing": [self._values(group) for group in self.missing]}

    def shown(self) -> Shown:
        """The rows of all groups, each labelled with its group first."""
        first, *others = self._nothing.shown().fields
        title = " · ".join((*self.query.by, first.title))
        rows: list[tuple[Any, ...]] = []
        for group, answer in self.items():
            _, inner, *_ = answer.shown()
            rows += [((f"{self.label(group)} · {label}", len(rows) + place), *cells)
                     for place, ((label, _), *cells) in enumerate(inner)]  # fmt: skip
        unknown = [None] * (len(others) - 1)
        rows += [((self.label(group), len(rows) + place), BELOW, *unknown) for place, group in enumerate(self.missing)]
        return Shown((Field("group", title, "label", first.about), *others), rows, "group")

    def readings(self, confidence: float = CONFIDENCE, ranges: Sequence[tuple[float, float]] = ()) -> Readings:
        """The readings of all groups; the key of each begins with its group."""
        nothing = self._nothing.readings(confidence, ranges)
        rows = tuple(
            Reading((*self._values(group), *row.key), f"{self.label(group)} · {row.label}", *row[2:])
            for group, answer in self.items()
            for row in answer.readings(confidence, ranges).rows
        )
        keys = self.key_columns([*(name for name, _ in nothing.key_columns), nothing.column, "lower", "upper"])
        return Readings(
            (*keys, *nothing.key_columns), rows, column=nothing.column, counts=nothing.counts, ordered=nothing.ordered
        )

    def summary(self, most: int) -> tuple[Sequence[Reading], int]:
        """The summaries of the first groups, then the missing ones."""
        each = max(len(self._nothing.summary(most)[0]), 1)
        first = self.groups[: max(most // each, 1)]
        rows = [
            Reading((*self._values(group), *row.key), f"{self.label(group)} · {row.label}", *row[2:])
            for group in first
            for row in self[group].summary(most)[0]
        ]
        missing = [Reading(self._values(group), self.label(group), math.nan, None, None) for group in self.missing]
        fitting = max(most - len(rows), 0)
        hidden = (len(self) - len(first)) * each + max(len(missing) - fitting, 0)
        return [*rows, *missing[:fitting]], hidden

    def numbers(self) -> tuple[list[str], list[GroupRow]]:
        """The names of the measured numbers, and each group, missing ones too, with its numbers; for a picture."""
        from thresher.charts import GroupRow

        names = [row.label for row in self._nothing.readings().rows]
        drawn = [
            GroupRow(self.label(group), [row[2:] for row in self[group].readings().rows])
            for group in self.groups[:MOST_DRAWN]
        ]
        return names, drawn + [GroupRow(self.label(group), None) for group in self.missing[:MOST_DRAWN]]

    @property
    def measures(self) -> bool:
        """Whether the numbers are measured values, drawn as points; otherwise the groups' distributions are drawn."""
        return not self._nothing.readings().counts

    def window(self) -> Window | None:
        """The window of all groups that are drawn: their pictures have the same axis."""
        windows = [self[group].window() for group in self.groups[:MOST_DRAWN]]
        return common_window([window for window in windows if window is not None])

    def bands(self) -> list[tuple[str, Any]]:
        """The distribution of each group that is drawn, with its label; see `Answer.band`."""
        window = self.window()
        return [(self.label(group), self[group].band(window)) for group in self.groups[:MOST_DRAWN]]

    def plot(self, path: str | Path | None = None) -> Any:
        """All groups in one picture, shown in notebooks or saved: measured numbers with intervals, or distributions.

        `path` ends in .png, .svg or .html. Needs the extra `plot`.
        """
        from thresher import charts

        hidden = max(len(self.groups) - MOST_DRAWN, 0)
        if self.measures:
            names, groups = self.numbers()
            chart = charts.group_intervals(
                names, groups, title=self._title, subtitle=self.footing(), measured=self.measured, hidden=hidden,
                whom=self.stands_for,
            )  # fmt: skip
            return charts.show(chart, path)
        window = self.window()
        more = f" {hidden:,} more groups are not drawn." if hidden else ""
        more += "" if window is None else f" {window.in_words()}".rstrip()
        chart = charts.group_distributions(
            self.bands(),
            title=self._title,
            subtitle=self.footing(),
            note=f"Bands: 95 % at each value, with all that the threshold may hide.{more}",
            measured=self.measured,
            missing=[self.label(group) for group in self.missing],
            whom=self.stands_for,
        )
        return charts.show(chart, path)

    @property
    def _title(self) -> str:
        return f"{self.query.verb.capitalize()} of {self.query.column}{self.query.by_words}"

    def __repr__(self) -> str:
        missing = f", {len(self.missing):,} below the threshold" if self.query.groups is not None else ""
        return f"<{self._title}: {len(self):,} groups{missing}; {self.closing()}>"


def _natural(value: Any) -> Any:
    """What a group is sorted by: numbers in a text count as numbers, so that 1.9 comes before 1.10."""
    if not isinstance(value, str):
        return value
    pieces = re.split(r"([0-9]+)", value)
    return [_digits(piece) if place % 2 else (piece.casefold(), 0, "") for place, piece in enumerate(pieces)], value


def _digits(digits: str) -> tuple[str, int, str]:
    """What a run of digits is sorted by: as the number that it is. Python reads no number of over 4,300 digits."""
    bare = digits.lstrip("0")
    return "", len(bare), bare

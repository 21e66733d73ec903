"""The numbers of an answer that are followed from one release of a series to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from thresher.errors import InvalidSetting
from thresher.verbs.accuracy import CONFIDENCE, Quantile

if TYPE_CHECKING:
    import pyarrow as pa

_ESTIMATES, _ENDS = ("estimate", "value"), ("lower", "upper")
_AFTER_THE_KEY = {*_ESTIMATES, *_ENDS, "count"}


class Reading(NamedTuple):
    """One number of an answer, with its confidence interval.

    `key` says what it is the number of: the values of the key columns. `label` is the same for people. An estimate that
    is not known is NaN; ends that are not known are None.
    """

    key: tuple[Any, ...]
    label: str
    estimate: float
    lower: float | None
    upper: float | None

    @property
    def bucket(self) -> Any:
        """The key: one value, or a tuple where there are several key columns."""
        return self.key[0] if len(self.key) == 1 else self.key

    @property
    def known(self) -> bool:
        """Whether there is an estimate."""
        return not math.isnan(self.estimate)

    def is_of(self, bucket: Any) -> bool:
        """Whether this is the number of a bucket, which is given as its value, its text, a tuple, or its label.

        The text of a week is that of its first day, by which JSON names it.
        """
        if bucket in (self.label, self.key, " · ".join(map(str, self.key))):
            return True
        return bool(bucket == self.bucket) and isinstance(bucket, bool) == isinstance(self.bucket, bool)


def below(found: Quantile) -> Reading:
    """A quantile as a number that is read in a sentence."""
    label = f"{100 * found.probability:.6g} % are below"
    return Reading((found.probability,), label, found.value, *found.interval)


@dataclass(frozen=True, slots=True)
class Readings:
    """All readings of one answer, and what they are."""

    key_columns: tuple[tuple[str, pa.DataType], ...]
    """The names and the Arrow types of the key columns."""
    rows: tuple[Reading, ...]
    column: str = "estimate"
    """The name of the column of numbers."""
    counts: bool = True
    """Whether the numbers count units; otherwise they are measured values."""
    ordered: bool = False
    """Whether the rows have an order of their own, in which they should be shown; otherwise the largest come first."""
    fixed: bool = False
    """Whether every answer of the query has these very rows: no bucket can be below the threshold."""
    unseen_upper: int | None = None
    """How many units a bucket may hold at most that is not among the rows, at the same confidence; None: not known."""

    def by_key(self) -> dict[tuple[Any, ...], Reading]:
        """The readings by their key, in order."""
        return {row.key: row for row in self.rows}


def of_table(table: pa.Table, confidence: float, *, counts: bool, verb: str) -> Readings:
    """The readings of a table: what stands before the numbers is the key.

    A table has intervals of one confidence only, so readings of any other have none.
    """
    names = table.column_names
    column = next((name for name in _ESTIMATES if name in names), None)
    key = names[: next((place for place, name in enumerate(names) if name in _AFTER_THE_KEY), 0)]
    if column is None or not key:
        raise InvalidSetting("verb", f"{verb!r} has no numbers that can be followed over time")
    ends = confidence == CONFIDENCE and set(_ENDS) <= set(names)
    rows = tuple(
        Reading(
            tuple(row[name] for name in key),
            " · ".join(str(row[name]) for name in key),
            math.nan if row[column] is None else float(row[column]),
            *((row[name] for name in _ENDS) if ends else (None, None)),
        )
        for row in table.to_pylist()
    )
    return Readings(tuple((name, table.schema.field(name).type) for name in key), rows, column, counts)

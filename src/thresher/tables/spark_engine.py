"""Spark, classic and Connect: counted on the cluster, and thinned there where a driver could not hold the counts."""

from __future__ import annotations

import copy
import importlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from thresher.mechanism import SecureRandomness, thin, threshold
from thresher.privacy.plans import Plan
from thresher.questions import Question
from thresher.questions.normal_form import LEAST_BYTES, TOO_MANY_MARKS
from thresher.tables.column_keys import COUNT, WEIGHT, value_names
from thresher.tables.column_kinds import Kind, kind_of_narwhals, not_read
from thresher.tables.error_guard import guarded
from thresher.tables.rows import LazyRows
from thresher.tables.time_zones import CALENDAR, UTC

if TYPE_CHECKING:
    import pyarrow as pa

_MANY = TOO_MANY_MARKS.replace("{", "{{").replace("}", "}}")
_COMPOSABLE = f"(octet_length({{0}}) < {LEAST_BYTES} OR NOT replace({{0}}, char(0), '') RLIKE '{_MANY}')"
"""That text has no more marks in a row than Thresher normalises."""

# Text with a byte for each character is ASCII, which NFC leaves as it is. For the rest, Spark has no function of its
# own, but carries ICU for its collations.
_NFC = (
    "collate(CASE WHEN char_length({0}) < octet_length({0}) THEN "
    "reflect('com.ibm.icu.text.Normalizer', 'compose', {0}, false) ELSE {0} END, 'UTF8_BINARY')"
)

_CLEAN: dict[Kind, str] = {
    "text": _NFC.replace("{0}", "replace({0}, char(0), '')"),
    "whole numbers": "CAST({0} AS BIGINT)",
    "floats": "CASE WHEN {0} = 0 THEN 0D ELSE CAST({0} AS DOUBLE) END",
    "decimals": "collate(CAST({0} AS STRING), 'UTF8_BINARY')",
    "booleans": "{0}",
    "dates": "{0}",
    "times": "{0}",
}


class SparkRows(LazyRows):
    """Rows on a cluster."""

    def thinned(self, question: Question, plan: Plan) -> pa.Table:
        """Keys and *sampled* counts that reach the threshold: drawn in the workers, nothing else comes back.

        Guarantee: the distribution of `sample_and_threshold`; every task draws from a keystream of its own.
        """

        def run() -> pa.Table:
            counted = self.counted(question, at_least=plan.threshold).to_native()
            return _collect(counted.mapInArrow(_thinner(plan), counted.schema))

        return guarded(self.engine, run)


class SparkEngine:
    """A Spark DataFrame."""

    name = "Spark"

    def __init__(self, frame: Any) -> None:
        import narwhals as nw

        self._frame = frame
        self._schema = guarded(self.name, lambda: nw.from_native(frame).collect_schema())
        self._persisted: list[Any] = []
        self._time_zone = UTC

    def names(self) -> list[str]:
        """The columns' names."""
        return list(self._frame.columns)

    def kind(self, column: str) -> Kind | None:
        """What a column holds, from the frame's schema."""
        if self._frame.schema[column].dataType.typeName() == "void":
            return "nothing"
        return kind_of_narwhals(self._schema[column])

    def untyped(self, column: str) -> bool:
        """The schema is public."""
        return False

    def reading(self, kinds: Mapping[str, Kind]) -> NoReturn:
        """Not here: the caller can cast where the data is."""
        raise not_read(kinds, "a Spark frame")

    def on_clock(self, time_zone: str) -> SparkEngine:
        """The same rows, with instants on the wall clock of this zone."""
        engine = copy.copy(self)
        engine._time_zone = time_zone
        return engine

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        return self._frame.schema[column].dataType.typeName() in ("struct", "array", "map", "variant")

    def rows(self, wanted: Sequence[str]) -> SparkRows:
        """These columns, each row a unit."""
        return guarded(self.name, lambda: self._cleaned(self._select(wanted), wanted))

    def chosen(self, wanted: Sequence[str], unit: str) -> SparkRows:
        """These columns, one row a unit, kept by the cluster.

        The random numbers have a seed and belong to the rows of the source, so that a task that runs again chooses
        the same rows.
        """

        def run() -> SparkRows:
            names = value_names(len(wanted))
            seed = secrets.randbits(31)
            drawn = self._held(self._select(wanted, unit).selectExpr("*", f"rand({seed}) AS r"), [*wanted, unit])
            packed = f"min_by(struct({', '.join(names)}), r) AS s"
            if self.kind(unit) == "text":
                drawn = drawn.selectExpr(*names, "r", f"{_NFC.format('u')} AS u")
            grouped = drawn.groupBy("u").agg(_expression(self._frame, packed))
            kept = grouped.selectExpr(*[f"s.{name} AS {name}" for name in names]).persist()
            self._persisted.append(kept)
            return self._cleaned(kept, wanted)

        return guarded(self.name, run)

    def close(self) -> None:
        """Let the cluster forget what it keeps for us."""
        while self._persisted:
            # A cluster that has gone keeps nothing; its error must not take an answer with it that has been paid for.
            with suppress(Exception):
                self._persisted.pop().unpersist()

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        named = dict(zip(value_names(len(wanted)), wanted, strict=True))
        if unit is not None:
            named["u"] = unit
        return self._frame.selectExpr(*[f"{self._comparable(old, new)} AS {new}" for new, old in named.items()])

    def _comparable(self, column: str, name: str) -> str:
        """A column in a form that nothing else has a say in.

        Text is compared by its bytes from here on: under a collation Spark would count several spellings as one, and
        return any of them, be it that of one person. Instants are times on the wall clock of the zone; units stay.
        """
        if self.kind(column) == "text":
            return f"collate({_quoted(column)}, 'UTF8_BINARY')"
        if name == "u" or self._frame.schema[column].dataType.typeName() != "timestamp":
            return _quoted(column)
        # Not by a cast, which reads the wall clock of the session's zone: where that goes back an hour, two instants
        # would become one.
        number = f"unix_micros({_quoted(column)})"
        utc = f"TIMESTAMP_NTZ'1970-01-01 00:00:00' + {number} * INTERVAL '0.000001' SECOND"
        local = utc if self._time_zone == UTC else f"convert_timezone('UTC', '{self._time_zone}', {utc})"
        # At an instant that no calendar has, the functions would stop the whole count.
        return f"CASE WHEN {number} BETWEEN {CALENDAR[0]} AND {CALENDAR[1]} THEN {local} END"

    def _cleaned(self, frame: Any, wanted: Sequence[str]) -> SparkRows:
        kinds = [kind for column in wanted if (kind := self.kind(column)) is not None]
        names = value_names(len(wanted))
        frame = self._held(frame, wanted)
        weighted = "text" in kinds
        if weighted:
            # Text is cleaned after a first count: each form once instead of each row.
            frame = frame.groupBy(*names).agg(_expression(frame, f"count(*) AS {WEIGHT}"))
        clean = [f"{_CLEAN[kind].format(name)} AS {name}" for name, kind in zip(names, kinds, strict=True)]
        cleaned = frame.selectExpr(*clean, *([WEIGHT] if weighted else []))
        return SparkRows(self.name, cleaned, _collect, weighted)

    def _held(self, frame: Any, columns: Sequence[str]) -> Any:
        """The rows that have a value in all columns of a frame, which hold what these columns do."""
        named = list(zip(frame.columns, columns, strict=False))
        tests = [f"{name} IS NOT NULL" for name, _ in named]
        numbers = [f"NOT isnan({name})" for name, column in named if self.kind(column) == "floats"]
        # A time that no calendar has must not stop the count.
        dated = [
            f"year({name}) BETWEEN 1 AND 9999" for name, column in named if self.kind(column) in ("dates", "times")
        ]
        texts = [_COMPOSABLE.format(name) for name, column in named if self.kind(column) == "text"]
        return frame.filter(" AND ".join([*tests, *numbers, *dated, *texts]))


def _thinner(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def thinned(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        source = SecureRandomness()
        for batch in batches:
            sampled = thin(batch.column(COUNT).to_numpy(), plan, source)
            place = batch.schema.get_field_index(COUNT)
            drawn = batch.set_column(place, batch.schema.field(COUNT), pa.array(sampled))
            yield drawn.filter(pa.array(threshold(sampled, plan)))

    return thinned


def _expression(frame: Any, text: str) -> Any:
    """A SQL expression for this frame: Connect's columns are not those of the classic API."""
    connect = type(frame).__module__.startswith("pyspark.sql.connect")
    module = "pyspark.sql.connect.functions" if connect else "pyspark.sql.functions"
    return importlib.import_module(module).expr(text)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _collect(frame: Any) -> pa.Table:
    return frame.toArrow()

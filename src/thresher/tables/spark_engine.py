"""Spark, classic and Connect: counted on the cluster, and thinned there where a driver could not hold the counts."""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import narwhals as nw
import pyarrow as pa

from thresher.mechanism import SecureRandomness, thin, threshold
from thresher.privacy.plans import Plan
from thresher.questions import Question, Values
from thresher.questions.normal_form import LEAST_BYTES, TOO_MANY_MARKS
from thresher.tables import column_keys
from thresher.tables.column_keys import COUNT, DRAW, UNIT, WEIGHT, key_names, value_names
from thresher.tables.column_kinds import Kind
from thresher.tables.engine import LazyFrameEngine, renamed
from thresher.tables.error_guard import guarded
from thresher.tables.rows import LazyRows
from thresher.tables.time_zones import INSTANTS, UTC

_MANY = TOO_MANY_MARKS.replace("{", "{{").replace("}", "}}")
_COMPOSABLE = f"(octet_length({{0}}) < {LEAST_BYTES} OR NOT replace({{0}}, char(0), '') RLIKE '{_MANY}')"
"""Whether text has no more marks in a row than Thresher normalises."""

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


_HELD: dict[Kind | None, str] = {
    "text": f"{{0}} IS NOT NULL AND {_COMPOSABLE}",
    "floats": "{0} IS NOT NULL AND NOT isnan({0})",
    # A time that no calendar has must not stop the count.
    **dict.fromkeys(("dates", "times"), "{0} IS NOT NULL AND year({0}) BETWEEN 1 AND 9999"),
}
"""The test that a row has a value of a kind; for other kinds, that it is not null."""


class SparkRows(LazyRows):
    """Rows on a cluster."""

    thins = True

    def thinned(self, question: Question, plan: Plan) -> pa.Table:
        """Keys and *sampled* counts that reach the threshold: drawn in the workers, nothing else comes back.

        Guarantee: the distribution of `sample_and_threshold`; every task draws from a keystream of its own.
        """

        def run() -> pa.Table:
            counted = self.counted(question, at_least=plan.threshold).to_native()
            return _collect(counted.mapInArrow(_thinner(plan), counted.schema))

        return guarded(self.engine, run)


class SparkEngine(LazyFrameEngine):
    """A Spark DataFrame."""

    name = "Spark"
    described = "a Spark frame"

    def __init__(self, frame: Any) -> None:
        super().__init__(frame)
        self._persisted: list[Any] = []

    def names(self) -> list[str] | None:
        """The columns' names. A Spark frame may have a name twice, which narwhals' schema does not show."""
        return list(self._frame.columns)

    def _has_no_type(self, column: str) -> bool:
        return self._type(column) == "void"

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        return self._type(column) in ("struct", "array", "map", "variant")

    def _type(self, column: str) -> str:
        name: str = self._frame.schema[column].dataType.typeName()
        return name

    def rows(self, wanted: Sequence[str]) -> SparkRows:
        """These columns, each row a unit."""

        def numbered() -> Any:
            return self._select(wanted).selectExpr("*", f"rand({secrets.randbits(31)}) AS {DRAW}")

        return guarded(self.name, lambda: self._cleaned(self._select(wanted), wanted, numbered))

    def chosen(self, wanted: Sequence[str], unit: str) -> SparkRows:
        """These columns, one row a unit, kept by the cluster.

        The random numbers have a seed and belong to the rows of the source, so that a task that runs again chooses
        the same rows.
        """

        def run() -> SparkRows:
            names = value_names(len(wanted))
            placed = self._select(wanted, unit).selectExpr("*", f"rand({secrets.randbits(31)}) AS r")
            drawn = placed.filter(self._held(wanted, unit))
            packed = f"min_by(struct({', '.join(names)}, r), r) AS s"
            if self.kind(unit) == "text":
                drawn = drawn.selectExpr(*names, "r", f"{_NFC.format(UNIT)} AS {UNIT}")
            grouped = drawn.groupBy(UNIT).agg(_expression(self._frame, packed))
            kept = grouped.selectExpr(*[f"s.{name} AS {name}" for name in (*names, "r")]).persist()
            self._persisted.append(kept)

            def numbered() -> Any:
                # A hash of r, so that a unit has the same number if its task runs again, and another in each round.
                bits = f"shiftrightunsigned(xxhash64(r, {secrets.randbits(62)}L), 11)"
                return kept.selectExpr(*names, f"{bits} * {2.0**-53!r}D AS {DRAW}")

            return self._cleaned(kept, wanted, numbered)

        return guarded(self.name, run)

    def pairs(self, question: Question, unit: str, most: int) -> SparkRows:
        """Each unit in each of its buckets, at most `most` of them, kept by the cluster until it was drawn from."""

        def run() -> SparkRows:
            found = self._pairs(question, unit, most, question.columns)
            return self._kept(found.select(*key_names(question)), "keys")

        return guarded(self.name, run)

    def several(self, wanted: Sequence[str], unit: str, most: int) -> SparkRows:
        """Each unit with its values, at most `most` of them, kept by the cluster."""

        def run() -> SparkRows:
            values = Values(tuple(wanted))
            found = self._pairs(values, unit, most, wanted)
            named = zip(key_names(values), value_names(len(wanted)), strict=True)
            return self._kept(found.selectExpr(UNIT, *[f"{key} AS {value}" for key, value in named]), "units")

        return guarded(self.name, run)

    def _pairs(self, question: Question, unit: str, most: int, wanted: Sequence[str]) -> Any:
        """Distinct u, k0, k1, …, at most `most` rows of a unit.

        The buckets of a unit are ordered by a hash of unit, bucket and a secret, and the first ones are kept: a task
        that runs again makes the same choice, whatever order its rows come in.
        """
        held = self._select(wanted, unit).filter(self._held(wanted, unit))
        key = _NFC.format(UNIT) if self.kind(unit) == "text" else UNIT
        cleaned = held.distinct().selectExpr(f"{key} AS {UNIT}", *self._clean_values(wanted))
        found = column_keys.pairs(nw.from_native(cleaned).lazy(), question).to_native()
        keys = ", ".join(key_names(question))
        order = f"xxhash64({secrets.randbits(62)}L, {UNIT}, {keys}), {keys}"
        place = f"row_number() OVER (PARTITION BY {UNIT} ORDER BY {order}) AS place"
        return found.selectExpr("*", place).filter(f"place <= {most}")

    def _kept(self, frame: Any, form: column_keys.Form) -> SparkRows:
        kept = frame.persist()
        self._persisted.append(kept)

        def forget() -> None:
            self._persisted[:] = [other for other in self._persisted if other is not kept]
            kept.unpersist()

        return SparkRows(self.name, kept, _collect, closing=forget, form=form)

    def close(self) -> None:
        """Unpersist what the cluster keeps for us."""
        while self._persisted:
            # A cluster that is gone keeps nothing; its error must not cost an answer that has been paid for.
            with suppress(Exception):
                self._persisted.pop().unpersist()

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        named, kinds = renamed(wanted, unit), self._filter.kinds
        frame = self._frame.selectExpr(
            *[f"{self._comparable(column, name)} AS {name}" for name, column in (named | self._filter.named).items()]
        )
        if not kinds:
            return frame
        # A value that is none is null from here on, and satisfies nothing.
        held = {name: _HELD.get(kind, "{0} IS NOT NULL").format(name) for name, kind in kinds.items()}
        clean = [
            f"CASE WHEN {held[name]} THEN {_CLEAN[kind].format(name)} END AS {name}" for name, kind in kinds.items()
        ]
        return self._filter.kept(frame.selectExpr(*named, *clean), named)

    def _comparable(self, column: str, name: str) -> str:
        """A column in a form that does not depend on the session.

        Text is compared by its bytes from here on: under a collation Spark would count several spellings as one, and
        return any of them, even the spelling of one person. Instants are times on the wall clock of the zone; units
        stay.
        """
        if self.kind(column) == "text":
            return f"collate({_quoted(column)}, 'UTF8_BINARY')"
        if name == UNIT or self._type(column) != "timestamp":
            return _quoted(column)
        # Not by a cast, which reads the wall clock of the session's zone: where that goes back an hour, two instants
        # would become one.
        number = f"unix_micros({_quoted(column)})"
        utc = f"TIMESTAMP_NTZ'1970-01-01 00:00:00' + {number} * INTERVAL '0.000001' SECOND"
        local = utc if self.time_zone == UTC else f"convert_timezone('UTC', '{self.time_zone}', {utc})"
        # At an instant that no calendar has, the functions would stop the whole count.
        return f"CASE WHEN {number} BETWEEN {INSTANTS[0]} AND {INSTANTS[1]} THEN {local} END"

    def _cleaned(self, frame: Any, wanted: Sequence[str], numbered: Callable[[], Any]) -> SparkRows:
        """The cleaned rows. `numbered` gives the frame with random numbers that belong to the rows of the source."""
        names, kinds = value_names(len(wanted)), self._kinds(wanted)
        frame = frame.filter(self._held(wanted))
        weighted = "text" in kinds
        if weighted:
            # Text is cleaned after a first count: each form once instead of each row.
            frame = frame.groupBy(*names).agg(_expression(frame, f"count(*) AS {WEIGHT}"))
        clean = self._clean_values(wanted)
        cleaned = frame.selectExpr(*clean, *([WEIGHT] if weighted else []))

        def drawn() -> Any:
            return numbered().filter(self._held(wanted)).selectExpr(*clean, DRAW)

        return SparkRows(self.name, cleaned, _collect, weighted, drawn=drawn)

    def _clean_values(self, wanted: Sequence[str]) -> list[str]:
        named = zip(value_names(len(wanted)), self._kinds(wanted), strict=True)
        return [f"{_CLEAN[kind].format(name)} AS {name}" for name, kind in named]

    def _held(self, wanted: Sequence[str], unit: str | None = None) -> str:
        """The test that a row has a value in all columns."""
        named = renamed(wanted, unit).items()
        return " AND ".join(_HELD.get(self.kind(column), "{0} IS NOT NULL").format(name) for name, column in named)


def _thinner(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def thinned(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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

"""Spark, classic and Connect: counted on the cluster, and thinned there where a driver could not hold the counts."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import narwhals as nw
import pyarrow as pa

from thresher.errors import ThresherWarning
from thresher.mechanism import KeyedRandomness, thin, threshold
from thresher.privacy.plans import Plan
from thresher.questions import Question, Values
from thresher.questions.normal_form import LEAST_BYTES, TOO_MANY_MARKS
from thresher.tables import column_keys
from thresher.tables.column_keys import COUNT, DRAW, UNIT, WEIGHT, key_names, value_names
from thresher.tables.column_kinds import Kind
from thresher.tables.engine import LazyFrameEngine, renamed
from thresher.tables.error_guard import guarded
from thresher.tables.rows import LazyRows
from thresher.tables.spark_session import INSTALL, evaluations, functions_of, keeps_order, lacking
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

_ABLE: WeakSet[Any] = WeakSet()
"""The sessions whose workers have Thresher."""


class SparkRows(LazyRows):
    """Rows on a cluster."""

    def can_thin(self) -> bool:
        """Whether the workers have Thresher; where they do not, a warning says what to install.

        Guarantee: it does not depend on anybody's data. Spark is asked once for each session that has it.
        """
        session = self.frame.sparkSession
        if session not in _ABLE:
            lacks = lacking(session, ("pyarrow", "thresher.mechanism", "thresher.privacy.plans"))
            if lacks is not None:
                warnings.warn(
                    f"Spark's workers {lacks}. The driver draws instead of them, however many buckets reach the "
                    f"threshold. {INSTALL}",
                    ThresherWarning,
                    stacklevel=2,
                )
                return False
            _ABLE.add(session)
        return True

    def thinned(self, question: Question, plan: Plan) -> pa.Table:
        """Keys and *sampled* counts that reach the threshold: drawn in the workers, nothing else comes back.

        Guarantee: the distribution of `sample_and_threshold`. A task that runs again draws the same counts, so that
        neither failures nor speed can choose among several draws: its bits follow from a secret of this call and the
        number of its partition, and its buckets are in order.
        """

        def run() -> pa.Table:
            counted = self.counted(question, at_least=plan.threshold).to_native()
            ordered = counted.sortWithinPartitions(*key_names(question))
            return _collect(ordered.mapInArrow(_thinner(plan, KeyedRandomness.new_secret()), counted.schema))

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

        def run() -> SparkRows:
            held = self._held(wanted)
            return self._cleaned(held, wanted, lambda: _numbered(held, value_names(len(wanted)), DRAW))

        return guarded(self.name, run)

    def chosen(self, wanted: Sequence[str], unit: str) -> SparkRows:
        """These columns, one row a unit, kept by the cluster; a task that runs again chooses the same rows."""

        def run() -> SparkRows:
            names = value_names(len(wanted))
            held = self._held(wanted, unit).selectExpr(self._clean_unit(unit), *names)
            packed = f"min_by(struct({', '.join(names)}, r), r) AS s"
            grouped = _numbered(held, [UNIT, *names], "r").groupBy(UNIT).agg(functions_of(held).expr(packed))
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
        held = self._held(wanted, unit)
        cleaned = held.distinct().selectExpr(self._clean_unit(unit), *self._clean_values(wanted))
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
        clean = {
            name: f"CASE WHEN {held[name]} THEN {_CLEAN[kind].format(name)} END AS {name}"
            for name, kind in kinds.items()
        }
        below = self._filter.kept(frame.selectExpr(*named, *clean.values()), named)
        # Spark moves the test to where the data is stored, so that it skips files and computes other columns for fewer
        # rows. There it computes the test's own column too, and once more if another column is the same or needs it.
        called = [name for name, column in self._filter.named.items() if self._calls_python(column)]
        if not called:
            return below
        stored = [name for name in kinds if name not in called]
        if stored:
            early = frame.selectExpr(*named, *called, *[clean[name] for name in stored])
            frame = self._filter.kept(early, [*named, *called], stored)
        above = self._filter.kept(_apart(frame).selectExpr(*named, *[clean[name] for name in called]), named, called)
        return above if evaluations(above) < evaluations(below) else below

    def _calls_python(self, column: str) -> bool:
        return evaluations(self._frame.selectExpr(_quoted(column))) > 0

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
        """The cleaned rows of a frame whose rows have all values; `numbered` gives it with random numbers."""
        names, kinds = value_names(len(wanted)), self._kinds(wanted)
        weighted = "text" in kinds
        if weighted:
            # Text is cleaned after a first count: each form once instead of each row.
            frame = frame.groupBy(*names).agg(functions_of(frame).expr(f"count(*) AS {WEIGHT}"))
        clean = self._clean_values(wanted)
        cleaned = frame.selectExpr(*clean, *([WEIGHT] if weighted else []))

        def drawn() -> Any:
            return numbered().selectExpr(*clean, DRAW)

        return SparkRows(self.name, cleaned, _collect, weighted, drawn=drawn)

    def _clean_values(self, wanted: Sequence[str]) -> list[str]:
        named = zip(value_names(len(wanted)), self._kinds(wanted), strict=True)
        return [f"{_CLEAN[kind].format(name)} AS {name}" for name, kind in named]

    def _clean_unit(self, unit: str) -> str:
        key = _NFC.format(UNIT) if self.kind(unit) == "text" else UNIT
        return f"{key} AS {UNIT}"

    def _held(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        """The rows that have a value in all columns.

        Spark would move the test to where a column is computed, and compute it there once more.
        """
        named = renamed(wanted, unit)
        tests = [_HELD.get(self.kind(column), "{0} IS NOT NULL").format(name) for name, column in named.items()]
        return _apart(self._select(wanted, unit)).filter(" AND ".join(tests)).selectExpr(*named)


def _apart(frame: Any) -> Any:
    """The frame, computed before any test that follows.

    Spark moves no test past a column that it takes for random, as the number of the partition, if it is asked for.
    """
    return frame.selectExpr("*", "spark_partition_id() AS place").filter("place >= 0")


def _numbered(frame: Any, names: Sequence[str], number: str) -> Any:
    """The frame with a uniform random number in [0, 1) for each row, the same ones if a task runs again.

    Spark's random numbers follow from a seed and a row's place in its partition. If the order of rows were another the
    next time, a unit could be counted in one bucket by what the first run left, and in another by what the second one
    adds. So rows, which have no other columns, are put in order, unless they have one.
    """
    ordered = frame if keeps_order(frame) else frame.sortWithinPartitions(*names)
    return ordered.selectExpr("*", f"rand({secrets.randbits(31)}) AS {number}")


def _thinner(plan: Plan, secret: bytes) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def thinned(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        source = KeyedRandomness(secret, task.partitionId())
        for batch in batches:
            sampled = thin(batch.column(COUNT).to_numpy(), plan, source)
            place = batch.schema.get_field_index(COUNT)
            drawn = batch.set_column(place, batch.schema.field(COUNT), pa.array(sampled))
            yield drawn.filter(pa.array(threshold(sampled, plan)))

    return thinned


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _collect(frame: Any) -> pa.Table:
    return frame.toArrow()

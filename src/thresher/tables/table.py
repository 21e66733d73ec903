"""A table as a population."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidSetting
from thresher.mechanism import Randomness, Release, SecureRandomness, coins, sample_and_threshold
from thresher.mechanism.release_table import NUMBERS
from thresher.privacy.plans import Plan
from thresher.privacy.settings import check_count
from thresher.privacy.units import Unit
from thresher.questions import Question, Values
from thresher.questions.population import Population, Progress
from thresher.tables import column_kinds as kinds
from thresher.tables.column_keys import buckets, nothing
from thresher.tables.domains import as_counted, counted_value
from thresher.tables.error_guard import emptied, guarded, heeded
from thresher.tables.time_zones import UTC, check_time_zone, zone_of

if TYPE_CHECKING:
    import pyarrow as pa

    from thresher.questions.conditions import Condition
    from thresher.tables.data_errors import DataErrors
    from thresher.tables.engine import Engine
    from thresher.tables.row_filters import ColumnTest, RowFilter
    from thresher.tables.rows import Rows

SAMPLING_RATE_LIMIT = 0.4
"""Up to this rate, rows in memory are sampled before they are counted; above it, counts are thinned."""

Readings = tuple[tuple[tuple[str, kinds.Kind | None], ...], "RowFilter"]
"""Columns, each with the kind as which it is read, and the rows that are read."""

_log = logging.getLogger("thresher.tables")


class Table(Population):
    """Rows of any table as a population. Without `unit=`, each row is a unit: a person with ten rows is ten people.

    With `unit="user_id"`, each unit contributes one value: one of its rows that have a value in all columns that a
    question reads is chosen at random, once for each set of columns, so that several rounds see the same value. With a
    filter, it is one of the rows that satisfy it. Rows without a unit are left out. Units are told apart by the bytes
    of their text in NFC, whatever collation a column, session or database has.

    With a plan of several `contributions`, c, each unit is counted once in each of its distinct buckets, and a unit
    that has more than c is counted in c of them, chosen uniformly at random; each bucket of a unit has a coin of its
    own. A question of one round chooses anew in each round. Questions that are asked in rounds choose c distinct whole
    values, which the table keeps; a query of a verb chooses its own.

    `data` is a pandas, Polars (eager or lazy), PyArrow, DuckDB, Ibis, Dask, Spark or Spark Connect frame; the path of a
    CSV, TSV, JSON lines or Parquet file, a glob, or a directory, of which all Parquet files are read, also those in its
    subdirectories; or a NumPy array or list, whose
    column is called "value". It must not change while the table is in use. An Arrow stream, whose rows come only once,
    is kept.

    `data` may also be a database: its address, an SQLAlchemy engine, or a connection of psycopg, sqlite3, DuckDB, ADBC
    or another DBAPI driver. Then `sql` is one SELECT, or `table` a name as "visits" or "schema.visits". A connection is
    not for other use before the table is closed; it is then as it was before.

    `types` declares what text says, as `{"age": "whole numbers"}`, for data that has no types of its own (CSV, JSON
    lines, lists, columns of Python objects): such columns are text otherwise, whatever their rows hold. Each value is
    read by itself, and one that cannot be read is no value.

    `format` says what a file is whose name does not: "csv", "tsv", "jsonl" or "parquet".

    Nulls and NaN are "no value". A time with a zone is an instant, and is counted on the wall clock of `time_zone`, the
    name of a zone, as "Europe/Paris"; the zone that a column or a session has never matters. A time without a zone is
    counted as it stands. Times are cut down to whole microseconds.

    `before_draw` is called in each round, after its question was checked and counted and before its sample is drawn. A
    ledger is charged there, so that a table that cannot be read costs nothing. `progress` is called while files are
    read.

    How a round is drawn, always with the distribution of an exact coin for each unit:

    - Counts are thinned, as a rule: the engine counts buckets and keeps those that reach the threshold, since no other
      can be released; they alone come back, and each count is thinned with an exact binomial.
    - Rows in memory are sampled first where the rate is at most 0.4: then counting the sample is cheaper.
    - Questions that are asked in rounds (prefixes, cells, splits) count a column's distinct values once and answer
      every round from these counts, up to `cache_limit` of them, which stay in memory; beyond that limit the engine
      counts in each round.
    - On Spark, more than `driver_limit` surviving buckets are thinned by the workers; only what is released comes back.
      Where workers lack Thresher, a warning says so before anything is counted, and the driver thins them all.
    """

    def __init__(
        self,
        data: Any,
        unit: str | None = None,
        *,
        sql: str | None = None,
        table: str | None = None,
        randomness: Randomness | None = None,
        before_draw: Callable[[], object] | None = None,
        types: Mapping[str, str] | None = None,
        time_zone: str = UTC,
        format: str | None = None,
        progress: Progress | None = None,
        cache_limit: int = 5_000_000,
        driver_limit: int = 5_000_000,
    ) -> None:
        from thresher.tables.sources import open_data  # loads DuckDB and Arrow, which importing Thresher does not
        from thresher.tables.sql_text import selection

        if not (unit is None or isinstance(unit, str)):
            raise InvalidSetting("unit", "must be the name of a column")
        self._unit = unit
        self.unit = Unit.of_table(unit)
        self._randomness = SecureRandomness() if randomness is None else randomness
        self._before_draw = before_draw
        self._cache_limit = check_count(cache_limit, setting="cache_limit")
        self._driver_limit = check_count(driver_limit, setting="driver_limit")
        self._types = kinds.check_types(types)
        self._time_zone = check_time_zone(time_zone)
        self._engine = open_data(data, progress, self._time_zone, format, selection(sql, table))
        self._chosen: dict[Readings, Rows] = {}
        self._cached: dict[Readings, Rows | None] = {}
        self._several: dict[tuple[Readings, int], Rows] = {}
        try:
            self._check_settings()
        except BaseException:
            self.close()
            raise

    def _check_settings(self) -> None:
        names = self._engine.names()
        if self._unit is not None:
            kinds.check_unit(self._unit, names, self._engine.nested)
        for column, kind in self._types.items():
            kinds.check_name(column, names, setting="types")
            kinds.check_declared(column, kind, self._engine.kind(column))
        if any(kind != self._engine.kind(column) for column, kind in self._types.items()):
            self._engine.reading(self._types)  # refuses what it cannot read

    @contextmanager
    def charged(self, before_draw: Callable[[], object]) -> Iterator[Table]:
        """The same table for one query, with another `before_draw`. It shares the engine and the counts of this one.

        Guarantee: where units count for several values, these are chosen for this query, and let go at its end.
        """
        table = copy.copy(self)
        table._before_draw = before_draw
        table._several = {}
        try:
            yield table
        finally:
            table._let_go(table._several.values())

    def check(self, question: Question) -> None:
        """Require that the question's columns exist and hold what it reads; nothing is counted or drawn."""
        names = self._engine.names()
        for column in question.columns:
            kinds.check_name(column, names)
            if column in NUMBERS:
                raise InvalidSetting(
                    "column",
                    f"{column!r} has the name of a column of every release",
                    hint=f"Rename it: {', '.join(NUMBERS)} are taken.",
                )
            kinds.check_kind(column, self._kind(column, question), question)
        for column in question.filters:
            kinds.check_name(column, names, setting="where")
        self._filter(question)

    def check_plan(self, plan: Plan) -> None:
        """Refuse a plan of several contributions where each row is a unit, which has one value."""
        if plan.contributions > 1 and self._unit is None:
            raise InvalidSetting(
                "contributions",
                f"is {plan.contributions}, and each row is a unit here, which has one value",
                hint="Name the column that tells units apart, as `unit='user_id'`, or leave `contributions` out.",
            )

    def _kind(self, column: str, question: Question) -> kinds.Kind | None:
        """What a column is counted as for a question."""
        if column in self._types:
            return self._types[column]
        return kinds.counted_as(question, column) if self._engine.untyped(column) else self._engine.kind(column)

    def holds_whole_numbers(self, column: str) -> bool:
        """Whether a column holds whole numbers by its public or declared type; its values are not looked at.

        Edge cases: False for an untyped column of which no type was declared.
        """
        if column in self._types:
            return self._types[column] == "whole numbers"
        return not self._engine.untyped(column) and self._engine.kind(column) == "whole numbers"

    def _filter(self, question: Question) -> RowFilter:
        """The rows that the question is about; what does not fit the types of their columns is refused."""
        from thresher.tables.row_filters import RowFilter

        return RowFilter(tuple(self._test(condition) for condition in question.conditions))

    def _test(self, condition: Condition) -> ColumnTest:
        from thresher.tables.row_filters import ColumnTest

        column = condition.column
        untyped, stored = self._engine.untyped(column), self._engine.kind(column)
        kind = self._types.get(column) or (condition.reads[0] if untyped else stored)
        kinds.check_readable(column, kind, condition.reads, setting="where")
        assert kind is not None
        read_as: kinds.Kind = "floats" if kind == "decimals" else kind  # decimals are compared as doubles
        constants = tuple(
            counted_value(each, read_as, column, untyped, zone_of(self._time_zone), setting="where")
            for each in condition.constants
        )
        return ColumnTest(condition, kind, kind != stored, constants)

    def data_errors(self, question: Question) -> DataErrors:
        """What cannot be read of the columns that a question reads, by line and cause: for whoever holds the data.

        Guarantee: none. It depends on single rows. Nothing is drawn, and no value is in it.
        Raises: `InvalidSetting` where the data is neither files nor in memory.
        """
        from thresher.tables.data_errors import find_data_errors

        self.check(question)
        read = {column: self._kind(column, question) for column in question.columns}
        read |= {test.condition.column: test.kind for test in self._filter(question).tests}
        if self._unit is not None:
            read.setdefault(self._unit, self._types.get(self._unit, "text"))
        texts = {name: kind for name, kind in read.items() if kind is not None and self._engine.kind(name) == "text"}
        engine = self._engine
        return guarded(engine.name, lambda: find_data_errors(engine, texts, self._time_zone))

    def read_domain(self, question: Question, domain: Sequence[Any]) -> tuple[Any, ...]:
        """A public domain as the question's buckets on this table; what does not fit its columns is refused."""
        self.check(question)
        held = [self._kind(column, question) for column in question.columns]
        untyped = [self._engine.untyped(column) for column in question.columns]
        return as_counted(domain, question, held, untyped, self._time_zone)

    def ask(self, question: Question, plan: Plan) -> Release:
        """One round: a fresh sample's answer to the question.

        Guarantee: one of the plan's rounds, for units as the class says. An error has no counts in its frames.
        Edge cases: an empty table and a column of nulls give an empty release.
        """
        with emptied():
            return heeded(lambda: self._asked(question, plan))

    def _asked(self, question: Question, plan: Plan) -> Release:
        self.check_plan(plan)
        self.check(question)
        if self._holds_nothing(question):
            self._about_to_draw()
            return self._release(nothing(question), question, plan)
        if self._samples_rows(question, plan):
            return self._release(self._sampled(question, plan), question, plan)
        with self._counting(question, plan.contributions) as rows:
            return self._drawn(rows, question, plan)

    def _size(self, question: Question, plan: Plan) -> int | None:
        """How many units there are, whatever they hold, for a query of one round; None where nobody has counted them.

        It is asked once rows were counted. Units outside a filter are among them: how many are inside is not public.
        Under add-remove the number is not public at all.
        Guarantee: never fails, so that an answer that was paid for is not lost.
        """
        # With a unit column it is not said: whether what names one person can be read would change the number.
        if plan.adjacency != "replace" or self._unit is not None or plan.rounds > 1 or question.repeated:
            return None
        try:
            return self._engine.size()
        except Exception as error:
            _log.warning("%s could not say how many units there are: %s", self._engine.name, type(error).__name__)
            return None

    def _drawn(self, rows: Rows, question: Question, plan: Plan) -> Release:
        """Count, charge and draw."""
        most = self._driver_limit if self._randomness.private and rows.can_thin() else None
        counted = rows.counts(question, at_least=plan.threshold, most=most)
        if most is not None and counted.num_rows > most:
            self._about_to_draw()
            return self._release(rows.thinned(question, plan), question, plan)
        if not self._randomness.private:
            # A seed gives a bucket the same draw again only if buckets come in the same order.
            counted = counted.sort_by([(name, "ascending") for name in counted.column_names])
        pair, units = buckets(counted, question), self._size(question, plan)
        self._about_to_draw()
        return sample_and_threshold(pair, plan, self._randomness, columns=question.columns, unit=self.unit, units=units)

    def close(self) -> None:
        """Close connections, and release what engines keep for this table.

        Guarantee: never fails, so that an answer that was paid for is not lost because its engine could not be closed.
        The log names the type of the error.
        """
        kept = [*self._chosen.values(), *self._cached.values(), *self._several.values()]
        for held in (self._chosen, self._cached, self._several):
            held.clear()
        parts = [*kept, self._engine, self._engine.held]
        self._let_go(part for part in parts if part is not None)

    def _let_go(self, parts: Iterable[Rows | Engine | ExitStack]) -> None:
        for part in parts:
            try:
                part.close()
            except Exception as error:
                what = "The database's connection" if isinstance(part, ExitStack) else self._engine.name
                _log.warning("%s could not be closed: %s", what, type(error).__name__)

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        unit = "each row a unit" if self._unit is None else f"unit {self._unit!r}"
        return f"<Table on {self._engine.name}, {unit}>"

    def _tally(
        self, question: Question, *, at_least: int = 1, contributions: int = 1
    ) -> tuple[pa.Table, NDArray[np.int64]]:
        """Exact buckets and counts before any draw, for tests. They must never be shown to anyone."""
        self.check(question)
        if self._holds_nothing(question):
            return buckets(nothing(question), question)
        with self._counting(question, contributions) as rows:
            return buckets(rows.counts(question, at_least=at_least), question)

    def _holds_nothing(self, question: Question) -> bool:
        return any(self._engine.kind(column) == "nothing" for column in question.inputs)

    def _readings(self, question: Question) -> Readings:
        """The question's columns, each with what it is read as, and the rows that it is about."""
        columns = tuple((column, self._kind(column, question)) for column in question.columns)
        return columns, self._filter(question)

    def _reader(self, readings: Readings) -> Engine:
        """The engine that reads columns so."""
        columns, rows = readings
        declared = {column: self._types[column] for column in (self._unit,) if column in self._types}
        read = {
            column: kind
            for column, kind in {**declared, **dict(columns)}.items()
            if kind is not None and kind != self._engine.kind(column)
        }
        engine = self._engine.reading(read) if read else self._engine
        return engine.filtered(rows) if rows else engine

    def _rows(self, question: Question) -> Rows:
        """What to count: the columns' distinct values if they are in memory, else the rows."""
        readings = self._readings(question)
        if readings not in self._cached and question.repeated:
            self._cached[readings] = self._distinct(readings)
        return self._cached.get(readings) or self._units(readings)

    @contextmanager
    def _counting(self, question: Question, contributions: int) -> Iterator[Rows]:
        """What to count: rows of one value a unit, or units with several.

        Several are chosen for this round and let go after it; or they are whole values, kept for several rounds.
        """
        if contributions == 1 or self._unit is None:
            yield self._rows(question)
            return
        readings = self._readings(question)
        if not question.repeated:
            rows = self._reader(readings).pairs(question, self._unit, contributions)
            try:
                yield rows
            finally:
                self._let_go([rows])
            return
        asked = readings, contributions
        if asked not in self._several:
            self._several[asked] = self._reader(readings).several(question.columns, self._unit, contributions)
        yield self._several[asked]

    def _units(self, readings: Readings) -> Rows:
        wanted = tuple(column for column, _ in readings[0])
        if self._unit is None:
            return self._reader(readings).rows(wanted)
        if readings not in self._chosen:
            self._chosen[readings] = self._reader(readings).chosen(wanted, self._unit)
        return self._chosen[readings]

    def _distinct(self, readings: Readings) -> Rows | None:
        """Distinct values with their counts, in memory; None if there are too many."""
        from thresher.tables.duckdb_columns import weighted_rows

        values = Values(tuple(column for column, _ in readings[0]))
        counted = self._units(readings).counts(values, most=self._cache_limit)
        return None if counted.num_rows > self._cache_limit else weighted_rows(counted)

    def _samples_rows(self, question: Question, plan: Plan) -> bool:
        return (
            self._engine.samples_rows
            and self._unit is None
            and plan.sampling_rate <= SAMPLING_RATE_LIMIT
            and not question.repeated
            and self._readings(question) not in self._cached
        )

    def _sampled(self, question: Question, plan: Plan) -> pa.Table:
        """Keys and counts of a sample of the rows that reach the threshold."""

        def toss(number: int) -> NDArray[np.bool_]:
            self._about_to_draw()
            return coins(number, plan.sampling_rate, self._randomness)

        rows = self._reader(self._readings(question)).sampled(question.columns, toss)
        return rows.counts(question, at_least=plan.threshold)

    def _about_to_draw(self) -> None:
        """Call `before_draw`. All checks are done at this point, and nothing random has happened in this round."""
        if self._before_draw is not None:
            self._before_draw()

    def _release(self, sampled: pa.Table, question: Question, plan: Plan) -> Release:
        """A release of counts that are already sampled."""
        found, counts = buckets(sampled, question)
        private, units = self._randomness.private, self._size(question, plan)
        return Release.of(found, counts, plan, private=private, columns=question.columns, unit=self.unit, units=units)

"""Units with several values in DuckDB's SQL: distinct pairs of a unit and a bucket, at most so many of a unit.

Relations have columns v0, v1, …, and u for the unit, as in `duckdb_columns`.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import pyarrow as pa

from thresher.questions import Question, Values
from thresher.tables import column_keys
from thresher.tables.column_keys import UNIT, canonical, key_names, value_names
from thresher.tables.column_kinds import Kind
from thresher.tables.duckdb_columns import clean_values, collect, of_units, unit_key
from thresher.tables.duckdb_connection import connect, disconnect
from thresher.tables.rows import LazyRows


def new_seed() -> int:
    """A secret for one choice, from the system's source of randomness."""
    return secrets.randbits(62)


def pairs(
    relation: Any,
    question: Question,
    kinds: Sequence[Kind],
    unit_kind: Kind | None,
    time_zone: str,
    most: int,
    seed: int,
) -> Any:
    """Distinct u, k0, k1, …: each unit with each of its buckets, at most `most` of them.

    The buckets of a unit are ordered by a hash of unit, bucket and a secret `seed`, and the first ones are kept. So a
    task that runs again with the same seed makes the same choice.
    """
    held = of_units(relation, kinds, unit_kind, time_zone)
    # Each form of a value is cleaned once for a unit instead of once for a row.
    forms = held.project(f"{', '.join(value_names(len(kinds)))}, {unit_key(unit_kind)} AS {UNIT}").distinct()
    cleaned = forms.project(", ".join([*clean_values(kinds), UNIT]))
    found = column_keys.pairs(nw.from_native(cleaned).lazy(), question).to_native()
    keys = ", ".join(key_names(question))
    # Hashed twice: DuckDB joins the hashes of several columns by an exclusive or, which keeps too much of their order.
    order = f"hash(hash({seed}, {UNIT}, {keys})), {keys}"
    placed = found.project(f"{UNIT}, {keys}, row_number() OVER (PARTITION BY {UNIT} ORDER BY {order}) AS r")
    return placed.filter(f"r <= {most}").project(f"{UNIT}, {keys}")


def whole_values(
    relation: Any, kinds: Sequence[Kind], unit_kind: Kind | None, time_zone: str, most: int, seed: int
) -> Any:
    """Distinct u, v0, v1, …: each unit with at most `most` of its whole values."""
    names = value_names(len(kinds))
    found = pairs(relation, Values(tuple(names)), kinds, unit_kind, time_zone, most, seed)
    values = [f"{key} AS {name}" for key, name in zip(found.columns[1:], names, strict=True)]
    return found.project(", ".join([UNIT, *values]))


def numbered(pairs: Any) -> pa.Table:
    """Pairs as Arrow, with a number for each unit in place of what names it."""
    values = [name for name in pairs.columns if name != UNIT]
    return collect(pairs.project(", ".join([f"dense_rank() OVER (ORDER BY {UNIT}) AS {UNIT}", *values])))


def kept_pairs(found: pa.Table) -> LazyRows:
    """Rows from pairs u, v0, v1, … in memory."""
    connection = connect()
    relation = connection.from_arrow(canonical(found))
    return LazyRows("DuckDB", relation, collect, closing=functools.partial(disconnect, connection), form="units")


def keys_of(pairs: Any, question: Question) -> Any:
    """The keys of pairs, without their units."""
    return pairs.project(", ".join(key_names(question)))

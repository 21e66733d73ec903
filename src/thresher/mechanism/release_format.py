"""How a release is stored: versioned JSON with its certificate, and the bucket types that it can hold."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher._version import __version__
from thresher.errors import InvalidFormat, InvalidSetting, ThresherError, VerificationFailed
from thresher.mechanism.response import Response
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan
from thresher.privacy.rates import AGAINST, Guarantees
from thresher.privacy.settings import RATE_BITS, check_probability, rate_numerator
from thresher.privacy.units import Unit

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "thresher-release"
VERSION = 3
"""Version 2 added `response`, how many devices took part, which is null for a table. Version 3 says in it who tossed
which coins, and on the certificate what is guaranteed against whom; it adds `unit`, whom the guarantee protects, which
is null where nobody said it. Versions 1 and 2 are still read."""
NUMBERS = ("count", "estimate", "lower", "upper")
_NUMBER_TYPES = ("int64", "double", "int64", "int64")
_LARGEST_COUNT = 1 << 53
"""Counts beyond it are no whole numbers any more in JSON, nor in estimates."""


def bucket_columns(buckets: Any, columns: tuple[str, ...]) -> list[pa.Array]:
    """Buckets as one Arrow array a column, each of a type that can be stored."""
    import pyarrow as pa

    if isinstance(buckets, pa.Table):
        arrays = [buckets.column(index) for index in range(buckets.num_columns)]
    elif len(columns) == 1:
        arrays = [buckets]
    else:
        arrays = [[bucket[index] for bucket in buckets] for index in range(len(columns))]
    if len(arrays) != len(columns):
        raise InvalidSetting("columns", f"names {len(columns)} columns, buckets have {len(arrays)}")
    return [_storable(array, name) for array, name in zip(arrays, columns, strict=True)]


def _storable(values: Any, column: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        array = array.cast(_storable_type(array.type))
        return pc.add(array, 0.0) if pa.types.is_floating(array.type) else array  # -0.0 is counted as 0.0
    except (pa.ArrowException, TypeError, OverflowError):
        # The engine's message may quote a value; ours must not.
        raise InvalidSetting(
            column,
            "holds buckets of a type that cannot be released",
            hint="Use text, whole numbers, floats, booleans, dates or times; cast anything else to text first.",
        ) from None


def _storable_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    types = pa.types
    if types.is_null(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if types.is_decimal(kind):
        return pa.string()
    matches: list[tuple[Callable[[pa.DataType], bool], pa.DataType]] = [
        (types.is_boolean, pa.bool_()),
        (types.is_integer, pa.int64()),
        (types.is_floating, pa.float64()),
        (types.is_date, pa.date32()),
    ]
    for matches_type, stored in matches:
        if matches_type(kind):
            return stored
    raise TypeError


def _to_json(array: pa.ChunkedArray) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_temporal(array.type):
        return list(array.cast(pa.int64() if pa.types.is_timestamp(array.type) else pa.int32()).to_pylist())
    values = array.to_pylist()
    if pa.types.is_floating(array.type):
        return [value if math.isfinite(value) else repr(value) for value in values]
    return list(values)


def _from_json(values: list[Any], kind: str) -> pa.Array:
    import pyarrow as pa

    if kind.startswith("timestamp"):
        zone = kind.partition("tz=")[2].rstrip("]") or None
        return pa.array(values, pa.int64()).cast(pa.timestamp("us", zone))
    simple = {"string": pa.string(), "int64": pa.int64(), "bool": pa.bool_()}
    if kind == "double":
        return pa.array([float(value) for value in values], pa.float64())
    if kind == "date32[day]":
        return pa.array(values, pa.int32()).cast(pa.date32())
    return pa.array(values, simple[kind])


def check_counts(counts: Any) -> NDArray[np.int64]:
    """Whole numbers that a float can hold exactly."""
    array = np.asarray(counts)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InvalidSetting("counts", "must be whole numbers")
    if array.size and not (int(array.min()) >= 0 and int(array.max()) <= _LARGEST_COUNT):
        raise InvalidSetting("counts", "must be from 0 to 2^53")
    return array.astype(np.int64)


def check_table(table: Any) -> None:
    """Require what holds for the rows of every release: bucket columns of known types, then the four numbers.

    Guarantee: no name and no bucket is there twice, and nothing is missing.
    """
    import pyarrow as pa

    if not isinstance(table, pa.Table):
        raise InvalidSetting("table", f"must be an Arrow table, not {type(table).__name__}")
    names, types = table.column_names, [str(kind) for kind in table.schema.types]
    keys = names[: -len(NUMBERS)]
    if tuple(names[-len(NUMBERS) :]) != NUMBERS or tuple(types[-len(NUMBERS) :]) != _NUMBER_TYPES or not keys:
        raise InvalidSetting("table", f"must have a bucket's columns, then {', '.join(NUMBERS)}")
    if len(set(names)) != len(names):
        raise InvalidSetting("table", "must not have two columns of one name")
    for name in keys:
        kind = table.schema.field(name).type
        if not _is_stored(kind):
            raise InvalidSetting(name, "holds buckets of a type that cannot be released")
        if pa.types.is_floating(kind):
            values = table[name].to_numpy()
            if np.any(np.isnan(values) | (np.signbit(values) & (values == 0))):
                raise InvalidSetting(name, "must not hold a bucket that is no number, nor a zero with a sign")
    if any(column.null_count for column in table.columns):
        raise InvalidSetting("table", "must not have missing values")
    if table.num_rows > 1 and table.select(keys).group_by(keys).aggregate([]).num_rows != table.num_rows:
        raise InvalidSetting("table", "must not have the same bucket twice")


def _is_stored(kind: pa.DataType) -> bool:
    try:
        return bool(_storable_type(kind) == kind)
    except TypeError:
        return False


def to_content(
    table: pa.Table,
    plan: Plan,
    *,
    private: bool,
    confidence: float,
    response: Response | None,
    unit: Unit | None,
    version: int = VERSION,
    guarantee: Guarantee | None = None,
) -> dict[str, Any]:
    """The stored form as plain values; `guarantee` is what the certificate states, None if nothing."""
    content = {
        "format": FORMAT,
        "version": version,
        "plan": plan.to_dict(),
        "confidence": confidence,
        "response": None if response is None else response.to_dict() if version > 2 else response.to_version_2(),
        "unit": None if unit is None else str(unit),
        "columns": [{"name": field.name, "type": str(field.type)} for field in table.schema],
        "rows": [_to_json(table.column(index)) for index in range(table.num_columns)],
    }
    for field, since in (("response", 2), ("unit", 3)):
        if version < since:
            del content[field]
    content["certificate"] = certificate(
        table,
        plan,
        private=private,
        confidence=confidence,
        response=response,
        unit=unit,
        version=version,
        guarantee=guarantee,
    )
    return content


def certificate(
    table: pa.Table,
    plan: Plan,
    *,
    private: bool,
    confidence: float,
    response: Response | None,
    unit: Unit | None,
    version: int = VERSION,
    guarantee: Guarantee | None = None,
) -> dict[str, Any]:
    """What was guaranteed, and a digest of the rows it was guaranteed for.

    The digest finds accidental change. It is not a signature: whoever can rewrite the file can recompute it.
    """
    rows = [_to_json(table.column(index)) for index in range(table.num_columns)]
    whom = {} if version < 3 else {"unit": None if unit is None else str(unit)}
    if version >= 3 and unit is not None:
        whom["counting"] = unit.counting
    taken_part: dict[str, Any] = {}
    if response is not None:
        old = {"response": response.to_version_2()}
        taken_part = old if version < 3 else _taken_part(response, plan, private=private)
    return {
        "mechanism": "sample-and-threshold",
        "software": f"thresher {__version__}",
        "private": private,
        "guarantee": "none: drawn from a seeded source" if guarantee is None else str(guarantee.for_unit(unit)),
        **whom,
        "sampling_rate": f"{rate_numerator(plan.sampling_rate)}/2^{RATE_BITS}",
        "threshold": plan.threshold,
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "adjacency": plan.adjacency,
        "rounds": plan.rounds,
        "confidence": confidence,
        **taken_part,
        "digest": "sha256:" + hashlib.sha256(_canonical([table.column_names, rows])).hexdigest(),
    }


def _taken_part(response: Response, plan: Plan, *, private: bool) -> dict[str, Any]:
    """Who took part, who tossed which coins, and what that guarantees against whom."""
    coins = {name.removesuffix("_rate"): f"{rate}/2^32" for name, rate in response.coins.items()}
    if not response.coins_recorded:
        coins["device or aggregator"] = coins.pop("kept")
    if not private:
        return {"response": response.numbers, "coins": coins}
    guarantees = {
        name: {"against": AGAINST[name], "epsilon": holds["epsilon"], "delta": holds["delta"]}
        for name, holds in asdict(Guarantees.of(plan, response.rates)).items()
    }
    return {"response": response.numbers, "coins": coins, "guarantees": guarantees}


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


class Parts(NamedTuple):
    """What a stored release consists of."""

    table: pa.Table
    plan: Plan
    private: bool
    confidence: float
    response: Response | None
    unit: Unit | None


def from_content(text: str) -> Parts:
    """The parts of a stored release.

    Guarantee: writing the parts again gives what was read, value by value and type by type. What does not fit is an
    error: `InvalidFormat` if it is no release, `VerificationFailed` if its certificate belongs to other rows or to
    another plan. Whether the plan keeps what it states is left to `verify`.
    """
    import pyarrow as pa

    try:
        content = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_repetition)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InvalidFormat("This is not a Thresher release.", hint="Give what Release.save wrote.")
        version = content.get("version")
        if type(version) is not int or not 1 <= version <= VERSION:
            raise InvalidFormat(
                f"This release has a version that this Thresher does not read; it reads versions 1 to {VERSION}.",
                hint="Upgrade Thresher.",
            )
        parts = _parts(content)
        plan, private = parts.plan, parts.private
        expected = to_content(**parts._asdict(), version=version, guarantee=plan.stated if private else None)
        stated = content["certificate"]
        whole = content | {"certificate": expected["certificate"]}
        if not isinstance(stated.get("software"), str) or not _same(whole, expected):
            raise InvalidFormat("This release has missing, unknown or changed fields.", hint="Use the original file.")
    except InvalidSetting as error:
        raise InvalidFormat(f"This release cannot be read: {error.message}", hint="Use the original file.") from None
    except ThresherError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError, pa.ArrowException):
        raise InvalidFormat(
            "This release cannot be read: it is not complete, or was changed.", hint="Save it again."
        ) from None
    if not _same(stated, expected["certificate"] | {"software": stated["software"]}):
        raise VerificationFailed(
            "The certificate does not belong to these rows and this plan: the release was changed after it was made.",
            hint="Use the original file.",
        )
    return parts


def _parts(content: dict[str, Any]) -> Parts:
    """The parts, as far as they can be read; whether they are what was stored is seen by writing them again."""
    import pyarrow as pa

    private = content["certificate"]["private"]
    if not isinstance(private, bool):
        raise InvalidFormat("This release does not say whether it is private.")
    plan, unit = Plan.from_dict(content["plan"]), content.get("unit")
    columns = content["columns"]
    arrays = [_from_json(values, column["type"]) for values, column in zip(content["rows"], columns, strict=True)]
    table = pa.table(arrays, names=[column["name"] for column in columns])
    check_table(table)
    for name in table.column_names:
        if pa.types.is_temporal(table.schema.field(name).type):
            table[name].to_pylist()  # dates that no calendar has, and zones that nobody knows
    return Parts(
        table=table,
        plan=plan,
        private=private,
        confidence=check_probability(content["confidence"], setting="confidence"),
        response=_response(content, plan),
        unit=None if unit is None else Unit.read(unit),
    )


def _response(content: dict[str, Any], plan: Plan) -> Response | None:
    stated = content.get("response")
    if stated is None:
        return None
    return Response.from_version_2(stated, plan) if content["version"] == 2 else Response.from_dict(stated)


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _no_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a field is there twice")
    return content


def _same(stated: Any, expected: Any) -> bool:
    """Whether two plain values are the same, types included; a float may have been written as a whole number."""
    if isinstance(expected, dict):
        return (
            isinstance(stated, dict)
            and stated.keys() == expected.keys()
            and all(_same(stated[key], value) for key, value in expected.items())
        )
    if isinstance(expected, list):
        return (
            isinstance(stated, list)
            and len(stated) == len(expected)
            and all(_same(one, other) for one, other in zip(stated, expected, strict=True))
        )
    if isinstance(expected, float) and type(stated) is int:
        return stated == expected
    return type(stated) is type(expected) and bool(stated == expected)


def read_text(path: Path) -> str:
    """The file's text; a file that is missing or not text is a clear error."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidFormat(f"{path} cannot be read: {error.strerror}.", hint="Check the path.") from None
    except UnicodeDecodeError:
        raise InvalidFormat(f"{path} is not a Thresher release.", hint="Give what Release.save wrote.") from None

"""How a release is stored: versioned JSON with its certificate, and the bucket types that it can hold."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thresher._version import __version__
from thresher.errors import InvalidFormat, InvalidSetting, ThresherError, VerificationFailed
from thresher.mechanism.response import Response
from thresher.privacy.plans import Plan
from thresher.privacy.rates import AGAINST, Guarantees
from thresher.privacy.settings import RATE_BITS, check_probability, rate_numerator

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "thresher-release"
VERSION = 3
"""Version 2 added `response`, how many devices took part, which is null for a table. Version 3 says in it who tossed
which coins, and on the certificate what is guaranteed against whom. Versions 1 and 2 are still read."""
_FIELDS_1 = {"format", "version", "plan", "confidence", "columns", "rows", "certificate"}
_FIELDS = {1: _FIELDS_1, 2: _FIELDS_1 | {"response"}, 3: _FIELDS_1 | {"response"}}


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

    try:
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        return array.cast(_storable_type(array.type))
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


def to_content(
    table: pa.Table, plan: Plan, *, private: bool, confidence: float, response: Response | None
) -> dict[str, Any]:
    """The stored form as plain values."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "plan": plan.to_dict(),
        "confidence": confidence,
        "response": None if response is None else response.to_dict(),
        "columns": [{"name": field.name, "type": str(field.type)} for field in table.schema],
        "rows": [_to_json(table.column(index)) for index in range(table.num_columns)],
        "certificate": certificate(table, plan, private=private, confidence=confidence, response=response),
    }


def certificate(
    table: pa.Table, plan: Plan, *, private: bool, confidence: float, response: Response | None
) -> dict[str, Any]:
    """What was guaranteed, and a digest of the rows it was guaranteed for.

    The digest finds accidental change. It is not a signature: whoever can rewrite the file can recompute it.
    """
    taken_part = {} if response is None else _taken_part(response, plan, private=private)
    return _certificate(table, plan, private, confidence, taken_part)


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


def _certificate(
    table: pa.Table, plan: Plan, private: bool, confidence: float, taken_part: dict[str, Any]
) -> dict[str, Any]:
    rows = [_to_json(table.column(index)) for index in range(table.num_columns)]
    return {
        "mechanism": "sample-and-threshold",
        "software": f"thresher {__version__}",
        "private": private,
        "guarantee": str(plan.guarantee) if private else "none: drawn from a seeded source",
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


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def from_content(text: str) -> tuple[pa.Table, Plan, bool, float, Response | None]:
    """Table, plan, private mark, confidence and response of a stored release; what does not fit is an error."""
    import pyarrow as pa

    try:
        content = json.loads(text)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InvalidFormat("This is not a Thresher release.", hint="Give what Release.save wrote.")
        fields = _FIELDS.get(content["version"]) if "version" in content else None
        if fields is None:
            raise InvalidFormat(
                f"This release has a version that this Thresher does not read; it reads versions 1 to {VERSION}.",
                hint="Upgrade Thresher.",
            )
        if set(content) != fields:
            raise InvalidFormat("This release has missing or unknown fields.")
        plan = Plan.from_dict(content["plan"])
        confidence = check_probability(content["confidence"], setting="confidence")
        stated_response = content.get("response")
        if stated_response is None:
            response = None
        elif content["version"] == 2:
            response = Response.from_version_2(stated_response, plan)
        else:
            response = Response.from_dict(stated_response)
        arrays = [
            _from_json(values, column["type"])
            for values, column in zip(content["rows"], content["columns"], strict=True)
        ]
        table = pa.table(arrays, names=[column["name"] for column in content["columns"]])
        private = content["certificate"]["private"]
    except ThresherError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, pa.ArrowException):
        raise InvalidFormat(
            "This release cannot be read: it is not complete, or was changed.", hint="Save it again."
        ) from None
    if content["version"] < 3:
        taken_part = {} if response is None else {"response": response.to_version_2()}
        expected = _certificate(table, plan, private, confidence, taken_part)
    else:
        expected = certificate(table, plan, private=private, confidence=confidence, response=response)
    stated = {key: value for key, value in content["certificate"].items() if key != "software"}
    if stated != {key: value for key, value in expected.items() if key != "software"}:
        raise VerificationFailed(
            "The certificate does not belong to these rows and this plan: the release was changed after it was made.",
            hint="Use the original file.",
        )
    return table, plan, private, confidence, response


def read_text(path: Path) -> str:
    """The file's text; a file that is missing or not text is a clear error."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidFormat(f"{path} cannot be read: {error.strerror}.", hint="Check the path.") from None
    except UnicodeDecodeError:
        raise InvalidFormat(f"{path} is not a Thresher release.", hint="Give what Release.save wrote.") from None

"""How a release is stored: versioned JSON with its certificate."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thresher._version import __version__
from thresher.errors import Hint, InvalidFormat, InvalidSetting, ThresherError, VerificationFailed
from thresher.mechanism.release_table import column_from_json, columns_to_json
from thresher.mechanism.response import Response
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan
from thresher.privacy.rates import AGAINST, Guarantees
from thresher.privacy.settings import RATE_BITS, check_probability, rate_numerator
from thresher.privacy.units import Unit

if TYPE_CHECKING:
    from thresher.mechanism.release import Release

FORMAT = "thresher-release"
ANSWER = "thresher-answer"
"""The format of a saved answer, which holds a query and its releases; see `thresher.verbs.answer`."""
VERSION = 4
"""Version 2 added `response`, how many devices took part, which is null for a table. Version 3 says in it who tossed
which coins, and on the certificate what is guaranteed against whom; it adds `unit`, whom the guarantee protects, which
is null where nobody said it. Version 4 adds `units`, how many units a table has; where that is not known, version 3 is
written. Versions 1 to 3 are still read."""


def to_json(release: Release) -> str:
    """The stored form; `from_json` reads it back."""
    content = _content(release, release.guarantee if release.private else None, _version(release))
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def certificate(release: Release) -> dict[str, Any]:
    """What was guaranteed, and a digest of the rows it was guaranteed for.

    The digest finds accidental change. It is not a signature: whoever can rewrite the file can recompute it.
    """
    guarantee = release.guarantee if release.private else None
    return _certificate(release, guarantee, _version(release), columns_to_json(release.table))


def _version(release: Release) -> int:
    """The version that has all fields of a release, and none that is not known."""
    return 3 if release.units is None else VERSION


def _content(release: Release, guarantee: Guarantee | None, version: int) -> dict[str, Any]:
    """The stored form as plain values; `guarantee` is what the certificate states, None if nothing."""
    response, rows = release.response, columns_to_json(release.table)
    content = {
        "format": FORMAT,
        "version": version,
        "plan": release.plan.to_dict(),
        "confidence": release.confidence,
        "response": None if response is None else response.to_dict() if version > 2 else response.to_version_2(),
        "unit": None if release.unit is None else str(release.unit),
        "units": release.units,
        "columns": [{"name": field.name, "type": str(field.type)} for field in release.table.schema],
        "rows": rows,
        "certificate": _certificate(release, guarantee, version, rows),
    }
    for field, since in (("response", 2), ("unit", 3), ("units", 4)):
        if version < since:
            del content[field]
    return content


def _certificate(release: Release, guarantee: Guarantee | None, version: int, rows: list[list[Any]]) -> dict[str, Any]:
    plan, unit = release.plan, release.unit
    whom: dict[str, Any] = {} if version < 3 else {"unit": None if unit is None else str(unit)}
    if version >= 3 and unit is not None:
        whom["counting"] = unit.counting(plan.contributions)
    if version >= 4:
        whom["units"] = release.units
    taken_part: dict[str, Any] = {}
    if release.response is not None:
        old = {"response": release.response.to_version_2()}
        taken_part = old if version < 3 else _taken_part(release.response, plan, private=release.private)
    named_rows = json.dumps([release.table.column_names, rows], separators=(",", ":"), allow_nan=False)
    return {
        "mechanism": "sample-and-threshold",
        "software": f"thresher {__version__}",
        "private": release.private,
        "guarantee": "none: drawn from a seeded source" if guarantee is None else str(guarantee.for_unit(unit)),
        **whom,
        "sampling_rate": f"{rate_numerator(plan.sampling_rate)}/2^{RATE_BITS}",
        "threshold": plan.threshold,
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "adjacency": plan.adjacency,
        "rounds": plan.rounds,
        **({} if plan.contributions == 1 else {"contributions": plan.contributions}),
        "confidence": release.confidence,
        **taken_part,
        "digest": "sha256:" + hashlib.sha256(named_rows.encode()).hexdigest(),
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


def from_json(text: str) -> Release:
    """Read a stored release.

    Guarantee: writing the release again gives what was read, value by value and type by type. What does not fit is an
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
        release = _release(content)
        if version >= 4 and release.units is None:
            raise InvalidFormat("This release does not say how many units there are.", hint="Use the original file.")
        expected = _content(release, release.plan.stated if release.private else None, version)
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
    return release


def _release(content: dict[str, Any]) -> Release:
    """The release, as far as it can be read; `from_json` compares what it would write with what was stored."""
    import pyarrow as pa

    from thresher.mechanism.release import Release

    private = content["certificate"]["private"]
    if not isinstance(private, bool):
        raise InvalidFormat("This release does not say whether it is private.")
    plan, response, unit = Plan.from_dict(content["plan"]), content.get("response"), content.get("unit")
    if response is not None:
        old = content["version"] == 2
        response = Response.from_version_2(response, plan) if old else Response.from_dict(response)
    columns = content["columns"]
    arrays = [column_from_json(values, column["type"]) for values, column in zip(content["rows"], columns, strict=True)]
    table = pa.table(arrays, names=[column["name"] for column in columns])
    release = Release(
        table,
        plan,
        private,
        check_probability(content["confidence"], setting="confidence"),
        response,
        None if unit is None else Unit.read(unit),
        content["units"] if content["version"] >= 4 else None,
    )
    for name in table.column_names:
        if pa.types.is_temporal(table.schema.field(name).type):
            table[name].to_pylist()  # raises for dates outside Python's calendar and for unknown time zones
    return release


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


def only_release(text: str) -> str:
    """The text of a release: this one, or the only one of a saved answer."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(content, dict) or content.get("format") != ANSWER:
        return text
    rounds = content.get("rounds")
    if not isinstance(rounds, list) or len(rounds) != 1 or not isinstance(rounds[0], dict):
        raise InvalidFormat(
            "This is an answer of several rounds.", hint=Hint("It is an answer.", python="Read it with thresher.load.")
        )
    return json.dumps(rounds[0].get("release"), ensure_ascii=False)

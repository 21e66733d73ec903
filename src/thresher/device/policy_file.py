"""A policy in a file: its settings, and the table that `thresher policy compile` adds. See docs/protocol/policy.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from thresher.device.policy import Policy
from thresher.device.price_table import StoredTable
from thresher.errors import InvalidFormat, InvalidSetting
from thresher.questions.question import is_well_formed

VERSION = 1
_SETTINGS = tuple(field.name for field in fields(Policy) if field.name != "table")
_KNOWN = ("version", *_SETTINGS, "table")
_SETTING = "policy"


def read_policy(path: Path) -> Policy:
    """A policy from JSON, such as `{"max_epsilon": 2, "attributes": ["country"]}`; what is left out is as in `Policy`.

    Raises: `InvalidSetting` that names the field which is unknown, of the wrong kind or out of range.
    """
    if not path.exists():
        raise InvalidSetting(
            _SETTING, f"{str(path)!r} does not exist", hint="Write one: thresher policy compile --output."
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InvalidSetting(_SETTING, f"{str(path)!r} is not a file with JSON that can be read") from None
    return policy_from_dict(content)


def policy_from_dict(content: Any) -> Policy:
    """The policy that the content of such a file describes. Raises as `read_policy` does."""
    if not isinstance(content, dict):
        raise InvalidSetting(_SETTING, 'must be an object, as {"max_epsilon": 2}')
    if unknown := set(content) - set(_KNOWN):
        raise InvalidSetting(_SETTING, f"has an unknown field: {min(unknown)}", hint=f"Known: {', '.join(_SETTINGS)}.")
    version = content.get("version", VERSION)
    if isinstance(version, bool) or version != VERSION:
        raise InvalidSetting(_SETTING, "has a version that this Thresher does not read", hint="Compile it again.")
    try:
        return Policy(**{name: _value(name, value) for name, value in content.items() if name != "version"})
    except InvalidSetting:
        raise
    except InvalidFormat as error:
        raise InvalidSetting("table", "does not hold together", hint=error.hint) from None
    except (TypeError, ValueError):
        raise InvalidSetting(_SETTING, "has a field of the wrong kind") from None


def policy_text(policy: Policy, table: StoredTable) -> str:
    """The file of a policy with this table: one line for each setting, and one for each row."""
    content: dict[str, Any] = {"version": VERSION}
    for name in _SETTINGS:
        value = getattr(policy, name)
        content[name] = sorted(value) if isinstance(value, frozenset) else value
    content["pinned_key"] = None if policy.pinned_key is None else policy.pinned_key.hex()
    described = table.to_dict()
    rows = ",\n".join(f"  {_line(row)}" for row in described["rows"])
    columns = "".join(f'"{name}": {_line(described[name])}, ' for name in ("bounds", "rounds"))
    settings = "".join(f'"{name}": {_line(value)},\n' for name, value in content.items())
    return f'{{{settings}"table": {{{columns}"rows": [\n{rows}\n]}}}}\n'


def changed_policy(policy: Policy, changes: Mapping[str, Any]) -> Policy:
    """A policy with other settings. Its table is kept if it still is the table of its bounds."""
    made = replace(policy, **changes, table=None)
    return replace(made, table=policy.table) if made.bounds == policy.bounds else made


def with_attributes(policy: Policy, names: Iterable[str]) -> Policy:
    """The policy of devices that hold these attributes."""
    listed = frozenset(name.strip() for name in names if name.strip())
    if not listed:
        raise InvalidSetting(
            "attributes", "must name at least one", hint="For example --attributes country,app_version."
        )
    return replace(policy, attributes=listed)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _value(name: str, value: Any) -> Any:
    if name in ("attributes", "filters") and value is not None:
        if not isinstance(value, list) or not all(is_well_formed(each) for each in value):
            raise InvalidSetting(name, "must be a list of names")
        return frozenset(value)
    if name == "pinned_key" and value is not None:
        if not (isinstance(value, str) and re.fullmatch("[0-9a-fA-F]{64}", value)):
            raise InvalidSetting(name, "must be 64 hexadecimal digits")
        return bytes.fromhex(value)
    if name == "hide_from_contact_list" and not isinstance(value, bool):
        raise InvalidSetting(name, "must be true or false")
    if name == "table" and value is not None:
        return StoredTable.from_dict(value)
    return value

"""The policy of a fleet's devices in a file, for the server's operator to state."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from thresher.device.policy import Policy
from thresher.errors import InvalidSetting

_FIELDS = tuple(field.name for field in fields(Policy))


def read_policy(path: Path) -> Policy:
    """A policy from JSON, such as `{"max_epsilon": 2, "attributes": ["country"]}`; what is left out is as in `Policy`.

    Raises: `InvalidSetting` that names the field which is unknown, of the wrong kind or out of range.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InvalidSetting("device-policy", f"{str(path)!r} is not a file with JSON that can be read") from None
    if not isinstance(content, dict):
        raise InvalidSetting("device-policy", 'must be an object, as {"max_epsilon": 2}')
    if unknown := set(content) - set(_FIELDS):
        raise InvalidSetting(
            "device-policy", f"has an unknown field: {min(unknown)}", hint=f"Known: {', '.join(_FIELDS)}."
        )
    try:
        return Policy(**{name: _value(name, value) for name, value in content.items()})
    except InvalidSetting:
        raise
    except (TypeError, ValueError):
        raise InvalidSetting("device-policy", "has a field of the wrong kind") from None


def with_attributes(policy: Policy, names: Iterable[str]) -> Policy:
    """The policy of devices that hold these attributes."""
    listed = frozenset(name.strip() for name in names if name.strip())
    if not listed:
        raise InvalidSetting(
            "attributes", "must name at least one", hint="For example --attributes country,app_version."
        )
    return replace(policy, attributes=listed)


def _value(name: str, value: Any) -> Any:
    if name in ("attributes", "filters") and value is not None:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise InvalidSetting(name, "must be a list of names")
        return frozenset(value)
    if name == "pinned_key" and value is not None:
        return bytes.fromhex(value)
    if name == "hide_from_contact_list" and not isinstance(value, bool):
        raise InvalidSetting(name, "must be true or false")
    return value

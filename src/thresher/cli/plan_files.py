"""A plan in a file: written by `thresher ledger plan --output`, read where a command takes a plan."""

from __future__ import annotations

import json
from pathlib import Path

from thresher.cli.output import as_json
from thresher.errors import InvalidFormat, InvalidSetting
from thresher.files import write_whole
from thresher.privacy import Plan


def write_plan(path: Path, plan: Plan) -> None:
    """Write a plan as JSON, whole or not at all."""
    write_whole(path, as_json(plan.to_dict()) + "\n")


def read_plan(path: Path, *, setting: str = "plan") -> Plan:
    """The plan in a file that `write_plan` wrote, or that has what `thresher plan --json` printed.

    Raises: `InvalidSetting` for a file that has no plan, or one whose guarantee does not hold.
    """
    if not path.exists():
        raise InvalidSetting(setting, f"{str(path)!r} does not exist", hint="Write one: thresher ledger plan --output.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InvalidSetting(setting, f"{str(path)!r} is not a file with JSON that can be read") from None
    inner = content.get("plan", content) if isinstance(content, dict) else content
    try:
        plan = Plan.from_dict(inner)
        plan.verify()
    except InvalidFormat as error:
        raise InvalidSetting(setting, f"{str(path)!r} has no plan that can be read", hint=error.message) from None
    return plan

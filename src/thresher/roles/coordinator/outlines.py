"""A query in short: without its long lists of values, for lists of queries and for progress."""

from __future__ import annotations

import json
from typing import Any

LONGEST = 4096
"""A query of at most this many characters is kept as it is."""
_LONG = ("domain", "edges", "groups", "probabilities")


def outlined(query: str) -> str:
    """A query's JSON without its lists of values: its domain, the edges of its bins, its groups, its
    probabilities.

    Guarantee: the plan, the verb and the columns are there. What is left has at most some ten thousand characters.
    Edge cases: a query of at most `LONGEST` characters, and one that cannot be read, are returned as they are.
    """
    if len(query) <= LONGEST:
        return query
    try:
        content = json.loads(query)
    except (ValueError, RecursionError):
        return query
    return json.dumps(_without(content), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def columns(query: dict[str, Any]) -> list[str]:
    """The attributes that a query asks for, whole or in short; an empty list if they cannot be read."""
    found = query["column"] if "column" in query else _named(query.get("question"))
    groups = query.get("by", [])
    names = [*(found if isinstance(found, list) else [found]), *(groups if isinstance(groups, list) else [])]
    return [name for name in names if isinstance(name, str)]


def _without(content: Any) -> Any:
    if isinstance(content, list):
        return [_without(part) for part in content]
    if isinstance(content, dict):
        return {name: _without(value) for name, value in content.items() if name not in _LONG}
    return content


def _named(question: Any) -> list[Any]:
    if not isinstance(question, dict):
        return []
    if isinstance(question.get("parts"), list):
        return [name for part in question["parts"] for name in _named(part)]
    names = question.get("columns", question.get("column", []))
    return names if isinstance(names, list) else [names]

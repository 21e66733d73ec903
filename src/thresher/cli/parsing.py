"""What a person types, as values."""

from __future__ import annotations

from pathlib import Path

from thresher.errors import InvalidSetting


def parsed_bins(text: str | None) -> list[float] | int | None:
    """Edges, or a number of bins."""
    if text is None:
        return None
    try:
        return [float(edge) for edge in text.split(",")] if "," in text else int(text)
    except ValueError:
        raise InvalidSetting("bins", "must be edges, as 0,18,65,130, or a whole number") from None


def parsed_types(declared: list[str] | None) -> dict[str, str] | None:
    """Columns with their types; the last equals sign counts, since a column's name may have one."""
    types = {}
    for text in declared or ():
        name, equals, kind = text.rpartition("=")
        if not equals or name in types:
            raise InvalidSetting(
                "type", "must be a column, an equals sign and a type, once a column, as age='whole numbers'"
            )
        types[name] = kind
    return types or None


def parsed_range(text: str) -> tuple[float, float]:
    """Two numbers, the lower first: read before anything is spent, so that a slip costs nothing."""
    first, _, second = text.partition(":")
    try:
        low, high = float(first), float(second)
    except ValueError:
        raise InvalidSetting("range", "must be two numbers with a colon between them, as 18:65") from None
    if not low <= high:
        raise InvalidSetting("range", "must have its lower end at or below its upper end, both numbers")
    return low, high


def parsed_lines(path: Path) -> list[str]:
    """The lines of a text file that are not empty."""
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line]
    except (OSError, UnicodeDecodeError):
        raise InvalidSetting("domain", f"{str(path)!r} cannot be read", hint="Give a text file.") from None

"""Lengths of time as people write them: "30d", "12h", or a `timedelta`."""

from __future__ import annotations

import datetime as dt
import re

from thresher.errors import InvalidSetting

_SECONDS = {"h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_LEAST, _MOST = 3600.0, 100 * 366 * 86_400.0


def check_period(value: object, *, setting: str = "period") -> float:
    """A budget's period in seconds: "30d", "12h", "4w", a number of seconds or a `timedelta`, from an hour on."""
    accepted = "Give a number of hours, days or weeks, for example `period='30d'`."
    if isinstance(value, dt.timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str) and (found := re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)\s*([hdw])", value.strip())):
        seconds = float(found[1]) * _SECONDS[found[2]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        raise InvalidSetting(setting, "must be a length of time", hint=accepted)
    if not _LEAST <= seconds <= _MOST:
        raise InvalidSetting(setting, "must be from an hour to a hundred years", hint=accepted)
    return seconds


def in_words(seconds: float) -> str:
    """A length of time for people."""
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            number = f"{seconds / size:.3g}"
            return f"{number} {name}" + ("" if number == "1" else "s")
    return f"{seconds:.3g} seconds"

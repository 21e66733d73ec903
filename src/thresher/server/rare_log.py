"""Limits log lines that anybody can cause, so that they cannot fill a disk."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

_LONGEST = 200


class Seldom(logging.Filter):
    """Lets a warning through at most once a minute; errors always, or with `errors` as seldom.

    Guarantee: remembers a fixed number of messages, by the beginning of their first line without what is filled in.
    """

    def __init__(
        self,
        seconds: float = 60.0,
        *,
        errors: bool = False,
        most: int = 100,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._highest = logging.CRITICAL if errors else logging.WARNING
        self._seconds = seconds
        self._most = most
        self._now = now
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written."""
        if record.levelno > self._highest:
            return True
        now, text = self._now(), str(record.msg).partition("\n")[0][:_LONGEST]
        if now - self._said.get(text, -math.inf) < self._seconds:
            return False
        while len(self._said) >= self._most:
            del self._said[next(iter(self._said))]
        self._said[text] = now
        return True

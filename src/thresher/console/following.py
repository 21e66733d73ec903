"""Series as people follow them: their answers over time. They are read once and kept, since a release never changes."""

from __future__ import annotations

import datetime as dt
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from thresher.charts.svg import Svg
from thresher.errors import InvalidFormat, InvalidSetting, QueryEnded, VerificationFailed
from thresher.protocol.series_messages import SeriesRelease, SeriesStatus
from thresher.protocol.states import ACTIVE_QUERY, QueryState
from thresher.tables.time_zones import zone_of
from thresher.verbs.changes import Changes
from thresher.verbs.over_time import OverTime
from thresher.verbs.readings import Reading

MOST_DATES = 370
"""How many of the newest dates are read: a year of days."""
_KEPT = 16
"""How many series are kept at a time."""
SMALL_LINES, _SMALL_HEIGHT = 3, 130.0
"""A small picture has the first lines of the last release, and so many pixels."""
_UNREADABLE = (InvalidFormat, InvalidSetting, QueryEnded, VerificationFailed)


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """The answers of a series over time, as far as they can be read."""

    over_time: OverTime | None
    """None where nothing can be followed; `problem` says why."""
    problem: str
    changes: Changes | None
    """Since the release before the last; None with fewer than two releases."""
    unread: int
    """Answers that cannot be read. They are gaps."""
    older: int
    """Dates before those that were read."""
    newest: str | None
    """The query of the last release that was read."""
    small: Svg | None
    """A small picture of the first numbers of the last release; None while nothing was released."""
    answers: dict[str, Any]
    """By the id of their query."""

    @property
    def latest(self) -> Sequence[Reading]:
        """The numbers of the last release."""
        if self.over_time is None or not self.over_time.readings:
            return ()
        return self.over_time.readings[-1].rows


class Following:
    """Reads the answers of series, and keeps those that were read lately.

    Guarantee: an answer of a kept series is replayed once. Two callers that ask for one series read it once.
    """

    def __init__(self, answer: Callable[[str], Any]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[int, Followed]] = OrderedDict()
        self._reading: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def read(self, status: SeriesStatus) -> Followed:
        """The answers of a series, whose status has its dates."""
        ended = [each for each in status.releases if each.state not in ACTIVE_QUERY]
        with self._lock:
            turn = self._reading.setdefault(status.id, threading.Lock())
        with turn:
            with self._lock:
                number, found = self._kept.get(status.id, (-1, None))
            if found is None or number < len(ended):
                found = self._read(status, ended, {} if found is None else found.answers)
                number = len(ended)
            with self._lock:
                self._kept[status.id] = number, found
                self._kept.move_to_end(status.id)
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return found

    def _read(self, status: SeriesStatus, ended: list[SeriesRelease], known: dict[str, Any]) -> Followed:
        shown = ended[-MOST_DATES:]
        zone = zone_of(status.schedule.time_zone)
        points, answers, newest, unread = [], {}, None, 0
        for each in shown:
            answer = None
            if each.query is not None and each.state == QueryState.DONE:
                try:
                    answer = known[each.query] if each.query in known else self._answer(each.query)
                    answers[each.query], newest = answer, each.query
                except _UNREADABLE:
                    unread += 1
            points.append((dt.datetime.fromtimestamp(each.due, zone), answer))
        over_time, changes, small, problem = None, None, None, ""
        if unread and not answers:
            problem = "The stored answers of this series cannot be read."
        else:
            try:
                over_time = OverTime(points)
            except InvalidSetting as error:
                problem = error.message
        if over_time is not None and over_time.released:
            last = [row.key for row in over_time.readings[-1].rows[:SMALL_LINES]]
            small = over_time.svg(buckets=last or None, most=SMALL_LINES, height=_SMALL_HEIGHT)
            if len(over_time.released) > 1:
                changes = over_time.changes()
        return Followed(over_time, problem, changes, unread, len(ended) - len(shown), newest, small, answers)

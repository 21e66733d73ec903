"""The calendar: on whose wall clock instants are counted, and which dates and times are counted at all.

A time with a zone is an instant, and is counted on the wall clock of one time zone, the same for all units: UTC unless
the caller names another. The zone of a column, a session or a cluster never matters. A time without a zone is
counted as it stands. Dates and times outside of the years 1 to 9999 are no value.
"""

from __future__ import annotations

import datetime as dt
import functools
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from thresher.errors import InvalidSetting
from thresher.tables.duckdb_connection import connected

UTC = "UTC"

FIRST_DAY, LAST_DAY = ((day - dt.date(1970, 1, 1)).days for day in (dt.date.min, dt.date.max))
"""The first day of the year 1 and the last of 9999, in days since 1970."""

_DAY = 86_400_000_000
INSTANTS = ((FIRST_DAY - 1) * _DAY, (LAST_DAY + 2) * _DAY - 1)
"""Microseconds since 1970 between which are all instants that some wall clock shows in the years 1 to 9999."""

SQL_IN_CALENDAR = "{0} BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
"""The test, in DuckDB's SQL, that a time is in the years 1 to 9999."""


def check_time_zone(name: Any) -> str:
    """The name of a time zone that both Python and DuckDB know; see `check_zone`."""
    check_zone(name)
    if name != UTC and not _known_to_duckdb(name):
        raise _unknown()
    return str(name)


def check_zone(name: Any) -> str:
    """The name of a time zone that Python knows, and that means the same on every machine.

    Edge cases: names are those of the IANA's database, case included. Where the machine has no such database, Python
    takes that of the package `tzdata`, which is installed with Thresher. "localtime" and the like are refused: they
    stand for the zone of the machine.
    """
    if not (name == UTC or (isinstance(name, str) and name in _zones())):
        raise _unknown()
    return str(name)


_MACHINE = {"localtime", "posixrules", "Factory"}
"""Names of the database that stand for the zone of the machine, or for none."""


@functools.cache  # it looks through a directory
def _zones() -> set[str]:
    return available_timezones() - _MACHINE


def _unknown() -> InvalidSetting:
    return InvalidSetting("time_zone", "must be the name of a time zone", hint="For example 'Europe/Paris'.")


def zone_of(name: str) -> dt.tzinfo:
    """The zone of a name that `check_time_zone` has checked."""
    return dt.UTC if name == UTC else ZoneInfo(name)


def shown_instants(name: str) -> tuple[int, int]:
    """The first and the last instant that a zone's wall clock shows in the years 1 to 9999, in microseconds."""
    shifts = (zone_of(name).utcoffset(time) or dt.timedelta() for time in (dt.datetime.min, dt.datetime.max))
    first, last = (shift // dt.timedelta(microseconds=1) for shift in shifts)
    return FIRST_DAY * _DAY - first, (LAST_DAY + 1) * _DAY - 1 - last


def _known_to_duckdb(name: str) -> bool:
    """Whether DuckDB, which has a list of its own, knows a zone. Otherwise it would fail after a query was charged."""
    with connected(threads=1) as connection:
        known = "SELECT count(*) FROM pg_timezone_names() WHERE name = ?"
        return bool(connection.execute(known, [name]).fetchall()[0][0])

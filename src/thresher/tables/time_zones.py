"""Time zones: on whose wall clock instants are counted.

A time with a zone is an instant, and is counted on the wall clock of one time zone, the same for all units: UTC unless
the caller names another. The zone that a column, a session or a cluster has never matters. A time without a zone is
counted as it stands.
"""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from thresher.errors import InvalidSetting

UTC = "UTC"

CALENDAR = (-62_135_683_200_000_000, 253_402_387_199_999_999)
"""Microseconds since 1970 between which are all instants that some wall clock shows in the years 1 to 9999."""


def check_time_zone(name: Any) -> str:
    """The name of a time zone that Python and the embedded engine know.

    Edge cases: names are those of the IANA's database, letter by letter. Where the machine has none, Python takes that
    of the package `tzdata`, which is installed with Thresher.
    """
    if name == UTC:
        return UTC
    if not (isinstance(name, str) and name in available_timezones() and _known_to_the_engine(name)):
        raise InvalidSetting(
            "time_zone",
            "must be the name of a time zone",
            hint="For example 'Europe/Paris'.",
        )
    return name


def zone_of(name: str) -> dt.tzinfo:
    """The zone of a name that `check_time_zone` has checked."""
    return dt.UTC if name == UTC else ZoneInfo(name)


def _known_to_the_engine(name: str) -> bool:
    """Whether DuckDB knows a zone too: it has a list of its own, and would stop only after a query was charged."""
    from thresher.tables.duckdb_engine import connected

    with connected(threads=1) as connection:
        known = "SELECT count(*) FROM pg_timezone_names() WHERE name = ?"
        return bool(connection.execute(known, [name]).fetchall()[0][0])

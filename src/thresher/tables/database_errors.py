"""What went wrong in a database, in our own words.

Drivers quote whole addresses with their passwords, and databases quote people's values. Their messages are never shown:
an error is sorted by its code, its type or a fixed phrase, and each sort has its own words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from thresher.errors import InvalidSetting, ThresherError
from thresher.tables.error_guard import withheld

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Trouble:
    """A sort of error: the setting that it is about (None for `sql` or `table`, whichever was given), and its words."""

    setting: str | None
    problem: str
    hint: str = ""

    def error(self, setting: str, where: object) -> InvalidSetting:
        """The error that says so; `where` names the database."""
        return InvalidSetting(self.setting or setting, f"{self.problem} ({where})", hint=self.hint)


LOGIN = Trouble(
    "data",
    "names a user whom the database refuses, or the password is wrong or missing",
    "Check the user and the password. PostgreSQL's driver also reads PGPASSWORD and ~/.pgpass.",
)
NO_DATABASE = Trouble("data", "names a database that does not exist", "Check the name after the last slash.")
UNREACHABLE = Trouble(
    "data", "cannot be reached", "Check the host, the port and the network, and that the database is running."
)
NO_TABLE = Trouble(None, "names a table that does not exist", "Check its name and its schema, as schema.name.")
NO_COLUMN = Trouble(None, "names a column or function that does not exist", "Check how the names are spelled.")
SYNTAX = Trouble(None, "is not valid in this database", "Give one SELECT as this database's own tools take it.")
DENIED = Trouble(None, "reads something that this user may not read", "Ask for the right to SELECT from it.")
STOPPED = Trouble(
    "data",
    "was not counted: the database stopped the query",
    "It took longer than statement_timeout or its like allows, or somebody cancelled it. Allow more time, or ask for "
    "fewer rows or columns.",
)
CHANGES = Trouble(None, "must only read: the database refuses to change anything here", "Give one SELECT.")
ABORTED = Trouble("data", "is a connection whose transaction has failed", "Roll it back: connection.rollback().")
BUSY = Trouble("data", "is locked by somebody else", "Try again later.")
THREAD = Trouble(
    "data",
    "is a connection that another thread made, and SQLite takes it in that thread alone",
    "Give the database's address, or a connection of this thread.",
)
FAILED = Trouble(
    "data",
    "could not be read by the database",
    "Its message is withheld, since it may quote people's values. Look for a lost connection, or an expression that "
    "fails for some rows.",
)

_STATES = {
    "28": LOGIN,
    "3D": NO_DATABASE,
    "08": UNREACHABLE,
    "57P01": UNREACHABLE,
    "57P02": UNREACHABLE,
    "57P03": UNREACHABLE,
    "57014": STOPPED,
    "25P02": ABORTED,
    "25006": CHANGES,
    "0A000": CHANGES,  # a WITH that changes data is not allowed in a subquery
    "55P03": BUSY,
    "42P01": NO_TABLE,
    "3F000": NO_TABLE,
    "42703": NO_COLUMN,
    "42883": NO_COLUMN,
    "42501": DENIED,
    "42": SYNTAX,
}
"""By SQLSTATE, or its first two characters."""

_NUMBERS = {
    1044: LOGIN,
    1045: LOGIN,
    1698: LOGIN,
    1049: NO_DATABASE,
    2002: UNREACHABLE,
    2003: UNREACHABLE,
    2005: UNREACHABLE,
    2006: UNREACHABLE,
    2013: UNREACHABLE,
    1053: UNREACHABLE,
    1927: UNREACHABLE,
    0: UNREACHABLE,  # PyMySQL's number for a connection that is closed
    1146: NO_TABLE,
    1054: NO_COLUMN,
    1305: NO_COLUMN,
    1064: SYNTAX,
    1142: DENIED,
    1143: DENIED,
    1205: BUSY,
    1317: STOPPED,
    1969: STOPPED,
    3024: STOPPED,
    1792: CHANGES,
}
"""By the numbers of MySQL and MariaDB."""

_TYPES = {
    "ParserException": SYNTAX,
    "BinderException": NO_COLUMN,
    "CatalogException": NO_TABLE,
    "TableNotFound": NO_TABLE,
    "InterruptException": STOPPED,
    "ConnectionTimeout": UNREACHABLE,
}
"""By the types of DuckDB, Ibis and psycopg."""

_PHRASES = {
    r"password|authentication|pg_hba|role .* does not exist|access denied": LOGIN,
    r"database .* does not exist|unknown database": NO_DATABASE,
    r"no such table|(table|relation).* does not exist": NO_TABLE,
    r"no such (column|function)": NO_COLUMN,
    r"syntax error|incomplete input|unrecognized token": SYNTAX,
    r"readonly database|read-only": CHANGES,
    r"created in a thread": THREAD,
    r"not authorized|prohibited|permission denied": DENIED,
    r"interrupted|timed? ?out|canceling statement": STOPPED,
    r"database.* is locked": BUSY,
    r"failed to connect|connection (to|refused|failed)|resolve|translate host|unreachable|closed|lost": UNREACHABLE,
}
"""By what the messages of SQLite, ADBC and libpq hold; the first that is found counts."""


def state_of(error: BaseException) -> str | None:
    """The SQLSTATE of an error, if it has one."""
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


NO_SAVEPOINT = 1305
"""The number with which MySQL and MariaDB say that there is no such savepoint, as where no transaction is open."""


def number_of(error: BaseException) -> Any:
    """The number of an error of MySQL or MariaDB, if it has one."""
    return getattr(error, "errno", None) or (error.args[0] if error.args else None)


def trouble(error: BaseException) -> Trouble:
    """The sort of an error of a driver or a database."""
    if state := state_of(error):
        return _STATES.get(state) or _STATES.get(state[:2]) or FAILED
    text = str(error)
    if "data-modifying" in text:  # DuckDB's word; its type of error is that of a missing column
        return CHANGES
    number = number_of(error)
    if isinstance(number, int) and number in _NUMBERS:
        return _NUMBERS[number]
    for kind in type(error).__mro__:
        if kind.__name__ in _TYPES:
            return NO_COLUMN if "function with name" in text.lower() else _TYPES[kind.__name__]
    return next((words for phrase, words in _PHRASES.items() if re.search(phrase, text, re.IGNORECASE)), FAILED)


def told(action: Callable[[], T], setting: str, where: object) -> T:
    """Run `action` before any row is read; an error that it raises becomes one in our words, about `sql` or `table`.

    `where` names the database in the error, as far as it may be shown.
    Guarantee: that of `withheld`.
    """
    return _sorted(action, lambda found: found.error(setting, where))


def told_of_rows(action: Callable[[], T], where: object) -> T:
    """Run `action`, which reads rows; an error that it raises says whether the query was stopped, and nothing else.

    Guarantee: that of `withheld`. Apart from a timeout, which whoever asks has seen on the clock, all errors are alike,
    since one row may cause any of them.
    """
    return _sorted(action, lambda found: (STOPPED if found is STOPPED else FAILED).error("data", where))


def _sorted(action: Callable[[], T], error_of: Callable[[Trouble], ThresherError]) -> T:
    found = FAILED

    def run() -> T:
        nonlocal found
        try:
            return action()
        except Exception as error:
            # To close a cursor after an error may be another error.
            found = next((sort for each in _chain(error) if (sort := trouble(each)) is not FAILED), FAILED)
            raise

    return withheld(run, lambda _: error_of(found))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those during which it was raised."""
    while error is not None:
        yield error
        error = error.__context__

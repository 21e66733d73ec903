"""Addresses of databases: how they are recognised, and what of them may be shown."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from thresher.errors import InvalidSetting
from thresher.tables.error_guard import withheld

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SECRET = re.compile(r"pass|pwd|secret|token|api_?key|private_?key|credential", re.IGNORECASE)
_CONNECTION_STRING = re.compile(r"\b(password|passwd|pwd|dbname)\s*=", re.IGNORECASE)


class DatabaseUrl(NamedTuple):
    """A database's address. Its user, password and parameters are never shown: `str` leaves them out."""

    url: str
    scheme: str
    """Without a driver: "postgresql" for postgresql+psycopg://."""
    place: str
    """What stands between the user and the parameters: host, port and the path, or the path of a file."""
    has_password: bool

    @property
    def without_driver(self) -> str:
        """The whole address without a driver, which libpq and Ibis do not know."""
        return f"{self.scheme}://{self.url.partition('://')[2]}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.place}"

    def __repr__(self) -> str:
        return f"<DatabaseUrl {self}>"


def database_url(text: str) -> DatabaseUrl | None:
    """The address that a text is; None for the path of a file.

    Raises: `InvalidSetting` for a text that is neither, but looks like one with a password. It is not repeated.
    """
    found = _URL.match(text)
    if found is None:
        if _CONNECTION_STRING.search(text):
            raise InvalidSetting(
                "data", "looks like a connection string", hint="Give it as a URL, as postgresql://host/database."
            )
        return None
    parts = withheld(lambda: urlsplit(text), lambda _: _invalid("is no valid address of a database"))
    # A password with a slash or a question mark in it ends the host too early: what follows has an @.
    if "@" in parts.path or "@" in parts.query or parts.fragment:
        raise _invalid("has an @ or # after its host")
    scheme = found[1].lower().partition("+")[0]
    # The path of a server's database may have parameters of its own.
    path, _, own = unquote(parts.path).partition(";") if parts.netloc else (unquote(parts.path), "", "")
    place = parts.netloc.rpartition("@")[2] + path
    names = [name for name, _ in parse_qsl(parts.query)]
    secret = parts.password is not None or bool(own) or any(map(_SECRET.search, names))
    return DatabaseUrl(text, "postgresql" if scheme == "postgres" else scheme, place, secret)


def _invalid(problem: str) -> InvalidSetting:
    return InvalidSetting(
        "data",
        problem,
        hint="In a user's name or password, @ is written %40, : is %3A, / is %2F, ? is %3F and # is %23.",
    )

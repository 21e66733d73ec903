"""In which encodings databases keep and send text, such that each text that anybody stores can be read here.

A server that cannot convert a text stops at the row that holds it, or sends another text. So encodings are looked at
before rows are: they are settings, and public.
"""

from __future__ import annotations

from thresher.errors import Hint, InvalidSetting

_KEPT = ("UTF8", "LATIN1")
"""PostgreSQL checks that text in UTF-8 is valid, and has a character of Unicode for each byte of Latin-1."""

CHARACTER_SETS = "SELECT @@character_set_client, @@character_set_connection, @@character_set_results"
"""What `check_mysql` looks at."""


def check_postgresql(server: str | None, client: str | None) -> None:
    """Require that PostgreSQL can send each text of a database, and that the client gets it in UTF-8."""
    if server not in _KEPT:
        raise InvalidSetting(
            "data",
            f"is a database whose server_encoding is {server}, which holds texts that are none in UTF-8",
            hint="One such text would stop the query. Copy the table into a database in UTF8 or LATIN1.",
        )
    if client != "UTF8":
        raise InvalidSetting(
            "data",
            f"is a connection whose client_encoding is {client}, which may lack letters of the texts that are stored",
            hint=Hint(
                "Set client_encoding to UTF8.",
                python="Call connection.set_client_encoding('UTF8') in psycopg2, give create_engine(…, "
                "client_encoding='utf8') in SQLAlchemy, or execute SET client_encoding TO 'UTF8'.",
            ),
        )


def check_sqlite(encoding: str) -> None:
    """Require that the bytes of SQLite's texts are UTF-8, as they are read here."""
    if encoding != "UTF-8":
        raise InvalidSetting(
            "data",
            f"is a database whose encoding is {encoding}, in which Thresher reads no text",
            hint="Copy it into a database in UTF-8: sqlite3 visits.db .dump | sqlite3 copy.db",
        )


def check_mysql(character_sets: list[str]) -> None:
    """Require that MySQL or MariaDB sends each text as it is. It would send ? for letters that others lack."""
    other = [each for each in character_sets if each != "utf8mb4"]
    if other:
        raise InvalidSetting(
            "data",
            f"is a connection whose character set is {other[0]}, which may lack letters of the texts that are stored",
            hint=Hint(
                "Let the address end in ?charset=utf8mb4.",
                python='Connect with charset="utf8mb4"; in an address, ?charset=utf8mb4.',
            ),
        )

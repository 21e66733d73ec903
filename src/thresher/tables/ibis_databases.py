"""Which database is behind an Ibis table, and whether its settings let everybody's text be read alike."""

from __future__ import annotations

from typing import Any

from thresher.errors import InvalidSetting
from thresher.tables.ibis_database import BigQuery, Database, Postgres, Sqlite, SqlServer, Trino
from thresher.tables.ibis_grouping import ClickHouse, Databricks, DataFusion, MySql, Redshift, Snowflake
from thresher.tables.text_encodings import CHARACTER_SETS, check_mysql, check_postgresql, check_sqlite

DATABASES: dict[str, Database] = {
    "postgres": Postgres(),
    "sqlite": Sqlite(),
    "bigquery": BigQuery(),
    "trino": Trino(),
    "athena": Trino(),
    "datafusion": DataFusion(),
    "clickhouse": ClickHouse(),
    "mysql": MySql(),
    "snowflake": Snowflake(),
    "databricks": Databricks(),
    "mssql": SqlServer(),
}
"""By the names of Ibis' backends."""


def database_of(backend: Any) -> Database:
    """What is known of the database that a backend is connected to.

    Guarantee: asks for its version and settings, and for nothing of its tables.
    Raises: `InvalidSetting` where one person's text could stop a query, or come here as another text.
    """
    if backend.name == "postgres":
        (version,) = _settings(backend, "SELECT version()")
        if "Redshift" in version:
            return Redshift()
        setting = backend.con.info.parameter_status
        encoding = setting("server_encoding")
        check_postgresql(encoding, setting("client_encoding"))
        if setting("standard_conforming_strings") != "on":
            raise InvalidSetting(
                "data", "is a connection on which standard_conforming_strings is off", hint="Set it to on."
            )
        known = version.startswith("PostgreSQL ") and int(version.split()[1].split(".")[0]) >= 13
        return DATABASES["postgres"] if known and encoding == "UTF8" else Database()
    if backend.name == "sqlite":
        check_sqlite(*backend.con.execute("PRAGMA encoding").fetchone())
    if backend.name == "mysql":
        check_mysql(_settings(backend, CHARACTER_SETS))
    return DATABASES.get(backend.name, Database())


def brought(table: Any) -> Any:
    """The same table in types that Ibis can bring here from its database."""
    return DATABASES.get(table.get_backend().name, Database()).brought(table)


def _settings(backend: Any, query: str) -> list[str]:
    with backend.con.cursor() as cursor:
        cursor.execute(query)
        return [str(setting) for setting in cursor.fetchone()]

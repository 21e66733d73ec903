"""Where the data of a command comes from."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator

from thresher.cli.options import FORMATS
from thresher.errors import InvalidSetting, ThresherError
from thresher.private_directory import PrivateDirectory
from thresher.tables.database_url import database_url

_ENVIRONMENT = "env:"


@contextlib.contextmanager
def opened(data: str, format: str | None) -> Iterator[str]:
    """What to read: a path or a database's address, or a private copy of standard input that is gone afterwards.

    SIGTERM ends the block like an error, so that what was written to disk is removed; the command ends with 143.
    """

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        with _source(data, format) as source:
            yield source
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _source(data: str, format: str | None) -> Iterator[str]:
    if data != "-":
        yield _address(data)
        return
    format = format or "csv"
    if format not in FORMATS:
        raise InvalidSetting("format", f"must be one of {', '.join(FORMATS)}")
    with PrivateDirectory() as folder:
        path = folder / f"standard-input.{format}"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield str(path)
        except ThresherError as error:
            for name in (f"`data` {str(path)!r}", repr(str(path))):
                error.call(name, "standard input")
            raise


def _address(data: str) -> str:
    """What was given, or what is in the environment under its name.

    Raises: `InvalidSetting` for an address with a password, which everybody on the machine could read.
    """
    if data.startswith(_ENVIRONMENT):
        name = data.removeprefix(_ENVIRONMENT)
        if not os.environ.get(name):
            raise InvalidSetting("data", f"is in the environment variable {name!r}, which is not set")
        return os.environ[name]
    url = database_url(data)
    if url is not None and url.has_password:
        raise InvalidSetting(
            "data",
            "has a password, and other users of this machine can read it in the list of processes",
            hint="Put the address into an environment variable, and give its name: env:DATABASE_URL. Or leave the "
            "password out: PostgreSQL's driver reads PGPASSWORD and ~/.pgpass.",
        )
    return data

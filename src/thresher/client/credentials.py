"""Secrets that are given in a file or in the environment. Everybody on a machine can read a command line.

For a setting called `key`, whose variable is THRESHER_KEY, a secret is looked for in this order: the given text, the
given file, THRESHER_KEY, the file that THRESHER_KEY_FILE names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from thresher.errors import InvalidSetting

KEY = "THRESHER_KEY"
ENROLMENT_KEY = "THRESHER_ENROLMENT_KEY"
ANALYST_KEY = "THRESHER_ANALYST_KEY"
STORE = "THRESHER_STORE"
ALERT_WEBHOOKS = "THRESHER_ALERT_WEBHOOKS"
ALERT_SECRET = "THRESHER_ALERT_SECRET"  # noqa: S105 - the name of the variable
_MOST = 64 << 10


def secret(
    setting: str,
    given: str | None,
    file: str | Path | None,
    variable: str,
    environment: Mapping[str, str] | None = None,
) -> str | None:
    """The secret, without the line break at its end; None if it is given nowhere.

    Edge cases: `InvalidSetting` if it is given twice, or if a file cannot be read or is empty. No error quotes the
    secret.
    """
    environment = os.environ if environment is None else environment
    if given and file is not None:
        raise InvalidSetting(setting, f"and `{setting}-file` cannot both be given")
    if given:
        return given
    if file is not None:
        return _read(f"{setting}-file", Path(file))
    if environment.get(variable):
        return environment[variable].strip()
    named = environment.get(f"{variable}_FILE")
    return _read(f"{variable}_FILE", Path(named)) if named else None


def _read(setting: str, file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(_MOST).strip()
    except (OSError, UnicodeDecodeError):
        raise InvalidSetting(setting, f"{str(file)!r} cannot be read") from None
    if not text:
        raise InvalidSetting(setting, f"{str(file)!r} is empty")
    return text


def check_no_password(setting: str, address: str) -> None:
    """Refuse a database's address that has a password in it, where everybody on the machine could read it."""
    try:
        parts = urlsplit(address)
        shown = parts.password is not None or "password" in parse_qs(parts.query)
    except ValueError:
        shown = False  # an address that cannot be parsed is refused where it is used
    if shown:
        raise InvalidSetting(
            setting,
            "has a password, which everybody on this machine could read in the process list",
            hint=f"Put the whole address into {STORE} or into a file for --{setting}-file, or leave the password out "
            "and put it into PGPASSWORD, a password file (PGPASSFILE) or a service file (postgresql://?service=name).",
        )

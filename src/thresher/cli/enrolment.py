"""`thresher fleet enrolment-keys|devices|revoke-device|revoke-devices`: for operators, at the collector."""

from __future__ import annotations

import contextlib
import datetime as dt
import json as json_module
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from thresher.cli import fleet_options as given
from thresher.cli import options
from thresher.cli.command_making import command, parameters_of
from thresher.cli.output import print_json, say
from thresher.cli.row_tables import show_table
from thresher.client import credentials
from thresher.client.connection import Connection
from thresher.errors import InvalidSetting

KeyId = Annotated[str, typer.Argument(metavar="KEY-ID", help="`fleet enrolment-keys` lists them.", show_default=False)]
DeviceId = Annotated[str, typer.Argument(metavar="ID", help="`fleet devices` lists them.", show_default=False)]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        help=f"A file with an operator's token, as operator.token in the data directory; or set {credentials.KEY} or "
        f"{credentials.KEY}_FILE.",
        show_default=False,
    ),
]
_KEYS = "/v1/operator/enrolment-keys"


def _at_collector(function: Callable[..., None]) -> Callable[..., None]:
    """A command of a function whose first argument is an operator's connection to the collector."""

    def run(server: given.Server, key_file: KeyFile = None, ca_file: given.CaFile = None, **own: Any) -> None:
        token = credentials.secret("key", None, key_file, credentials.KEY)
        if not token:
            raise InvalidSetting(
                "key-file", "is missing", hint="Name operator.token of the collector's data directory."
            )
        with contextlib.closing(Connection(server, token, ca_file=ca_file)) as connection:
            function(connection, **own)

    _, *own = parameters_of(function)
    return command(function.__name__, function.__doc__ or "", [*own, *parameters_of(run)], run)


@_at_collector
def enrolment_keys(connection: Connection, json: options.Json = False) -> None:
    """The keys that devices enrol with, without their secrets."""
    found = json_module.loads(connection.get(_KEYS))
    if json:
        print_json(found)
        return
    rows = [
        (key["id"], key["name"], "revoked" if key["revoked"] else "", str(key["enrolled"])) for key in found["keys"]
    ]
    show_table(("id", "name", "state", "devices"), rows)


@_at_collector
def devices(connection: Connection, key_id: KeyId, json: options.Json = False) -> None:
    """The devices that enrolled with a key, the last first: when they did and were last here, to the day."""
    found = json_module.loads(connection.get(f"{_KEYS}/{_id(key_id)}/devices"))
    if json:
        print_json(found)
        return
    rows = [
        (each["id"], _day(each["enrolled"]), _day(each["last_check_in"]), "revoked" if each["revoked"] else "")
        for each in found["devices"]
    ]
    show_table(("id", "enrolled", "last here", "state"), rows)
    if len(rows) < found["number"]:
        say(f"The last {len(rows):,} of {found['number']:,}.", "dim")


@_at_collector
def revoke_device(connection: Connection, device: DeviceId, json: options.Json = False) -> None:
    """Take nothing more of a device. Reports that were taken stay; this cannot be undone."""
    connection.delete(f"/v1/operator/devices/{_id(device)}")
    _done(1, json)


@_at_collector
def revoke_devices(connection: Connection, key_id: KeyId, json: options.Json = False) -> None:
    """Revoke an enrolment key and every device that enrolled with it. This cannot be undone."""
    found = json_module.loads(connection.delete(f"{_KEYS}/{_id(key_id)}/devices"))
    _done(found["revoked"], json)


COMMANDS: dict[str, Callable[..., None]] = {
    "enrolment-keys": enrolment_keys,
    "devices": devices,
    "revoke-device": revoke_device,
    "revoke-devices": revoke_devices,
}


def _id(text: str) -> str:
    if not text or not text.isascii() or not text.replace("-", "").replace("_", "").isalnum():
        raise InvalidSetting("id", "must be letters, digits and hyphens", hint="As the lists show it.")
    return text


def _done(number: int, json: bool) -> None:
    if json:
        print_json({"revoked": number})
    else:
        say("1 device was revoked." if number == 1 else f"{number:,} devices were revoked.")


def _day(seconds: float | None) -> str:
    return "" if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC).date().isoformat()

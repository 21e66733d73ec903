"""Options of `thresher fleet` that are not settings of a verb."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from thresher.cli.command_making import command, parameters_of
from thresher.cli.output import errors, say
from thresher.client.credentials import KEY
from thresher.client.fleet import Fleet

QueryId = Annotated[str, typer.Argument(metavar="ID", help="Its id; `fleet list` shows it.", show_default=False)]
SeriesId = Annotated[
    str, typer.Argument(metavar="ID", help="Its id; `fleet series list` shows it.", show_default=False)
]
Server = Annotated[str, typer.Option(help="The server's address.", envvar="THRESHER_SERVER", show_default=False)]
Key = Annotated[
    str | None,
    typer.Option(help="An analyst's token; everybody on the machine can read it here.", show_default=False),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(help=f"A file with an analyst's token; or set {KEY} or {KEY}_FILE.", show_default=False),
]
CaFile = Annotated[
    Path | None, typer.Option("--ca-file", help="Certificates to trust, in place of the system's.", show_default=False)
]
Seconds = Annotated[float | None, typer.Option(help="How long a round is open.", show_default=False)]
Completions = Annotated[
    int | None, typer.Option(help="Close a round when so many devices have completed it.", show_default=False)
]
UntilAll = Annotated[
    bool | None,
    typer.Option(
        "--until-all", help="Close a round when every device that is active has answered.", show_default=False
    ),
]
ContactRate = Annotated[
    float | None, typer.Option(help="The part of the devices that a round is shown to.", show_default=False)
]
SampledBy = Annotated[
    str | None,
    typer.Option(
        help="Who tosses the coins: aggregator (by default), or device, where nothing is promised against whoever can "
        "add devices or reports.",
        show_default=False,
    ),
]
BucketSize = Annotated[int | None, typer.Option(help="Bytes that an answer may have.", show_default=False)]


def connected(server: str, key: str | None, key_file: Path | None, ca_file: Path | None) -> Fleet:
    """The fleet at an address, with a token from the command line, a file or the environment."""
    warn_of_shown("key", key, KEY)
    return Fleet(server, key, key_file=key_file, ca_file=ca_file)


def on_fleet(function: Callable[..., None]) -> Callable[..., None]:
    """A command of a function whose first argument is a fleet: with options that say where it is and what opens it."""

    def run(server: Server, key: Key = None, key_file: KeyFile = None, ca_file: CaFile = None, **own: Any) -> None:
        with connected(server, key, key_file, ca_file) as fleet:
            function(fleet, **own)

    _, *own = parameters_of(function)
    return command(function.__name__, function.__doc__ or "", [*own, *parameters_of(run)], run)


def warn_of_shown(option: str, given: str | None, variable: str) -> None:
    """Say that a secret on a command line is no secret on this machine."""
    if given:
        say(f"--{option} shows a secret in the process list; --{option}-file PATH or {variable} does not.", on=errors)

"""`thresher look`: an open look at a file's first rows, to write down its columns' types."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Annotated

import typer

from thresher import tables as populations
from thresher.cli import options
from thresher.cli.data_errors import show_doubts, show_found
from thresher.cli.options import Data, Format
from thresher.cli.output import one_command, print_json, say
from thresher.cli.sources import opened
from thresher.tables import Look

WARNING = (
    "This is an open look at the data, not a private answer: single rows decide what is suggested. Declare types from "
    "what you know about the columns, and do not publish this."
)


_MOST = 20
"""Of more columns, only so many are listed."""


def look(
    data: Data,
    rows: Annotated[int, typer.Option(help="How many rows to look at.")] = 100,
    type: options.Types = None,
    sql: options.Sql = None,
    table: options.TableName = None,
    format: Format = None,
    show_data_errors: Annotated[
        bool,
        typer.Option(
            "--show-data-errors",
            help="Read the whole file too, and say which lines and columns cannot be read, and what to do.",
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Suggest the types of a CSV or JSON lines file's columns from its first rows. Not private.

    Of a database it shows the types that are declared there, and suggests those of columns that have none.

    All other commands count such columns as text unless --type declares them, so that no person's value can change
    the type of a release.
    """
    with opened(data, format) as source:
        seen = populations.look(
            source,
            rows,
            sql=sql,
            table=table,
            types=options.declared_types(type),
            format=format,
            show_data_errors=show_data_errors,
        )
    found = seen.data_errors
    if json:
        more = {} if found is None else found.to_dict()
        print_json({"private": False, "headless": seen.headless, "rows": seen.rows, "types": dict(seen.types), **more})
        return
    show_doubts(seen.doubts)
    say(WARNING, "yellow")
    _show_types(seen)
    if found is not None:
        show_found(found, json)


def _show_types(seen: Look) -> None:
    """Each column with its type, and the options that declare them; of very many the first, and how many there are."""
    listed = list(seen.types.items()) if len(seen.types) <= _MOST else list(seen.types.items())[:_MOST]
    for name, kind in listed:
        say(f"  {name}: {kind}")
    if more := len(seen.types) - len(listed):
        numbers = Counter(seen.types.values())
        counted = ", ".join(f"{number:,} {kind}" for kind, number in numbers.most_common())
        say(f"  and {more:,} more. In all: {counted}. Use --json for all.")
    declared = [
        f"--type {shlex.quote(f'{name}={kind}')}" for name, kind in listed if seen.declared.get(name) is not None
    ]
    if not seen.declared:
        say("Nothing to declare.")
    elif declared:
        say(one_command(declared))

"""Options that several commands share, with one wording."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from thresher.cli.completion import among, files
from thresher.errors import InvalidSetting
from thresher.privacy import settings

Epsilon = Annotated[float | None, typer.Option(help="Total epsilon.", show_default=False)]
Delta = Annotated[float | None, typer.Option(help="Total delta, for example 1e-8.", show_default=False)]
SamplingRate = Annotated[float | None, typer.Option(help="Fix the sampling rate, between 0 and 1.", show_default=False)]
Threshold = Annotated[int | None, typer.Option(help="Fix the threshold, 1 or more.", show_default=False)]
Rounds = Annotated[int, typer.Option(help="Rounds that share the guarantee.")]
Contributions = Annotated[
    int, typer.Option(help="Values of a unit that count in a round; it costs what so many rounds cost.")
]
Adjacency = Annotated[
    str,
    typer.Option(
        help="replace or add-remove: which change of one unit is hidden.",
        autocompletion=among(get_args(settings.Adjacency)),
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, and no progress.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress on standard error.")]
Data = Annotated[
    str,
    typer.Argument(
        help="A CSV, TSV, JSON lines or Parquet file, a glob, a directory (all Parquet files in it and in its "
        "subdirectories), - for standard input, a database's address without its password, or env:NAME for an address "
        "in an environment variable.",
        show_default=False,
        autocompletion=files,
    ),
]
Sql = Annotated[str | None, typer.Option(help="Rows of a database: one SELECT.", show_default=False)]
TableName = Annotated[
    str | None, typer.Option("--table", help="Rows of a database: a table, as schema.name.", show_default=False)
]
FORMATS = ("csv", "tsv", "jsonl", "parquet")
Format = Annotated[
    str | None,
    typer.Option(
        help="What a file is whose name does not say it, or standard input: csv, tsv, jsonl or parquet.",
        show_default="csv for standard input",
        autocompletion=among(FORMATS),
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        help="What the text of a column says, as age='whole numbers': text, whole numbers, floats, booleans, "
        "dates or times. CSV and JSON lines are text otherwise. Repeat it for several.",
        show_default=False,
    ),
]
ShowDataErrors = Annotated[
    bool,
    typer.Option(
        "--show-data-errors",
        help="Say which lines and columns cannot be read, and what to do, in place of an answer. Not private, but for "
        "whoever holds the data: single people's rows decide what is said. Nothing is drawn or charged.",
    ),
]


def declared_types(typed: list[str] | None) -> dict[str, str] | None:
    """Columns with their types; the last equals sign counts, since a column's name may have one."""
    types = {}
    for text in typed or ():
        name, equals, kind = text.rpartition("=")
        if not equals or name in types:
            raise InvalidSetting(
                "type", "must be a column, an equals sign and a type, once a column, as age='whole numbers'"
            )
        types[name] = kind
    return types or None

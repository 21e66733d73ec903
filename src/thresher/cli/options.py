"""Options that several commands share, with one wording."""

from __future__ import annotations

from typing import Annotated

import typer

Epsilon = Annotated[float | None, typer.Option(help="Total epsilon.", show_default=False)]
Delta = Annotated[float | None, typer.Option(help="Total delta, for example 1e-8.", show_default=False)]
SamplingRate = Annotated[float | None, typer.Option(help="Fix the sampling rate, between 0 and 1.", show_default=False)]
Threshold = Annotated[int | None, typer.Option(help="Fix the threshold, 1 or more.", show_default=False)]
Rounds = Annotated[int, typer.Option(help="Rounds that share the guarantee.")]
Contributions = Annotated[
    int, typer.Option(help="Values of a unit that count in a round; it costs what so many rounds cost.")
]
Adjacency = Annotated[str, typer.Option(help="replace or add-remove: which change of one unit is hidden.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Data = Annotated[
    str,
    typer.Argument(
        help="A CSV, TSV, JSON lines or Parquet file, a glob, - for standard input, a database's address without its "
        "password, or env:NAME for an address in an environment variable.",
        show_default=False,
    ),
]
Sql = Annotated[str | None, typer.Option(help="Rows of a database: one SELECT.", show_default=False)]
TableName = Annotated[
    str | None, typer.Option("--table", help="Rows of a database: a table, as schema.name.", show_default=False)
]
Format = Annotated[str, typer.Option(help="Format of standard input: csv, tsv, jsonl or parquet.")]

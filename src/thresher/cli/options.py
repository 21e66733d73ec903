"""Options that several commands share, with one wording."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from thresher.cli.completion import among, files
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
        help="A CSV, TSV, JSON lines or Parquet file, a glob, or - for standard input.",
        show_default=False,
        autocompletion=files,
    ),
]
FORMATS = ("csv", "tsv", "jsonl", "parquet")
Format = Annotated[
    str,
    typer.Option(help="Format of standard input: csv, tsv, jsonl or parquet.", autocompletion=among(FORMATS)),
]

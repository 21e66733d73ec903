"""`thresher histogram | heavy-hitters | quantiles | ranges`: the four verbs on files and standard input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from thresher.cli import options
from thresher.cli.answer_delivery import deliver, said_if_charged
from thresher.cli.output import check_files, console, range_row, rows_table
from thresher.cli.parsing import parsed_bins, parsed_lines, parsed_range, parsed_types
from thresher.cli.sources import opened, progress_bar
from thresher.ledger import Ledger
from thresher.privacy import Adjacency as AdjacencyName
from thresher.privacy import units
from thresher.verbs import asking as verbs

OTHER = "everything below the threshold is left out; how much that is, is not known"
NOTHING = (
    "Nothing was released: no value reached the threshold, or none could be read. In JSON lines, check the column's "
    "name. Text is read as numbers like 1000 and 7.5, dates like 2024-01-31, and true or false; see: thresher look"
)

Data = Annotated[
    str,
    typer.Argument(help="A CSV, TSV, JSON lines or Parquet file, a glob, or - for standard input.", show_default=False),
]
Column = Annotated[str, typer.Option(help="The column to ask about.", show_default=False)]
Unit = Annotated[
    str | None,
    typer.Option(
        help="The column that names the person, who then counts for one of its values, chosen at random; without it "
        "each row is one.",
        show_default=False,
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        help="What the text of a column says, as age='whole numbers': text, whole numbers, floats, booleans, dates or "
        "times. CSV and JSON lines are text otherwise. Repeat it for several.",
        show_default=False,
    ),
]
Format = Annotated[str, typer.Option(help="Format of standard input: csv, tsv, jsonl or parquet.")]
LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", help="Charge this ledger before anything is drawn.", show_default=False)
]
Plot = Annotated[Path | None, typer.Option(help="Write a picture: .png, .svg or .html.", show_default=False)]
Output = Annotated[Path | None, typer.Option(help="Write the answer, with its plan, as JSON.", show_default=False)]
Lower = Annotated[float, typer.Option(help="Public lower bound.", show_default=False)]
Upper = Annotated[float, typer.Option(help="Public upper bound.", show_default=False)]


def histogram(
    data: Data,
    column: Annotated[list[str], typer.Option(help="A column; repeat it for several together.", show_default=False)],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    unit: Unit = None,
    type: Types = None,
    adjacency: options.Adjacency = "replace",
    bins: Annotated[
        str | None, typer.Option(help="Edges, as 0,18,65,130, or a number of equal bins.", show_default=False)
    ] = None,
    bin_width: Annotated[float | None, typer.Option(help="Width of equal bins.", show_default=False)] = None,
    lower: Annotated[float | None, typer.Option(help="Public lower bound of bins.", show_default=False)] = None,
    upper: Annotated[float | None, typer.Option(help="Public upper bound of bins.", show_default=False)] = None,
    dates: Annotated[str | None, typer.Option(help="Cut dates to day, week or month.", show_default=False)] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(help="On whose wall clock times with a zone are counted, as Europe/Paris.", show_default="UTC"),
    ] = None,
    domain: Annotated[
        Path | None, typer.Option(help="A file with a public bucket a line, shown even if not released.")
    ] = None,
    format: Format = "csv",
    ledger: LedgerFile = None,
    plot: Plot = None,
    output: Output = None,
    json: options.Json = False,
) -> None:
    """How many units are counted under each value of a column.

    A unit is a row. With --unit it is a person, who counts for one of its values, chosen at random: an estimate is then
    how many persons are counted under a value, not how many hold it.
    """
    check_files(plot, output)
    book = _ledger(ledger)
    with opened(data, format) as source, progress_bar(json) as progress, said_if_charged(book):
        answer = verbs.histogram(
            source,
            column[0] if len(column) == 1 else column,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            types=parsed_types(type),
            adjacency=cast(AdjacencyName, adjacency),
            bins=parsed_bins(bins),
            bin_width=bin_width,
            lower=lower,
            upper=upper,
            dates=cast(Any, dates),
            time_zone=time_zone,
            domain=None if domain is None else parsed_lines(domain),
            ledger=book,
            progress=progress,
        )

    def show() -> None:
        console.print(rows_table(answer.to_arrow(), bars="estimate"))
        _promise(answer, unit, nothing=len(answer) == 0, other=True)

    deliver(answer, show, plot=plot, output=output, json=json)


def heavy_hitters(
    data: Data,
    column: Column,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    unit: Unit = None,
    type: Types = None,
    adjacency: options.Adjacency = "replace",
    method: Annotated[str, typer.Option(help="one-shot finds the most; trie asks level by level.")] = "one-shot",
    levels: Annotated[int | None, typer.Option(help="Levels of the trie.", show_default=False)] = None,
    step: Annotated[int, typer.Option(help="Characters a level.")] = 1,
    top: Annotated[int, typer.Option(help="How many to show.")] = 30,
    format: Format = "csv",
    ledger: LedgerFile = None,
    plot: Plot = None,
    output: Output = None,
    json: options.Json = False,
) -> None:
    """The common values of a text column, by how many units are counted under each.

    A unit is a row. With --unit it is a person, who counts for one of its values, chosen at random.
    """
    check_files(plot, output)
    book = _ledger(ledger)
    with opened(data, format) as source, progress_bar(json) as progress, said_if_charged(book):
        answer = verbs.heavy_hitters(
            source,
            column,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            types=parsed_types(type),
            adjacency=cast(AdjacencyName, adjacency),
            method=cast(Any, method),
            levels=levels,
            step=step,
            ledger=book,
            progress=progress,
        )

    def show() -> None:
        console.print(rows_table(answer.to_arrow(), bars="estimate", most=top))
        if method == "trie":
            console.print(answer.tree())
        _promise(answer, unit, nothing=len(answer) == 0, other=True)

    deliver(answer, show, plot=plot, output=output, json=json)


def quantiles(
    data: Data,
    column: Column,
    lower: Lower,
    upper: Upper,
    quantile: Annotated[
        list[float], typer.Option(help="A quantile, as 0.5; repeat it for several.", show_default=False)
    ],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    unit: Unit = None,
    type: Types = None,
    adjacency: options.Adjacency = "replace",
    method: Annotated[str, typer.Option(help="search or hierarchy.")] = "search",
    steps: Annotated[int | None, typer.Option(help="Rounds of search for each quantile.", show_default=False)] = None,
    levels: Annotated[int | None, typer.Option(help="Levels of the hierarchy.", show_default=False)] = None,
    branching: Annotated[int, typer.Option(help="How many times finer each level is.")] = verbs.BRANCHING,
    format: Format = "csv",
    ledger: LedgerFile = None,
    plot: Plot = None,
    output: Output = None,
    json: options.Json = False,
) -> None:
    """Quantiles: for each probability q, the value that a fraction q of all units lies below.

    A unit is a row. With --unit it is a person, who counts for one of its values, chosen at random.
    """
    check_files(plot, output)
    book = _ledger(ledger)
    with opened(data, format) as source, progress_bar(json) as progress, said_if_charged(book):
        answer = verbs.quantiles(
            source,
            column,
            quantile,
            lower=lower,
            upper=upper,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            types=parsed_types(type),
            adjacency=cast(AdjacencyName, adjacency),
            method=cast(Any, method),
            steps=steps,
            levels=levels,
            branching=branching,
            ledger=book,
            progress=progress,
        )

    def show() -> None:
        console.print(rows_table(answer.to_arrow()))
        _promise(answer, unit, nothing=all(len(release) == 0 for release in answer.releases))

    deliver(answer, show, plot=plot, output=output, json=json)


def ranges(
    data: Data,
    column: Column,
    lower: Lower,
    upper: Upper,
    range_: Annotated[
        list[str], typer.Option("--range", help="A range, as 18:65; repeat it for several.", show_default=False)
    ],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    unit: Unit = None,
    type: Types = None,
    adjacency: options.Adjacency = "replace",
    levels: Annotated[int | None, typer.Option(help="Levels of the hierarchy.", show_default=False)] = None,
    branching: Annotated[int, typer.Option(help="How many times finer each level is.")] = verbs.BRANCHING,
    format: Format = "csv",
    ledger: LedgerFile = None,
    plot: Plot = None,
    output: Output = None,
    json: options.Json = False,
) -> None:
    """How many units are counted in given ranges; all ranges together cost the same as one.

    A unit is a row. With --unit it is a person, who counts for one of its values, chosen at random.
    """
    wanted = [parsed_range(text) for text in range_]
    check_files(plot, output)
    book = _ledger(ledger)
    with opened(data, format) as source, progress_bar(json) as progress, said_if_charged(book):
        answer = verbs.ranges(
            source,
            column,
            lower=lower,
            upper=upper,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            types=parsed_types(type),
            adjacency=cast(AdjacencyName, adjacency),
            levels=levels,
            branching=branching,
            ledger=book,
            progress=progress,
        )
    rows = [range_row(answer, low, high) for low, high in wanted]

    def show() -> None:
        import pyarrow as pa

        console.print(rows_table(pa.Table.from_pylist(rows)))
        _promise(answer, unit, nothing=all(len(release) == 0 for release in answer.releases))

    deliver(answer, show, plot=plot, output=output, json=json, extra={"ranges": rows})


def _promise(answer: Any, unit: str | None, *, nothing: bool, other: bool = False) -> None:
    """What was left out, or why nothing may be there (from the release alone), and what is guaranteed to whom."""
    if nothing:
        console.print(NOTHING, soft_wrap=True)
    elif other:
        console.print(OTHER, style="dim")
    whom = units.Unit.of_table(unit).counting
    console.print(f"{answer.promise()}. {whom[0].upper()}{whom[1:]}.", style="dim", soft_wrap=True, markup=False)


def _ledger(path: Path | None) -> Ledger | None:
    return None if path is None else Ledger(path)

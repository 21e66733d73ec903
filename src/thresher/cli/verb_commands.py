"""A command for every verb, on tables and on fleets, made from the verbs' settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.text import Text

from thresher.cli import options
from thresher.cli.answer_delivery import deliver, said_if_charged
from thresher.cli.command_making import command, parameter, parameters_of
from thresher.cli.completion import among, columns, files
from thresher.cli.data_errors import show_doubts, show_found
from thresher.cli.output import check_files, console, range_rows, say
from thresher.cli.plan_files import read_plan
from thresher.cli.progress import progress_bar
from thresher.cli.row_tables import rows_table
from thresher.cli.sources import opened
from thresher.errors import InvalidSetting, ThresherError
from thresher.ledger import Ledger
from thresher.privacy.units import Unit
from thresher.tables import DataErrors
from thresher.verbs.answer import Answer, Listing
from thresher.verbs.asking import Target, answer_of, function_of, make
from thresher.verbs.places import SCREEN
from thresher.verbs.query import Query
from thresher.verbs.settings import Choice, Column, Columns, Listed, Setting, settings_of

OTHER = "everything below the threshold is left out; how much that is, is not known"
UNREAD = (
    "If that is a surprise, perhaps nothing could be read. In JSON lines, check the column's name. Text is read as "
    "numbers like 1000 and 7.5, dates like 2024-01-31, and true or false. Whoever holds the data can see what cannot "
    "be read: --show-data-errors."
)

Range = Annotated[
    list[str] | None,
    typer.Option("--range", help="A range to read off, as 18:65; repeat it for several.", show_default=False),
]
Top = Annotated[int, typer.Option(help="How many rows to show.", min=0)]
Plot = Annotated[
    Path | None,
    typer.Option(help="Write a picture: .png, .svg or .html.", show_default=False, autocompletion=files),
]
Output = Annotated[
    Path | None,
    typer.Option(help="Write the answer, with its plan, as JSON.", show_default=False, autocompletion=files),
]


def option(setting: Setting, *, required: bool = True) -> inspect.Parameter:
    """A command line option for a setting."""
    name = setting.option or setting.name
    if isinstance(setting, Choice):
        words = f" One of {', '.join(setting.choices)}."
    else:
        words = " Repeat it for several." if setting.option_type in (list[float], list[str]) else ""
    if isinstance(setting, Listed):
        words = " A file with one a line."
    shown: bool | str = setting.default not in (None, inspect.Parameter.empty)
    if setting.default is None and setting.is_rounds:
        shown = str(setting.usual)
    default = setting.default
    if setting.required and not required:
        default = None
    kind = setting.option_type if default is inspect.Parameter.empty else setting.option_type | None
    info = typer.Option(
        f"--{name.replace('_', '-')}", help=setting.help + words, show_default=shown, autocompletion=_completed(setting)
    )
    return parameter(setting.name, Annotated[kind, info], default)


def _completed(setting: Setting) -> Callable[..., list[str]] | None:
    """What a shell completes after the option of a setting."""
    if setting.choices:
        return among(setting.choices)
    if isinstance(setting, Column | Columns):
        return columns
    return files if isinstance(setting, Listed) else None


def typed(verb: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a verb as its function takes them, from what was typed; those that were not are left out."""
    return {
        name: setting.read(values[name])
        for name, setting in settings_of(function_of(verb)).items()
        if values.get(name) not in (None, [])
    }


def words_of(verb: str) -> str:
    """What a verb does, in the first paragraph of its documentation."""
    return (inspect.getdoc(function_of(verb)) or "").partition("\n\n")[0]


def table_command(verb: str) -> Callable[..., None]:
    """`thresher VERB FILE --column … --epsilon … --delta …`."""

    def ask(
        data: options.Data,
        epsilon: options.Epsilon = None,
        delta: options.Delta = None,
        unit: Annotated[
            str | None,
            typer.Option(
                help="The column that names the person, who then counts for one of its values, chosen at random; "
                "without it each row is one.",
                show_default=False,
                autocompletion=columns,
            ),
        ] = None,
        type: options.Types = None,
        sql: options.Sql = None,
        table: options.TableName = None,
        adjacency: options.Adjacency = "replace",
        plan: Annotated[
            Path | None,
            typer.Option(
                help="A file with the plan, as thresher ledger plan writes it, in place of --epsilon and --delta.",
                show_default=False,
                autocompletion=files,
            ),
        ] = None,
        time_zone: Annotated[
            str | None,
            typer.Option(
                help="On whose wall clock times with a zone are counted, as Europe/Paris.", show_default="UTC"
            ),
        ] = None,
        range_: Range = None,
        top: Top = SCREEN,
        format: options.Format = None,
        show_data_errors: options.ShowDataErrors = False,
        ledger: Annotated[
            Path | None,
            typer.Option(
                "--ledger",
                help="Charge this ledger before anything is drawn.",
                show_default=False,
                autocompletion=files,
            ),
        ] = None,
        plot: Plot = None,
        output: Output = None,
        quiet: options.Quiet = False,
        json: options.Json = False,
        **settings: Any,
    ) -> None:
        ranges = parsed_ranges(range_)
        check_files(plot, output)
        made = None if plan is None else read_plan(plan)
        if ranges:
            check_ranges(make(verb, Target(epsilon, delta, made, cast(Any, adjacency)), typed(verb, settings)), ranges)
        book = None if ledger is None else Ledger(ledger)
        with opened(data, format) as source, progress_bar(json or quiet) as progress, said_if_charged(book):
            answer = function_of(verb)(
                source,
                **typed(verb, settings),
                epsilon=epsilon,
                delta=delta,
                plan=made,
                unit=unit,
                types=options.declared_types(type),
                sql=sql,
                table=table,
                adjacency=adjacency,
                time_zone=time_zone,
                format=format,
                show_data_errors=show_data_errors,
                ledger=book,
                progress=progress,
            )
        if isinstance(answer, DataErrors):
            show_doubts([] if json else answer.doubts)
            show_found(answer, json)
            return

        def after() -> None:
            show_left_out(answer)
            if answer.empty:
                say(UNREAD, "dim")
            whom = Unit.of_table(unit).counting(answer.plan.contributions)
            said = f"{_sentence(answer.footing())}. {_sentence(whom)}."
            say(said, "dim")
            if took := _took(book, answer):
                say(took, "dim")

        rows = range_rows(answer, ranges)
        deliver(
            answer,
            lambda: show_answer(answer, rows, top, after),
            plot=plot,
            output=output,
            json=json,
            ranges=rows,
        )

    unit_words = (
        "A unit is a row. With --unit it is a person, who counts for one of its values, chosen at random: an estimate "
        "is how many units are counted under a value, not how many hold it."
    )
    described = settings_of(function_of(verb))
    if "contributions" in described:
        unit_words += " With --contributions it counts for each of its values, up to so many chosen at random."
    own = [option(setting) for setting in described.values()]
    common = [each for each in parameters_of(ask) if each.name != "range_" or answer_of(verb).reads_ranges]
    return command(verb, f"{words_of(verb)}\n\n{unit_words}", [common[0], *own, *common[1:]], ask)


def _took(ledger: Ledger | None, answer: Answer) -> str:
    """What the rounds of an answer took of a ledger's budget, and how many like it are left.

    Edge cases: empty where there is no ledger, or where it cannot be read now: the answer was paid for and is shown.
    """
    if ledger is None:
        return ""
    try:
        budget = ledger.budget
        return budget.took_in_words(budget.price(answer.plan), answer.rounds_asked)
    except ThresherError:
        return ""


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def show_answer(answer: Answer, ranges: list[dict[str, Any]], top: int, after: Callable[[], None]) -> None:
    """An answer for the terminal: ranges that were read off, or its rows; a tree if it has one; then what to know."""
    import pyarrow as pa

    listing, pairs = answer.listing(top), answer.pairs
    if ranges:
        listing = Listing(pa.Table.from_pylist(ranges).slice(0, top), max(len(ranges) - top, 0))
        pairs = Answer.pairs
    bars = "estimate" if answer.counted else None
    if answer.trie is None:
        console.print(rows_table(listing.table, bars=bars, hidden=listing.hidden, pairs=pairs, details=answer.details))
    else:
        tree = answer.tree(top)  # type: ignore[attr-defined]
        tree.label = Text("estimates, with 95 % intervals", style="dim")  # the guarantee follows below
        console.print(tree)
    if listing.note:
        say(listing.note, "dim")
    after()


def show_left_out(answer: Answer) -> None:
    """What an answer leaves out: all, if it is empty; what is in none of its rows, and how much, if known; its bias."""
    if nothing := answer.nothing_in_words():
        say(nothing)
    if (rest := answer.left_out) is not None:
        say(f"other: {rest.in_words()}", "dim")
    elif answer.counted and not answer.empty:
        say(OTHER, "dim")
    if answer.query.clipping:
        say(answer.query.clipping, "dim")


def column_argument(verb: str) -> inspect.Parameter:
    """The attributes of a fleet's query, as arguments."""
    several = isinstance(settings_of(function_of(verb))["column"], Columns)
    words = "The attribute to ask about" + ("; several are counted together." if several else ".")
    kind = list[str] if several else str
    return parameter("column", Annotated[kind, typer.Argument(help=words, show_default=False)])


def parsed_ranges(texts: Iterable[str] | None) -> list[tuple[float, float]]:
    """Ranges as they were typed: read before anything is spent, so that a slip costs nothing."""
    return [_range(text) for text in texts or ()]


def check_ranges(query: Query, ranges: Iterable[tuple[float, float]]) -> None:
    """Refuse, before anything is spent, ranges that cannot be read off the query's answer.

    Edge cases: whether a table's numbers are whole is not known yet, so no range may end after the upper bound.
    """
    for ends in ranges:
        query.check_range(*ends)


def _range(text: str) -> tuple[float, float]:
    first, _, second = text.partition(":")
    try:
        low, high = float(first), float(second)
    except ValueError:
        raise InvalidSetting("range", "must be two numbers with a colon between them, as 18:65") from None
    if not low <= high:
        raise InvalidSetting("range", "must have its lower end at or below its upper end, both numbers")
    return low, high

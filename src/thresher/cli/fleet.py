"""`thresher fleet query|list|show|watch|close|cancel|ledger`: ask a fleet, and follow its queries and its budget."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

from thresher.charts.numbers import percent
from thresher.cli import fleet_options as given
from thresher.cli import options
from thresher.cli.answer_delivery import deliver
from thresher.cli.budget_words import show_charges, spending
from thresher.cli.command_making import Commands, command, parameters_of
from thresher.cli.enrolment import COMMANDS
from thresher.cli.fleet_asking import AnyOrder, confirm, said_on_failure
from thresher.cli.fleet_options import on_fleet
from thresher.cli.fleet_series import app as series
from thresher.cli.output import check_files, errors, plain, print_json, range_rows, say
from thresher.cli.plan_files import read_plan
from thresher.cli.progress import round_bars
from thresher.cli.row_tables import show_table
from thresher.cli.verb_commands import (
    Output,
    Plot,
    Range,
    check_ranges,
    column_argument,
    option,
    parsed_ranges,
    show_answer,
    show_left_out,
    typed,
    words_of,
)
from thresher.client.fleet import Fleet, QueryHandle
from thresher.protocol.states import ACTIVE_QUERY
from thresher.verbs.asking import Target, answer_of, function_of, functions, make
from thresher.verbs.settings import settings_of

if TYPE_CHECKING:
    from thresher.protocol.analyst_messages import PlanPreview, QueryStatus

app = typer.Typer(help="Ask a fleet of devices, and follow its queries.", no_args_is_help=True, cls=Commands)
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)


def _query_command(verb: str) -> Callable[..., None]:
    """`thresher fleet query VERB COLUMN … --epsilon … --delta …`."""

    @on_fleet
    def query(
        connection: Fleet,
        epsilon: options.Epsilon = None,
        delta: options.Delta = None,
        plan_file: Annotated[
            Path | None,
            typer.Option(
                help="A file with the plan, as thresher ledger plan writes it, in place of --epsilon and --delta.",
                show_default=False,
            ),
        ] = None,
        range_: Range = None,
        seconds: given.Seconds = None,
        completions: given.Completions = None,
        until_all: given.UntilAll = None,
        contact_rate: given.ContactRate = None,
        sampled_by: given.SampledBy = None,
        bucket_size: given.BucketSize = None,
        name: Annotated[
            str | None,
            typer.Option(help="Its own name; the same name again is the same query.", show_default=False),
        ] = None,
        wait: Annotated[bool, typer.Option(help="Wait for the answer.")] = True,
        yes: Annotated[
            bool, typer.Option("--yes", help="Ask also where there are warnings, without being asked again.")
        ] = False,
        plan: Annotated[
            bool, typer.Option("--plan", help="Only say what it would cost, guarantee and see; nothing is charged.")
        ] = False,
        plot: Plot = None,
        output: Output = None,
        quiet: options.Quiet = False,
        json: options.Json = False,
        **settings: Any,
    ) -> None:
        ranges = parsed_ranges(range_)
        check_files(plot, output)
        made = None if plan_file is None else read_plan(plan_file, setting="plan-file")
        query = make(verb, Target(epsilon, delta, made), typed(verb, settings))
        check_ranges(query, ranges)
        fleet = connection.with_rounds(
            seconds=seconds,
            completions=completions,
            until_all=until_all,
            contact_rate=contact_rate,
            sampled_by=cast(Any, sampled_by),
            bucket_size=bucket_size,
        )
        preview = fleet.plan(query)
        if plan:
            _show_preview(preview, json)
            return
        confirm(preview.warnings, preview.cost_epsilon, preview.cost_delta, yes, price=preview.price)
        name = name or f"command-{secrets.token_hex(8)}"
        with said_on_failure(f"It may have been taken. The same command with --name {name} does not ask twice."):
            handle: QueryHandle = fleet.submit(query, wait=False, progress=None, name=name, warn=False)
        if wait and not json:
            _say_how_long(handle.status())
        with said_on_failure(f"What was drawn stays spent. thresher fleet show {handle.id} shows it."):
            status = _watched(handle, json or quiet) if wait else handle.status()
            _show(handle, status, json, plot=plot, output=output, ranges=ranges, must=wait)

    own = [option(each) for each in settings_of(function_of(verb)).values() if each.name != "column"]
    common = [each for each in parameters_of(query) if each.name != "range_" or answer_of(verb).reads_ranges]
    return command(verb, f"{words_of(verb)}\n\n{_WORDS}", [column_argument(verb), *own, *common], query)


_WORDS = "Ask a fleet, and wait for the answer. All rounds are reserved at once; those never asked are given back."
queries = typer.Typer(help=_WORDS, no_args_is_help=True, cls=AnyOrder)
for _verb in functions():
    queries.command(_verb.replace("_", "-"))(_query_command(_verb))
app.add_typer(queries, name="query")
app.add_typer(series, name="series")


@app.command("list")
@on_fleet
def list_queries(fleet: Fleet, json: options.Json = False) -> None:
    """All queries, the newest first."""
    queries = fleet.queries()
    if json:
        print_json({"queries": [plain(status) for status in queries]})
        return
    if not queries:
        say("Nothing has been asked yet.")
        return
    # Two lines a query: one could not hold all of it in 80 columns without cutting.
    for status in queries:
        done = sum(round.state == "released" for round in status.rounds)
        say(Text.assemble((status.id, "bold"), f"  {status.state:9}  {status.what}"))
        stated = "" if status.guarantees is None else f", epsilon {status.guarantees.analyst.epsilon:g}"
        cost = f"{done} of {status.rounds_planned} rounds{stated}"
        say(f"  {cost}, asked {_time(status.created)} by {status.by}", "dim")


@app.command("show")
@on_fleet
def show(
    fleet: Fleet,
    query: given.QueryId,
    range_: Range = None,
    plot: Plot = None,
    output: Output = None,
    json: options.Json = False,
) -> None:
    """Where a query stands, and its answer if it has one."""
    ranges = parsed_ranges(range_)
    check_files(plot, output)
    handle = fleet.query(query)
    _show(handle, handle.status(), json, plot=plot, output=output, ranges=ranges)


@app.command("watch")
@on_fleet
def watch(fleet: Fleet, query: given.QueryId, quiet: options.Quiet = False, json: options.Json = False) -> None:
    """Follow a query until it has ended, then show it."""
    handle = fleet.query(query)
    _show(handle, _watched(handle, json or quiet), json)


@app.command("close")
@on_fleet
def close(fleet: Fleet, query: given.QueryId, json: options.Json = False) -> None:
    """Close a query's open rounds now. What has completed counts, and the query goes on."""
    handle = fleet.query(query)
    _show(handle, handle.close_now(), json)


@app.command("cancel")
@on_fleet
def cancel(fleet: Fleet, query: given.QueryId, json: options.Json = False) -> None:
    """Stop a query. Reports of its open rounds are deleted unread; rounds that never opened are given back.

    A fleet whose budget adds up gives nothing back.
    """
    handle = fleet.query(query)
    _show(handle, handle.cancel(), json)


@app.command("ledger")
@on_fleet
def show_ledger(fleet: Fleet, json: options.Json = False) -> None:
    """The fleet's budget: what was spent, what is left, and every charge."""
    view = fleet.ledger()
    if json:
        print_json(plain(view))
        return
    each = "" if view.period is None else " in each period"
    promise = f"The fleet promises epsilon {view.epsilon:g} with delta {view.delta:g}{each}, for one {view.unit}."
    for words in [promise, *spending(view)]:
        say(words)
    if view.charges:
        show_charges(view)


def _watched(handle: QueryHandle, quiet: bool) -> QueryStatus:
    """Wait, and show how far it is on standard error; Ctrl-C ends the wait and not the query."""
    try:
        with round_bars(quiet) as look:
            return handle.wait(watch=look)
    except KeyboardInterrupt:
        follow, close, stop = (f"thresher fleet {command} {handle.id}" for command in ("watch", "close", "cancel"))
        say(f"The query goes on: {follow} follows it, {close} closes its rounds now, {stop} stops it.", on=errors)
        raise


def _say_how_long(status: QueryStatus) -> None:
    """Say on standard error how long the wait may be, and how to end it."""
    hint = f"thresher fleet close {status.id} closes its rounds now."
    say(f"{status.id}: {status.what}. {status.in_all} {hint}", "dim", on=errors)


def _show(
    handle: QueryHandle,
    status: QueryStatus,
    json: bool,
    *,
    plot: Path | None = None,
    output: Path | None = None,
    ranges: Sequence[tuple[float, float]] = (),
    must: bool = False,
) -> None:
    """The status, and the answer of a query that is done. With `must`, a query without one is an error."""
    answer = handle.result(timeout=0) if must or status.state == "done" else None
    if answer is None:
        if json:
            print_json({"verb": status.verb, "rows": None, "query": plain(status)})
        else:
            _show_status(status)
        return
    rows = range_rows(answer, ranges) if answer.reads_ranges else []

    def after() -> None:
        show_left_out(answer)
        if answer.stands_for is not None:
            only = "" if answer.asked_of is None else f", {answer.asked_of}"
            say(f"Numbers stand for {answer.stands_for}{only}.", "dim")
        say("Each device is a unit.", "dim")

    def show() -> None:
        _show_status(status)
        show_answer(answer, rows, 50, after)

    deliver(
        answer,
        show,
        plot=plot,
        output=output,
        json=json,
        ranges=rows,
        shown=lambda content: content | {"query": plain(status)},
        again=f"thresher fleet show {handle.id} shows it again",
    )


def _show_status(status: QueryStatus) -> None:
    say(Text.assemble((status.id, "bold"), f"  {status.what}: ", (status.state, "bold")))
    if status.problem:
        say(status.problem)
    if status.in_all and status.state in ACTIVE_QUERY:
        say(status.in_all, "dim")
    for words in [] if status.guarantees is None else status.guarantees.values.against_in_words():
        say(words, "dim")
    if not status.rounds:
        return
    rows = [
        (str(each.index + 1), each.state, *(f"{getattr(each, name):,}" for name in _NUMBERS), _time(each.deadline))
        for each in status.rounds
    ]
    show_table(("round", "state", *_NUMBERS, "closes"), rows, right=_NUMBERS)


_NUMBERS = ("asked", "contacted", "completed")


def _show_preview(preview: PlanPreview, json: bool) -> None:
    if json:
        print_json(plain(preview))
        return
    say(preview.what, "bold")
    for words in preview.words:
        say(f"• {words}")
    headings = ("bucket of", "is released", "typical error")
    errors_of = dict(preview.relative_error)
    show_table(
        headings,
        [(f"{size:,}", percent(seen), percent(errors_of[size])) for size, seen in preview.sees],
        right=headings,
    )
    say(
        f"{preview.devices:,} devices are active. It costs epsilon {preview.cost_epsilon:g} and delta "
        f"{preview.cost_delta:g}: " + ("it fits." if preview.fits else "it does not fit.")
    )
    say(preview.price)
    for caution in preview.warnings:
        say(f"Warning: {caution.text}", "bold")


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")

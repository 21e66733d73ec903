"""`thresher fleet series create|list|show|pause|resume|end`: one query asked again and again on a schedule.

`series_alerts` has its rules and alerts.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

from thresher.cli import fleet_options as given
from thresher.cli import options
from thresher.cli.command_making import Commands, command, parameters_of
from thresher.cli.fleet_asking import AnyOrder, confirm, said_on_failure
from thresher.cli.fleet_options import on_fleet
from thresher.cli.output import console, plain, print_json, say
from thresher.cli.row_tables import show_table
from thresher.cli.series_alerts import add_commands
from thresher.cli.verb_commands import column_argument, option, typed, words_of
from thresher.client.fleet import Fleet
from thresher.client.series_requests import SeriesSettings, series_request
from thresher.privacy.budget import percent
from thresher.protocol.states import SeriesState
from thresher.tables.time_zones import zone_of
from thresher.verbs.asking import function_of, functions
from thresher.verbs.settings import settings_of

if TYPE_CHECKING:
    from thresher.protocol.series_messages import SeriesPreview, SeriesStatus

_WORDS = (
    "Ask a fleet again and again on a schedule. What all releases cost together is reserved at once; what was never "
    "drawn is given back when the series ends."
)

app = typer.Typer(help="One query asked again and again on a schedule.", no_args_is_help=True, cls=Commands)
create = typer.Typer(help=_WORDS, no_args_is_help=True, cls=AnyOrder)
app.add_typer(create, name="create")

SeriesId = given.SeriesId
Every = Annotated[str, typer.Option(help="hour, day, week or month, or several, as '2 weeks'.", show_default=False)]
Releases = Annotated[int | None, typer.Option(help="How many releases in all.", show_default=False)]
Until = Annotated[
    str | None, typer.Option(help="The last date, in place of --releases, as 2026-12-31.", show_default=False)
]
Start = Annotated[
    str | None,
    typer.Option(help="The first date, as '2026-03-02 09:00', on the clocks of --time-zone.", show_default="now"),
]
TimeZone = Annotated[str, typer.Option(help="On whose wall clock dates are counted, as Europe/Paris.")]
Missed = Annotated[
    str,
    typer.Option(
        help="What becomes of a date while the server is down: skip leaves a gap, late asks until the next date is due."
    ),
]


def _create_command(verb: str) -> Callable[..., None]:
    """`thresher fleet series create VERB COLUMN … --every week --releases 52 --epsilon … --delta …`."""

    @on_fleet
    def make(
        connection: Fleet,
        every: Every,
        releases: Releases = None,
        until: Until = None,
        start: Start = None,
        time_zone: TimeZone = "UTC",
        missed: Missed = "skip",
        epsilon: Annotated[
            float | None, typer.Option(help="Total epsilon of all releases together.", show_default=False)
        ] = None,
        delta: Annotated[
            float | None, typer.Option(help="Total delta of all releases together.", show_default=False)
        ] = None,
        seconds: given.Seconds = None,
        completions: given.Completions = None,
        until_all: given.UntilAll = None,
        contact_rate: given.ContactRate = None,
        sampled_by: given.SampledBy = None,
        bucket_size: given.BucketSize = None,
        name: Annotated[
            str | None,
            typer.Option(help="Its own name; the same name again is the same series.", show_default=False),
        ] = None,
        yes: Annotated[
            bool, typer.Option("--yes", help="Ask also where there are warnings, without being asked again.")
        ] = False,
        plan: Annotated[
            bool,
            typer.Option("--plan", help="Only say what it would cost and see, and when it asks; nothing is reserved."),
        ] = False,
        json: options.Json = False,
        **settings: Any,
    ) -> None:
        fleet = connection.with_rounds(
            seconds=seconds,
            completions=completions,
            until_all=until_all,
            contact_rate=contact_rate,
            sampled_by=cast(Any, sampled_by),
            bucket_size=bucket_size,
        )
        chosen = SeriesSettings(
            every=every,
            releases=releases,
            until=until,
            start=start,
            time_zone=time_zone,
            missed=cast(Any, missed),
            epsilon=epsilon,
            delta=delta,
        )
        name = name or f"command-{secrets.token_hex(8)}"
        shown = console.is_terminal and not json
        with console.status("planning all releases") if shown else nullcontext():  # it may take some seconds
            request = series_request(verb, typed(verb, settings), chosen, name=name, rounds=fleet.rounds)
        preview = fleet.plan_series(request)
        if plan:
            _show_preview(preview, json)
            return
        confirm(preview.warnings, preview.cost_epsilon, preview.cost_delta, yes)
        with said_on_failure(f"It may have been taken. The same command with --name {name} does not ask twice."):
            handle = fleet.create_series(request, warn=False)
        _show(handle.status(), json)

    own = [option(each) for each in settings_of(function_of(verb)).values() if each.name != "column"]
    return command(verb, f"{words_of(verb)}\n\n{_WORDS}", [column_argument(verb), *own, *parameters_of(make)], make)


for _verb in functions():
    create.command(_verb.replace("_", "-"))(_create_command(_verb))


add_commands(app)


@app.command("list")
@on_fleet
def list_series(fleet: Fleet, json: options.Json = False) -> None:
    """All series, the newest first."""
    found = fleet.series_list()
    if json:
        print_json({"series": [plain(status) for status in found]})
        return
    if not found:
        say("There is no series yet.")
    for status in found:
        say(Text.assemble((status.id, "bold"), f"  {status.state:7}  {status.what}"))
        say(f"  {_progress(status)}", "dim")


@app.command("show")
@on_fleet
def show(fleet: Fleet, series: SeriesId, json: options.Json = False) -> None:
    """Where a series stands, and each of its dates so far; `fleet show` shows the answer of one."""
    _show(fleet.series_by_id(series).status(), json)


@app.command("pause")
@on_fleet
def pause(fleet: Fleet, series: SeriesId, json: options.Json = False) -> None:
    """Let dates pass without asking, until the series is resumed. A release that runs finishes."""
    _show(fleet.series_by_id(series).pause(), json)


@app.command("resume")
@on_fleet
def resume(fleet: Fleet, series: SeriesId, json: options.Json = False) -> None:
    """Ask again from the next date on."""
    _show(fleet.series_by_id(series).resume(), json)


@app.command("end")
@on_fleet
def end(fleet: Fleet, series: SeriesId, json: options.Json = False) -> None:
    """Ask no more. A release that runs finishes; then what was never drawn is given back."""
    _show(fleet.series_by_id(series).end(), json)


def _show(status: SeriesStatus, json: bool) -> None:
    if json:
        print_json(plain(status))
        return
    say(Text.assemble((status.id, "bold"), f"  {status.what}: ", (status.state, "bold")))
    say(_progress(status))
    if status.changed_by is not None:
        say(f"Last changed by {status.changed_by}, {_time(status, status.changed or 0.0)}.", "dim")
    for words in status.total.values.against_in_words():
        say(words, "dim")
    if not status.releases:
        return
    rows = [
        (str(each.index + 1), _time(status, each.due), str(each.gap or each.state), each.query or "–")
        for each in status.releases
    ]
    show_table(("release", "date", "state", "query"), rows)


def _progress(status: SeriesStatus) -> str:
    schedule = status.schedule
    following = "" if status.next is None else f", next {_time(status, status.next)}"
    if following and status.state == SeriesState.PAUSED:
        following += " if it is resumed"
    answers = f"{status.released} answer{'' if status.released == 1 else 's'}"
    return (
        f"every {schedule.every}, {answers}, {status.passed} of {schedule.releases} dates{following}, "
        f"epsilon {status.total.analyst.epsilon:g} in all, asked by {status.by}"
    )


def _show_preview(preview: SeriesPreview, json: bool) -> None:
    if json:
        print_json(plain(preview))
        return
    say(preview.release.what, "bold")
    for words in preview.words:
        say(f"• {words}")
    dates = ", ".join(_time(preview, date) for date in preview.dates)
    more = "" if len(preview.dates) == preview.schedule.releases else f" … {_time(preview, preview.last)}"
    say(f"Dates: {dates}{more}")
    fits = "it fits." if preview.fits else "it does not fit."
    say(f"{percent(preview.left_share)} of the budget is left: {fits}")
    for caution in preview.warnings:
        say(f"Warning: {caution.text}", "bold")


def _time(shown: SeriesStatus | SeriesPreview, seconds: float) -> str:
    """A time on the wall clock of the series."""
    return dt.datetime.fromtimestamp(seconds, zone_of(shown.schedule.time_zone)).strftime("%Y-%m-%d %H:%M %Z")

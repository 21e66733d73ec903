"""`thresher fleet series alert|rules|remove-rule|alerts`: rules on a series, and what they found."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

from thresher.cli import options
from thresher.cli.fleet_options import SeriesId, on_fleet
from thresher.cli.output import plain, print_json, say
from thresher.client.fleet import Fleet
from thresher.errors import InvalidSetting
from thresher.tables.time_zones import zone_of
from thresher.verbs.accuracy import CONFIDENCE
from thresher.verbs.alert_rules import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thresher.protocol.alert_messages import RuleStatus

RuleId = Annotated[
    str, typer.Argument(metavar="RULE", help="Its id; `fleet series rules` shows it.", show_default=False)
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to those of series."""
    for name, function in (("alert", alert), ("rules", rules), ("remove-rule", remove_rule), ("alerts", alerts)):
        app.command(name)(function)


@on_fleet
def alert(
    fleet: Fleet,
    series: SeriesId,
    above: Annotated[float | None, typer.Option(help="Alert above this number.", show_default=False)] = None,
    below: Annotated[float | None, typer.Option(help="Alert below this number.", show_default=False)] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Alert when a number has changed by more than its interval.")
    ] = False,
    bucket: Annotated[
        str | None,
        typer.Option(
            help="Which number, as it is shown: 2.0, or '50 %' of quantiles, or '0 to under 18' of ranges.",
            show_default="any",
        ),
    ] = None,
    judged_by: Annotated[
        str, typer.Option(help="interval: all of it lies beyond the number; or estimate.")
    ] = "interval",
    confidence: Annotated[float, typer.Option(help="Of the interval.")] = CONFIDENCE,
    webhook: Annotated[
        str | None,
        typer.Option(help="Post alerts to it: a name that the operator has allowed.", show_default=False),
    ] = None,
    json: options.Json = False,
) -> None:
    """Judge every release from now on by a rule: exactly one of --above, --below and --changed. It costs nothing."""
    kinds = {"above": above is not None, "below": below is not None, "changed": changed}
    chosen = [kind for kind, given in kinds.items() if given]
    if len(chosen) != 1:
        raise InvalidSetting("above", "or `below` or `changed` must be given, exactly one of them")
    rule = Rule(
        cast(Any, chosen[0]),
        above if above is not None else below,
        bucket=bucket,
        judged_by=cast(Any, judged_by),
        confidence=confidence,
    )
    added = fleet.series_by_id(series).alert(rule, webhook=webhook)
    if json:
        print_json(plain(added))
    else:
        _show_rules([added])


@on_fleet
def rules(fleet: Fleet, series: SeriesId, json: options.Json = False) -> None:
    """The rules of a series, and the webhooks that a rule may have."""
    found = fleet.series_by_id(series).rules_and_webhooks()
    if json:
        print_json(plain(found))
        return
    _show_rules(found.rules)
    allowed = ", ".join(found.webhooks) or "none"
    say(f"Webhooks that the operator has allowed: {allowed}.", "dim")


@on_fleet
def remove_rule(fleet: Fleet, series: SeriesId, rule: RuleId, json: options.Json = False) -> None:
    """Remove a rule of a series, and show those that are left. Alerts that it gave stay."""
    left = fleet.series_by_id(series).remove_rule(rule)
    if json:
        print_json({"rules": [plain(each) for each in left]})
    else:
        _show_rules(left)


@on_fleet
def alerts(fleet: Fleet, series: SeriesId, json: options.Json = False) -> None:
    """The newest alerts of a series, newest first."""
    handle = fleet.series_by_id(series)
    found = handle.alerts()
    if json:
        print_json({"alerts": [plain(each) for each in found]})
        return
    if not found:
        say("There is no alert yet.")
        return
    zone = zone_of(handle.status().schedule.time_zone)
    for each in found:
        date = dt.datetime.fromtimestamp(each.date, zone).strftime("%Y-%m-%d %H:%M %Z")
        told = "" if each.webhook is None else f", {each.webhook}: {each.delivery}"
        say(Text.assemble((date, "bold"), f"  {each.text}"))
        say(f"  {each.words} (rule {each.rule}{told})", "dim")


def _show_rules(rules: Sequence[RuleStatus]) -> None:
    if not rules:
        say("There is no rule.")
    for each in rules:
        told = "" if each.webhook is None else f", posts to {each.webhook}"
        standing = "  alert" if each.standing else ""
        say(Text.assemble((each.id, "bold"), f"  {each.words}{told}", (standing, "bold")))
        if each.problem is not None:
            say(f"  {each.problem}", "bold")

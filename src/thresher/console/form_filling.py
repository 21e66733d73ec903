"""The ask form, filled in with what was asked before."""

from __future__ import annotations

from typing import Any

from thresher.console.ask_form import filled, to_query, verb_form
from thresher.errors import ThresherError
from thresher.privacy.plans import Plan
from thresher.protocol.analyst_messages import RoundSettings
from thresher.protocol.schedules import Interval
from thresher.protocol.series_messages import SeriesStatus
from thresher.verbs.asking import function_of
from thresher.verbs.query import Query
from thresher.verbs.settings import settings_of, written


def fields_of(query: Query, rounds: RoundSettings | None = None) -> dict[str, str]:
    """The fields that make a query again, for the same epsilon and delta.

    Of `rounds` they have what the guarantee depends on; how long rounds are open stays the server's choice.
    Edge cases: the form makes the best plan for epsilon and delta, which a query from elsewhere may not have. Some
    queries cannot be made on the form at all; see `says_all`.
    """
    form, settings = verb_form(query.verb), query.arguments()
    fields = {
        "verb": query.verb,
        "attribute": settings_of(function_of(query.verb))["column"].write(settings["column"]),
        "epsilon": written(query.plan.epsilon),
        "delta": written(query.plan.delta),
    }
    for setting in form.settings():
        value = settings.get(setting.name)
        if value is not None:
            fields[form.field(setting.name)] = setting.write(value)
            if setting.group:
                fields[form.field("group")] = setting.group
    for setting in form.groups.get(fields.get(form.field("group"), ""), []):
        fields.setdefault(form.field(setting.name), "")  # what was not given is not the form's usual value
    if rounds is not None and rounds.contact_rate is not None:
        fields["contact"] = written(round(100 * rounds.contact_rate, 9))
    if rounds is not None and rounds.sampled_by is not None:
        fields["sampled_by"] = rounds.sampled_by
    return fields


def series_fields(status: SeriesStatus) -> dict[str, str]:
    """The fields that a series adds to those of its query: its total, and its schedule without the first date."""
    every, total = Interval.read(status.schedule.every), status.total.analyst
    return {
        "epsilon": written(total.epsilon),
        "delta": written(total.delta),
        "every": every.unit,
        "apart": str(every.number),
        "releases": str(status.schedule.releases),
        "time_zone": status.schedule.time_zone,
        "missed": status.schedule.missed,
    }


def says_all(query: Query, fields: dict[str, str]) -> bool:
    """Whether the fields make this very query, but for its plan."""

    def planner(epsilon: float, delta: float, **_: Any) -> Plan:
        return query.plan

    try:
        return to_query(filled(fields), planner) == query
    except ThresherError:
        return False

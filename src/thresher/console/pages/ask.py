"""Choose a verb and a target, see what the query would do and cost, then ask it."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from thresher.console import ask_form as asking
from thresher.console import schedule_form
from thresher.console.form_filling import fields_of, says_all, series_fields
from thresher.console.headers import is_fragment
from thresher.console.pages import ask_series
from thresher.console.plan_shown import Prepared, cautions, visibility_chart
from thresher.console.problem_words import shown_problem
from thresher.console.requests import PageRequest
from thresher.errors import Conflict, ThresherError
from thresher.protocol.analyst_messages import PlanPreview
from thresher.roles.coordinator.outlines import columns
from thresher.roles.tokens import token_hash
from thresher.server.problem import Refused
from thresher.verbs.query import query_from_dict

_UNLIKELY = Conflict(
    "There are warnings about this query; the plan has them.",
    hint="Change it. Or confirm once more, beside the plan, to ask it anyway.",
)
_NOT_ON_THE_FORM = Conflict(
    "The form cannot say all that this query asks.",
    hint="Check every field. The Python line on the page of the answer asks the very same.",
)


def show(request: PageRequest) -> Response:
    """The form, filled from the address, with its plan.

    `?like=` and the id of a query fills in what that query asked; `?like_series=` does the same for a series.
    """
    given, note = request.parameters, None
    if "like" in given or "like_series" in given:
        before, said = _as_before(request)
        given, note = {**before, **given}, None if said else _NOT_ON_THE_FORM
    fields = asking.filled(given)
    fields["name"] = fields["name"] or asking.new_name()
    return _page(request, fields, note)


def _as_before(request: PageRequest) -> tuple[dict[str, str], bool]:
    """The fields of what was asked before, and whether they say all of it."""
    given, analyst = request.parameters, request.console.analyst
    if "like" in given:
        asked = analyst.status(given["like"])
        query, more = query_from_dict(asked.query), dict[str, str]()
        fields = fields_of(query, asked.settings)
    else:
        series = analyst.series.status(given["like_series"])
        query, more = query_from_dict(series.query), series_fields(series)
        fields = fields_of(query, series.settings)
    return fields | more, says_all(query, fields)


def plan(request: PageRequest) -> Response:
    """The plan alone, for the script that follows the sliders. Of the plans of one session only the newest is made."""
    if not is_fragment(request.http):
        return show(request)
    this = request.session.newest_plan = object()
    try:
        with request.console.planning.turn(token_hash(request.session.token)):
            if request.session.newest_plan is this:
                return request.page("plan.html", **_plan(request, asking.filled(request.parameters)))
    except Refused:
        pass
    return Response("A newer plan was asked for, or too many are.", 429, {"Retry-After": "1"}, "text/plain")


def ask(request: PageRequest) -> Response:
    """Charge the query and run it, then watch it. A query that is refused comes back with the form and the reason.

    A query with warnings comes back too, with a second button; nothing is charged before that one is used.
    """
    fields = asking.filled(request.form)
    try:
        prepared = (ask_series.prepare if schedule_form.repeats(fields) else _once)(request, fields)
        if request.parameters.get("agreed") != prepared.agreed:
            # What is spent is what the button said, also if settings change under it.
            raise Conflict("The settings are not those of the plan that was shown.", hint="See the plan for them now.")
        against = [caution.code for caution in prepared.cautions()]
        if not set(against) <= set(request.parameters.get("anyway", "").split(",")):
            return _page(request, fields, _UNLIKELY, anyway=",".join(against))
        return request.redirect(prepared.start())
    except ThresherError as error:
        # A refused query keeps its name, so the next one gets another.
        return _page(request, {**fields, "name": asking.new_name()}, asking.as_on_the_form(error, fields))


def _once(request: PageRequest, fields: dict[str, str]) -> Prepared:
    query, analyst = asking.to_request(fields, request.console.compute), request.console.analyst
    return Prepared(
        asking.agreement(fields),
        lambda: analyst.preview(query).warnings,
        lambda: f"/queries/{analyst.submit(query, request.caller.name).id}",
    )


def _page(
    request: PageRequest, fields: dict[str, str], error: ThresherError | None = None, anyway: str = ""
) -> Response:
    known = {column for query in request.console.analyst.queries() for column in columns(query.query)}
    refused = None if error is None else shown_problem(error)
    return request.page(
        "ask.html",
        status=200 if refused is None else refused.status,
        fields=fields,
        attributes=sorted({*request.console.attributes, *known}),
        defaults=asking.defaults(),
        forms=asking.verb_forms(),
        often=schedule_form.CHOICES,
        once=schedule_form.ONCE,
        refused=refused,
        **{**_plan(request, fields), "anyway": anyway},
    )


def _plan(request: PageRequest, fields: dict[str, str]) -> dict[str, Any]:
    """What the plan's part of the page shows: a preview, or why there is none."""
    empty: dict[str, Any] = {
        "preview": None,
        "series": None,
        "problem": None,
        "wrong": "",
        "chart": "",
        "waiting": False,
        "anyway": "",
        "agreed": asking.agreement(fields),
    }
    if not fields["attribute"]:
        # A plan does not depend on the attribute's name: show one at once, and ask for the name before running.
        fields = {**fields, "attribute": "attribute"}
        empty["waiting"] = True
    try:
        if schedule_form.repeats(fields):
            return empty | ask_series.plan(request, fields, waiting=empty["waiting"])
        preview: PlanPreview = request.console.analyst.preview(asking.to_request(fields, request.console.compute))
    except ThresherError as error:
        problem = shown_problem(asking.as_on_the_form(error, fields))
        return {**empty, "problem": problem, "wrong": asking.field_of(error, fields)}
    against = cautions(preview, waiting=empty["waiting"])
    guarantees = preview.guarantees.values
    promise = guarantees.analyst.in_words()
    return {
        **empty,
        "preview": preview,
        "against": against,
        "promise": promise,
        "guarantees": guarantees,
        "words": [words for words in preview.words if words not in guarantees.in_words()],
        "chart": visibility_chart(preview.sampling_rate, preview.threshold, preview.smallest_visible),
        "ledger": request.console.analyst.ledger_view(),
    }

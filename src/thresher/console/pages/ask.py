"""Choose a verb and a target, see what the query would do and cost, then ask it."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.responses import Response

from thresher import charts
from thresher.charts.svg import Svg
from thresher.console import ask_form as asking
from thresher.console.headers import is_fragment
from thresher.console.requests import PageRequest
from thresher.errors import Conflict, ThresherError
from thresher.privacy.binomial import reach
from thresher.protocol.analyst_messages import PlanPreview
from thresher.roles.coordinator.outlines import columns
from thresher.roles.tokens import token_hash
from thresher.server.problem import Refused, problem_of

_UNLIKELY = Conflict(
    "This query may give no answer; the plan says why.",
    hint="Change it. Or confirm once more, beside the plan, to ask it anyway.",
)


def show(request: PageRequest) -> Response:
    """The form, filled from the address, with its plan."""
    fields = asking.filled(request.parameters)
    fields["name"] = fields["name"] or asking.new_name()
    return _page(request, fields)


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

    A query that may give no answer comes back too, with a second button; nothing is charged before that one is used.
    """
    analyst, fields = request.console.analyst, asking.filled(request.form)
    try:
        query = asking.to_request(fields, request.console.compute)
        if request.parameters.get("agreed") != asking.agreement(fields):
            # What is spent is what the button said, also if settings change under it.
            raise Conflict("The settings are not those of the plan that was shown.", hint="See the plan for them now.")
        against = [caution.code for caution in analyst.preview(query).warnings]
        if not set(against) <= set(request.parameters.get("anyway", "").split(",")):
            return _page(request, fields, _UNLIKELY, anyway=",".join(against))
        status = analyst.submit(query, request.caller.name)
    except ThresherError as error:
        # A refused query keeps its name, so the next one gets another.
        return _page(request, {**fields, "name": asking.new_name()}, asking.as_on_the_form(error, fields))
    return request.redirect(f"/queries/{status.id}")


def _page(
    request: PageRequest, fields: dict[str, str], error: ThresherError | None = None, anyway: str = ""
) -> Response:
    known = {column for query in request.console.analyst.queries() for column in columns(query.query)}
    refused = None if error is None else problem_of(error)
    return request.page(
        "ask.html",
        status=200 if refused is None else refused.status,
        fields=fields,
        attributes=sorted({*request.console.attributes, *known}),
        defaults=asking.defaults(),
        forms=asking.verb_forms(),
        refused=refused,
        **{**_plan(request, fields), "anyway": anyway},
    )


def _plan(request: PageRequest, fields: dict[str, str]) -> dict[str, Any]:
    """What the plan's part of the page shows: a preview, or why there is none."""
    empty: dict[str, Any] = {
        "preview": None,
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
        preview: PlanPreview = request.console.analyst.preview(asking.to_request(fields, request.console.compute))
    except ThresherError as error:
        problem = problem_of(asking.as_on_the_form(error, fields))
        return {**empty, "problem": problem, "wrong": asking.field_of(error, fields)}
    # While there is no name, none is wrong.
    against = [each for each in preview.warnings if not (empty["waiting"] and each.code == "unknown-attribute")]
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


def visibility_chart(rate: float, threshold: int, smallest_visible: int) -> Svg:
    """What a plan will see, from buckets of half the threshold to twelve times the smallest visible bucket."""
    sizes = np.unique(np.geomspace(max(threshold / 2, 1), 12 * smallest_visible, 120).round())
    return charts.visibility(sizes.tolist(), reach(sizes, threshold, rate).tolist(), smallest_visible)

"""Choose a verb and a target, see what it would do and cost, then ask."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from thresher.console import ask_form as asking
from thresher.console import pictures
from thresher.console.requests import Visit, is_fragment
from thresher.errors import Conflict, ThresherError
from thresher.protocol.analyst_messages import PlanPreview
from thresher.roles.coordinator.outlines import columns
from thresher.roles.tokens import token_hash
from thresher.server.problem import Refused, problem_of

_UNLIKELY = Conflict(
    "This query may give no answer; the plan says why.",
    hint="Change it. Or confirm once more, beside the plan, to ask it anyway.",
)


def show(visit: Visit) -> Response:
    """The form, filled from the address; where that names an attribute, with its plan."""
    fields = asking.filled(visit.asked)
    fields["name"] = fields["name"] or asking.new_name()
    return _page(visit, fields)


def plan(visit: Visit) -> Response:
    """The plan alone, for the script that follows the sliders."""
    if not is_fragment(visit.request):
        return show(visit)
    desk, caller = visit.office.planning, token_hash(visit.session.token)
    ticket = desk.draw(visit.identifier)
    later = Response("A newer plan was asked for, or too many are.", 429, {"Retry-After": "1"}, "text/plain")
    try:
        # One of a caller at a time: a slider must not fill the server with plans that nobody waits for.
        with desk.room.hold(caller), desk.turn(caller):
            if not desk.is_latest(visit.identifier, ticket):
                return later
            return visit.page("plan.html", **_plan(visit, asking.filled(visit.asked)))
    except Refused:
        return later


def ask(visit: Visit) -> Response:
    """Charge and run, then watch. What is refused comes back with the form and the reason.

    What may give no answer comes back too, with a second button; nothing is charged before that one is used.
    """
    fields = asking.filled(visit.form)
    try:
        request = asking.to_request(fields, visit.office.compute)
        if visit.asked.get("agreed") != asking.agreement(fields):
            # What the button said it spends is what is spent, also if settings change under it.
            raise Conflict("The settings are not those of the plan that was shown.", hint="See the plan for them now.")
        against = [caution.code for caution in visit.office.desk.preview(request).warnings]
        if not set(against) <= set(visit.asked.get("anyway", "").split(",")):
            return _page(visit, fields, _UNLIKELY, anyway=",".join(against))
        status = visit.office.desk.submit(request, visit.caller.name)
    except ThresherError as error:
        # A refused query keeps its name; what is asked next is another one.
        return _page(visit, {**fields, "name": asking.new_name()}, asking.as_on_the_form(error))
    return visit.go(f"/queries/{status.id}")


def _page(visit: Visit, fields: dict[str, str], error: ThresherError | None = None, anyway: str = "") -> Response:
    known = {column for query in visit.office.desk.queries() for column in columns(query.query)}
    content = _plan(visit, fields)
    refused = None if error is None else problem_of(error)
    return visit.page(
        "ask.html",
        status=200 if refused is None else refused.status,
        fields=fields,
        attributes=sorted({*visit.office.attributes, *known}),
        defaults=asking.DEFAULTS,
        refused=refused,
        **{**content, "anyway": anyway},
    )


def _plan(visit: Visit, fields: dict[str, str]) -> dict[str, Any]:
    """What the plan's part of the page shows: a preview, or why there is none."""
    empty: dict[str, Any] = {
        "preview": None,
        "problem": None,
        "wrong": "",
        "chart": "",
        "meter": pictures.meter,
        "waiting": False,
        "anyway": "",
        "agreed": asking.agreement(fields),
    }
    if not fields["attribute"]:
        # A plan does not depend on the attribute's name: show one at once, and ask for the name before running.
        fields = {**fields, "attribute": "attribute"}
        empty["waiting"] = True
    try:
        preview: PlanPreview = visit.office.desk.preview(asking.to_request(fields, visit.office.compute))
    except ThresherError as error:
        problem = asking.as_on_the_form(error)
        return {**empty, "problem": problem_of(problem), "wrong": asking.field_of(problem, fields)}
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
        "chart": pictures.seen(preview.sampling_rate, preview.threshold, preview.smallest_visible),
        "ledger": visit.office.desk.ledger_view(),
    }

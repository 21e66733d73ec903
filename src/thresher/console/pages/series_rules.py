"""The rules of a series: when somebody should look. Judging costs nothing."""

from __future__ import annotations

from typing import cast

from starlette.responses import Response

from thresher.console.requests import PageRequest
from thresher.protocol.alert_messages import RuleRequest
from thresher.verbs.alert_rules import Kind, Rule
from thresher.verbs.settings import read_number


def add(request: PageRequest) -> Response:
    """Judge the releases of the series by a rule, from now on."""
    form = {name: value.strip() for name, value in request.form.items()}
    bound = form.get("bound", "")
    kind = form.get("kind", "")
    rule = Rule(
        cast(Kind, kind),  # which the rule checks
        read_number(bound, "bound") if bound and kind != "changed" else None,
        form.get("bucket") or None,
    )
    asked = RuleRequest(rule=rule.to_dict(), webhook=form.get("webhook") or None)
    request.console.analyst.add_rule(request.series, asked, request.caller.name)
    return request.redirect(f"/series/{request.series}#alerts-title")


def remove(request: PageRequest) -> Response:
    """Judge by the rule no more. The alerts that it gave stay."""
    request.console.analyst.remove_rule(request.series, request.form.get("rule", ""))
    return request.redirect(f"/series/{request.series}#alerts-title")

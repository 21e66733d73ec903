"""The analyst's routes for alerts: the rules of a series, and what they found."""

from __future__ import annotations

from thresher.protocol.alert_messages import AlertList, RuleList, RuleRequest, RuleStatus
from thresher.server.analyst_routes import caller_of
from thresher.server.auth import ANALYST
from thresher.server.routing import Call, Routes

ROUTES = Routes("coordinator", ANALYST)


@ROUTES.add("POST", "/v1/series/{series}/rules", body=RuleRequest, reads=True, problems=(400, 404, 409, 422))
def add_rule(call: Call) -> RuleStatus:
    """Judge the releases of a series by a rule, from now on; adding the same rule again returns the first."""
    return call.services.the_coordinator.alerts.add(call.path["series"], call.body, caller_of(call))


@ROUTES.add("GET", "/v1/series/{series}/rules", problems=(404,))
def list_rules(call: Call) -> RuleList:
    """The rules of a series, and the names of the webhooks that a rule may have."""
    return call.services.the_coordinator.alerts.rules(call.path["series"])


@ROUTES.add("DELETE", "/v1/series/{series}/rules/{rule}", problems=(404,))
def remove_rule(call: Call) -> RuleList:
    """Remove a rule; returns those that are left. Alerts that it gave stay."""
    return call.services.the_coordinator.alerts.remove(call.path["series"], call.path["rule"])


@ROUTES.add("GET", "/v1/series/{series}/alerts", problems=(404,))
def list_alerts(call: Call) -> AlertList:
    """The newest alerts of a series, newest first."""
    return AlertList(alerts=call.services.the_coordinator.alerts.alerts(call.path["series"]))

"""Routes for whoever runs the machines: alive, ready, numbers, and the description of all routes. No token, no data."""

from __future__ import annotations

from typing import Literal

from thresher._version import __version__
from thresher.protocol.messages import Message
from thresher.server.auth import ANALYST
from thresher.server.metrics import CONTENT_TYPE
from thresher.server.routing import Call, Routes

ROUTES = Routes(None, ())


class Health(Message, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["alive"] = "alive"
    version: str = __version__


class Readiness(Message, frozen=True, kw_only=True):
    """Whether this server can do its work now; for each role "ready", or what is wrong."""

    status: Literal["ready", "not ready"]
    roles: dict[str, str]


@ROUTES.add("GET", "/healthz", at_once=True)
def health(call: Call) -> Health:
    """The process answers."""
    return Health()


@ROUTES.add("GET", "/readyz", answer=Readiness, alone=True)
def readiness(call: Call) -> tuple[int, Readiness]:
    """The server can do its work."""
    services = call.services
    roles = services.health()
    # A coordinator can do nothing without its peers. A collector takes reports all the same.
    needed = roles if services.coordinator is not None else services.checks
    ready = all(roles[role] == "ready" for role in needed)
    return (200 if ready else 503), Readiness(status="ready" if ready else "not ready", roles=roles)


@ROUTES.add("GET", "/metrics", answer=None, answers=CONTENT_TYPE, also=ANALYST, alone=True)
def metrics(call: Call) -> bytes:
    """Numbers as Prometheus text; none comes from data. Analysts also see alerts, and operators see more."""
    kind = None if call.identity is None else call.identity.kind
    return call.services.metrics.text(analyst=kind is not None, operator=kind == "operator")


@ROUTES.add("GET", "/openapi.json", answer=dict, at_once=True)
def openapi(call: Call) -> bytes:
    """This document."""
    return call.services.description


PATHS = frozenset(route.path for route in ROUTES)

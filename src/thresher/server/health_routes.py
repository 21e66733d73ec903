"""Routes for whoever runs the machines: alive, ready, numbers, and the description of all routes. No token, no data."""

from __future__ import annotations

from typing import Literal

from thresher._version import __version__
from thresher.protocol.messages import Message
from thresher.server.metrics import CONTENT_TYPE
from thresher.server.routing import Call, Route


class Health(Message, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["alive"] = "alive"
    version: str = __version__


class Readiness(Message, frozen=True, kw_only=True):
    """Whether this server can do its work now; for each role "ready", or what is wrong."""

    status: Literal["ready", "not ready"]
    roles: dict[str, str]


def _health(call: Call) -> Health:
    return Health()


def _ready(call: Call) -> tuple[int, Readiness]:
    services = call.services
    roles = services.health()
    # A coordinator can do nothing without its peers. A collector takes reports all the same.
    needed = roles if services.coordinator is not None else services.checks
    ready = all(roles[role] == "ready" for role in needed)
    return (200 if ready else 503), Readiness(status="ready" if ready else "not ready", roles=roles)


def _metrics(call: Call) -> bytes:
    return call.services.metrics.text(operator=call.identity is not None)


def _openapi(call: Call) -> bytes:
    return call.services.description


ROUTES = (
    Route("GET", "/healthz", "health", "The process answers.", (), None, _health, answer=Health, at_once=True),
    Route("GET", "/readyz", "readiness", "The server can do its work.", (), None, _ready, answer=Readiness, alone=True),
    Route(
        "GET", "/metrics", "metrics", "Numbers as Prometheus text; none comes from data. Operators see more.",
        (), None, _metrics, also=("operator",), answers=CONTENT_TYPE.decode(), alone=True,
    ),
    Route("GET", "/openapi.json", "openapi", "This document.", (), None, _openapi, answer=dict, at_once=True),
)  # fmt: skip

PATHS = frozenset(route.path for route in ROUTES)

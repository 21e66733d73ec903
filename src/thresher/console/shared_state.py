"""What all requests to one console share: the server's services, sessions, limits and small caches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment
from starlette.responses import HTMLResponse

from thresher.clock import Clock
from thresher.console.following import Following
from thresher.console.planning_turns import PlanningTurns
from thresher.console.ports import AnalystService, Caller, Operations, TokenChecker
from thresher.console.rendering import environment
from thresher.console.sessions import LoginForms, Sessions
from thresher.protocol.analyst_messages import QueryStatus
from thresher.roles.computing import Compute, here
from thresher.server.limits import Bodies, Rate, Shares, Streams, TokenBuckets
from thresher.server.problem import Refused
from thresher.server.shared_calls import Shared

_LOGINS, _REQUESTS = Rate(5, 200), Rate(100, 1_000)
_FORM_BYTES, _FORM_BYTES_EACH = 64 << 20, 4 << 20
_HEAVY, _HEAVY_EACH = 4, 2
_POLL_SECONDS = 0.4
_ANSWERS, _DESCRIPTIONS = 8, 256

Cached = Callable[[Callable[[AnalystService, str], Any], str], Any]
"""Calls a function with the analyst's service and a query's id, or returns what it returned before."""


@dataclass(eq=False)
class Console:
    """One console of a server."""

    analyst: AnalystService
    tokens: TokenChecker
    operations: Operations | None
    clock: Clock
    sessions: Sessions
    attributes: Sequence[str] = ()
    stopping: Callable[[], bool] = lambda: False
    compute: Compute = here
    """Where plans are computed."""
    form_seconds: float = 30.0
    """How long a form may take to arrive."""
    device_page: str | None = None
    """The address of a page that is a device."""
    requests: TokenBuckets = field(default_factory=lambda: TokenBuckets(_REQUESTS, most=10_000))
    """How many requests may be sent with the sessions of one token."""

    def __post_init__(self) -> None:
        self.templates: Environment = environment()
        self.login_forms = LoginForms()
        self.logins = TokenBuckets(_LOGINS, most=10_000)
        """How many sign-ins one address may try; kept in memory only."""
        self.planning = PlanningTurns()
        self.streams = Streams(200, 50)
        self.bodies = Bodies(_FORM_BYTES, _FORM_BYTES_EACH)
        """Bytes of forms that are being read."""
        self.heavy = Shares(_HEAVY, _HEAVY_EACH, _busy)
        """Held while a picture file is drawn or a guarantee is recomputed; each takes a processor for seconds."""
        self.answers: Cached = functools.lru_cache(_ANSWERS)(self._call)
        """Answers that were read lately. A release never changes, so neither does an answer."""
        self.descriptions: Cached = functools.lru_cache(_DESCRIPTIONS)(self._call)
        """What queries ask, for those that were watched lately."""
        self.following = Following(lambda query: self.analyst.answer(query))
        """The answers of series over time, for those that were looked at lately."""
        self.standings: Shared[str, QueryStatus] = Shared(lambda query: self.analyst.standing(query), _POLL_SECONDS)
        """The status of a query; all live pages that show the query share one poll."""
        self.callers: Shared[str, Caller | None] = Shared(lambda token: self.tokens.caller(token), _POLL_SECONDS)
        """Whose a token is; all live pages of the token share one poll."""

    def render(self, template: str, status: int = 200, **content: Any) -> HTMLResponse:
        """A page or a part of one. Without a `caller` it is for somebody who has not signed in, and has no menu."""
        return HTMLResponse(self.templates.get_template(template).render(content), status)

    def _call(self, function: Callable[[AnalystService, str], Any], query: str) -> Any:
        return function(self.analyst, query)


def _busy() -> Refused:
    return Refused(429, "busy", "Too much is being computed at the moment.", hint="Try again in a few seconds.")

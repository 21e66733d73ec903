"""The analyst's Python: a fleet is asked like a table.

    fleet = th.Fleet("https://fleet.example", key="thresher-analyst-…")
    th.histogram(fleet, "app_version", epsilon=1, delta=1e-8)                   # waits, with a progress bar
    handle = th.histogram(fleet, "app_version", epsilon=1, delta=1e-8, wait=False)
    handle.status(); handle.wait(); handle.result(); handle.close_now(); handle.cancel()

The server sends releases and nothing else; the answer is put together here, by the same code as for a table.
"""

from __future__ import annotations

import copy
import secrets
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from thresher.client import credentials
from thresher.client.connection import Connection
from thresher.client.series import SeriesHandle
from thresher.client.series_requests import Date, SeriesSettings, series_request, verb_settings
from thresher.errors import (
    BudgetExceeded,
    Conflict,
    InvalidSetting,
    QueryEnded,
    ServerUnavailable,
    ThresherWarning,
    VerificationFailed,
    WeakGuarantee,
)
from thresher.mechanism.release import Release
from thresher.privacy.plans import Plan
from thresher.privacy.settings import check_flag
from thresher.protocol.analyst_messages import (
    Caution,
    FleetView,
    LedgerView,
    PlanPreview,
    QueryRequest,
    QueryStatus,
    Releases,
    RoundSettings,
)
from thresher.protocol.messages import decode, encode
from thresher.protocol.rates import SampledBy
from thresher.protocol.schedules import Missed
from thresher.protocol.series_messages import SeriesList, SeriesPreview, SeriesRequest, SeriesStatus
from thresher.protocol.states import ENDED_QUERY, STOPPED_QUERY, QueryState, RoundState
from thresher.questions.population import Progress
from thresher.verbs.asking import QueryTaker
from thresher.verbs.drivers import replay
from thresher.verbs.query import Query, query_from_dict

_FIRST_LOOK = 0.1
_SLOWEST_LOOK = 2.0
_OPENING = 10.0
"""How many seconds rounds that are about to open are waited for, so that they can be closed."""


class Fleet(QueryTaker):
    """A server with its devices, as an analyst sees it; give it to the verbs in place of a table.

    Args:
        url: the server's address.
        key: the analyst's token; by default that of `key_file`, of the environment's THRESHER_KEY, or of the file that
            THRESHER_KEY_FILE names.
        key_file: a file with the token.
        ca_file: certificates to trust in place of the system's, in PEM form.
        patience: for how many seconds a request is tried again while the server does not answer.
        transport: an httpx transport, in place of the network.
        sleep: in place of `time.sleep`.

    Guarantee: a query is submitted under a name of its own, so that trying again after a lost answer neither asks nor
    charges twice.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        key_file: str | Path | None = None,
        ca_file: str | Path | None = None,
        patience: float = 60.0,
        transport: Any = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        token = credentials.secret("key", key, key_file, credentials.KEY)
        if not token:
            raise InvalidSetting(
                "key",
                "is missing",
                hint="Give a file with an analyst's token, as `key_file='analyst.token'`, or "
                f"set {credentials.KEY} or {credentials.KEY}_FILE.",
            )
        self._connection = Connection(url, token, ca_file=ca_file, patience=patience, transport=transport, sleep=sleep)
        self._sleep = sleep
        self._settings = RoundSettings()

    def with_rounds(
        self,
        *,
        seconds: float | None = None,
        completions: int | None = None,
        until_all: bool | None = None,
        contact_rate: float | None = None,
        sampled_by: SampledBy | None = None,
        bucket_size: int | None = None,
    ) -> Fleet:
        """The same fleet with other settings for the rounds of its queries; what is left out stays as it is.

        Args:
            seconds: how long a round is open.
            completions: a round also closes when this many devices have completed it.
            until_all: whether a round also closes when every device that was active in the last day has answered.
            contact_rate: the part of the devices that a round is shown to.
            sampled_by: who tosses the coins: "aggregator", the server's default, or "device". With device coins the
                aggregator sees less, and nothing is promised against somebody who can add devices or reports: they can
                test what one person holds.
            bucket_size: how many bytes an answer may have.

        Raises: `InvalidSetting` for a setting that is out of range.
        """
        given = {
            "seconds": seconds,
            "completions": completions,
            "until_all": until_all,
            "contact_rate": contact_rate,
            "sampled_by": sampled_by,
            "bucket_size": bucket_size,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        if until_all is not None:
            check_flag(until_all, setting="until_all")
        fleet = copy.copy(self)
        fleet._settings = msgspec.structs.replace(self._settings, **changes)
        return fleet

    @property
    def rounds(self) -> RoundSettings:
        """The settings of its queries' rounds; what is None is left to the server."""
        return self._settings

    def submit(
        self,
        query: Query,
        *,
        wait: bool = True,
        progress: Progress | None = None,
        name: str | None = None,
        warn: bool = True,
    ) -> Any:
        """Ask a query. Returns the answer when it is there, or with `wait=False` a `QueryHandle` at once.

        Args:
            query: the query; the verbs make it.
            wait: whether to wait for the answer.
            progress: called after each round; without it, a terminal shows a bar.
            name: the query's own name. Asking again under the same name returns the first query.
            warn: whether to look up reasons not to ask before anything is charged. Each is a `ThresherWarning`; turn
                those into errors to be stopped by them.

        Guarantee: a query that does not fit the budget, or cannot be asked, raises and costs nothing.
        Edge cases: interrupting the wait does not stop the query; `queries` finds it again.
        """

        check_flag(wait, setting="wait")
        check_flag(warn, setting="warn")
        request = self._request(query, name or _new_name())
        for caution in self.plan(query).warnings if warn else ():
            warnings.warn(_warning(caution), stacklevel=4)  # the line that called a verb
        try:
            status = decode(QueryStatus, self._connection.post("/v1/queries", encode(request)))
        except ServerUnavailable as error:
            error.hint = f"It may have been taken: asking again with `name={request.name!r}` does not ask twice."
            raise
        handle = QueryHandle(self, status.id, status)
        return handle.result(progress=progress) if wait else handle

    def plan(self, query: Query) -> PlanPreview:
        """What a query would cost, guarantee and see; charges nothing."""
        return decode(PlanPreview, self._connection.post("/v1/plans", encode(self._request(query, "preview"))))

    def queries(self) -> list[QueryStatus]:
        """All queries, the newest first."""
        return decode(dict[str, list[QueryStatus]], self._connection.get("/v1/queries"))["queries"]

    def query(self, id: str) -> QueryHandle:
        """A query by its id; nothing is asked of the server yet."""
        return QueryHandle(self, id)

    def series(
        self,
        verb: str | Callable[..., Any],
        *arguments: Any,
        every: str,
        releases: int | None = None,
        until: Date | None = None,
        start: Date | None = None,
        time_zone: str = "UTC",
        missed: Missed = "skip",
        epsilon: float | None = None,
        delta: float | None = None,
        plan: Plan | None = None,
        name: str | None = None,
        warn: bool = True,
        **settings: Any,
    ) -> SeriesHandle:
        """Ask one query again and again on a schedule. Returns at once; the server asks from now on.

        Args:
            verb: the verb, or its name: `thresher.histogram` or "histogram".
            arguments, settings: what the verb takes, but for the data.
            every: how often: "hour", "day", "week" or "month", or several of them, as "2 weeks".
            releases: how many times in all.
            until: the last date, in place of `releases`; a day without a time counts whole.
            start: the first date, as "2026-03-02 09:00", on the wall clock of `time_zone`; by default now.
            time_zone: on whose wall clock dates are counted, as "Europe/Paris".
            missed: what becomes of a date while the server was down: "skip" leaves a gap, "late" asks as soon as the
                server is back, until the next date is due.
            epsilon, delta: the guarantee of all releases together.
            plan: a plan for one release in place of epsilon; `delta` may then state the total delta.
            name: the series' own name. Asking again under the same name returns the first series.
            warn: whether to look up reasons not to ask before anything is reserved; see `submit`.

        Guarantee: all releases together are planned by exact composition, and their whole cost is reserved at once. A
        series that does not fit the budget, or cannot be asked, raises and costs nothing.

        Example:
            >>> series = fleet.series("histogram", "app_version", every="week", releases=52, epsilon=3, delta=1e-6)
            >>> series.status().next
            1767225600.0
        """
        given = SeriesSettings(
            every=every,
            releases=releases,
            until=until,
            start=start,
            time_zone=time_zone,
            missed=missed,
            epsilon=epsilon,
            delta=delta,
            plan=plan,
        )
        own, chosen = verb_settings(verb, arguments, settings)
        request = series_request(own, chosen, given, name=name or _new_name(), rounds=self._settings)
        return self.create_series(request, warn=warn)

    def create_series(self, request: SeriesRequest, *, warn: bool = True) -> SeriesHandle:
        """Start a series from its request; `series` makes one from a verb and its settings."""
        check_flag(warn, setting="warn")
        for caution in self.plan_series(request).warnings if warn else ():
            warnings.warn(_warning(caution), stacklevel=3)  # the line that called `series`
        try:
            status = decode(SeriesStatus, self._connection.post("/v1/series", encode(request)))
        except ServerUnavailable as error:
            error.hint = f"It may have been taken: asking again with `name={request.name!r}` does not ask twice."
            raise
        return SeriesHandle(self, status.id)

    def plan_series(self, request: SeriesRequest) -> SeriesPreview:
        """What a series would cost, guarantee and see, and its first dates; reserves nothing."""
        return decode(SeriesPreview, self._connection.post("/v1/series/plans", encode(request)))

    def series_list(self) -> list[SeriesStatus]:
        """All series without their dates, the newest first."""
        return decode(SeriesList, self._connection.get("/v1/series")).series

    def series_by_id(self, id: str) -> SeriesHandle:
        """A series by its id; nothing is asked of the server yet."""
        return SeriesHandle(self, id)

    def ledger(self) -> LedgerView:
        """The fleet's budget and every charge."""
        return decode(LedgerView, self._connection.get("/v1/ledger"))

    def overview(self) -> FleetView:
        """Devices enrolled and active, and the health of the roles."""
        return decode(FleetView, self._connection.get("/v1/fleet"))

    def close(self) -> None:
        """Close all connections, also those of copies made by `with_rounds`."""
        self._connection.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        given = msgspec.structs.asdict(self._settings).items()
        settings = "".join(f", {name}={value!r}" for name, value in given if value is not None)
        return f"<Fleet {self._connection.url}{settings}>"

    def _request(self, query: Query, name: str) -> QueryRequest:
        return QueryRequest(name=name, query=query.to_dict(), settings=self._settings)


def _new_name() -> str:
    return f"python-{secrets.token_hex(8)}"


def _between_steps(status: QueryStatus) -> bool:
    """Whether the rounds of a step have closed, and those of the next step are not planned.

    Rounds of the next step must not be closed in their place, before any device has seen them.
    """
    ahead = (RoundState.PLANNED, RoundState.OPEN)
    return bool(status.rounds) and not any(round.state in ahead for round in status.rounds)


def _warning(caution: Caution) -> ThresherWarning:
    """A caution of the server as the warning that Python draws."""
    return (WeakGuarantee if caution.code == WeakGuarantee.code else ThresherWarning)(caution.text)


class QueryHandle:
    """A query at the server: how it stands, its answer when it has one, and ways to close its rounds or to stop it."""

    def __init__(self, fleet: Fleet, id: str, known: QueryStatus | None = None) -> None:
        if not id or not id.isascii() or not id.replace("-", "").replace("_", "").isalnum():
            raise InvalidSetting("query", "must be the id of a query", hint="Fleet.queries lists them.")
        self._fleet = fleet
        self.id = id
        self._known = known

    def status(self) -> QueryStatus:
        """Where the query stands."""
        self._known = decode(QueryStatus, self._fleet._connection.get(f"/v1/queries/{self.id}"))
        return self._known

    def wait(self, timeout: float | None = None, *, watch: Callable[[QueryStatus], None] | None = None) -> QueryStatus:
        """Wait until the query has ended, or for `timeout` seconds; `watch` is called with every status meanwhile."""
        waited, pause = 0.0, _FIRST_LOOK
        while True:
            status = self.status()
            if watch is not None:
                watch(status)
            if status.state in ENDED_QUERY or (timeout is not None and waited >= timeout):
                return status
            pause = min(pause * 1.5, _SLOWEST_LOOK, timeout - waited if timeout is not None else _SLOWEST_LOOK)
            self._fleet._sleep(pause)
            waited += pause

    def result(self, timeout: float | None = None, *, progress: Progress | None = None) -> Any:
        """Wait for the answer: a `Histogram`, `HeavyHitters`, `Quantiles` or `Ranges`, as for a table.

        Edge cases: `QueryEnded` for a query that was cancelled or failed, `BudgetExceeded` for one that was refused,
        `Conflict` if it has not ended after `timeout` seconds.
        """
        from thresher.client.query_progress import watching

        with watching(progress) as watch:
            status = self.wait(timeout, watch=watch)
        return self._answer(status)

    def releases(self) -> list[Release]:
        """The releases so far, in order, each with its plan and certificate."""

        return [Release.from_json(text) for text in self._releases().releases]

    def replayed(self, query: Query) -> Any:
        """The answer of this query from its releases; `VerificationFailed` if they do not answer what it asks."""
        found = self._releases()
        if len(found.questions) != len(found.releases):
            raise VerificationFailed(
                "The server does not say what its releases answer.", hint="Upgrade the server to this version."
            )
        return replay(query, [Release.from_json(text) for text in found.releases], found.questions)

    def _releases(self) -> Releases:
        return decode(Releases, self._fleet._connection.get(f"/v1/queries/{self.id}/releases"))

    def close_now(self) -> QueryStatus:
        """Close the open rounds of the query now: what has completed counts, and the query goes on.

        Rounds that are about to open, as right after the query was asked, are waited for, for up to 10 seconds.

        Edge cases: a query that has ended stays as it is. `Conflict` where no round is open or about to open: the last
        ones have closed, and the next ones depend on their releases. Rounds of later steps are open for their whole
        time.
        """
        waited, pause = 0.0, _FIRST_LOOK
        while True:
            try:
                return decode(QueryStatus, self._fleet._connection.post(f"/v1/queries/{self.id}/close"))
            except Conflict:
                if waited >= _OPENING or _between_steps(self.status()):
                    raise
            self._fleet._sleep(pause)
            waited, pause = waited + pause, min(pause * 1.5, _SLOWEST_LOOK)

    def cancel(self) -> QueryStatus:
        """Stop the query: reports of its open rounds are deleted unread, and rounds that never opened are given back.

        A fleet whose budget adds up gives nothing back.
        """
        return decode(QueryStatus, self._fleet._connection.post(f"/v1/queries/{self.id}/cancel"))

    def __repr__(self) -> str:
        known = self._known
        last = "" if known is None else f": {known.what}, {known.state} when last looked at. {known.in_all}".rstrip()
        return f"<QueryHandle {self.id} at {self._fleet._connection.url}{last}>"

    def _answer(self, status: QueryStatus) -> Any:
        if status.state == QueryState.REFUSED:
            raise BudgetExceeded(status.problem or "The budget was exceeded.", hint="Nothing was charged.")
        if status.state in STOPPED_QUERY:
            raise QueryEnded(
                f"The query ended without an answer: it is {status.state}. {status.problem or ''}".strip(),
                hint="Rounds that were drawn stay charged.",
            )
        if status.state != QueryState.DONE:
            raise Conflict("This query is not done yet.", hint="Wait for its last round.")
        return self.replayed(query_from_dict(status.query))

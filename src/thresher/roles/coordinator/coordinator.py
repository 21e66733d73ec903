"""The coordinator: takes queries, charges the ledger, runs their rounds, keeps releases.

    received ──charge──▶ running ──last release──▶ done
       │                    ├──cancel──▶ cancelled
       └──no budget──▶ refused  └──cannot go on──▶ failed

The store holds everything. `step` reads it and does what comes next. After a crash anywhere the next `step` goes on,
because each thing that it does may be done again (docs/protocol.md, sections 2, 3 and 7).
"""

from __future__ import annotations

import functools
import logging
import secrets
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from thresher.clock import Clock
from thresher.device.policy import Policy
from thresher.errors import (
    BudgetExceeded,
    Conflict,
    InvalidFormat,
    InvalidSetting,
    NotFound,
    QueryEnded,
    ThresherError,
    VerificationFailed,
)
from thresher.ledger import Ledger
from thresher.protocol.analyst_messages import (
    FleetView,
    LedgerView,
    PlanPreview,
    QueryRequest,
    QueryStatus,
    RoundSettings,
)
from thresher.protocol.messages import canonical, check_name
from thresher.protocol.states import ACTIVE_QUERY, STOPPED_QUERY, QueryState, RoundState
from thresher.roles.computing import Compute, here
from thresher.roles.coordinator import previews, views
from thresher.roles.coordinator.admission import DEFAULTS, Admitted, admit, filled
from thresher.roles.coordinator.alerts import AlertKeeper
from thresher.roles.coordinator.cautions import Public
from thresher.roles.coordinator.payments import Payments
from thresher.roles.coordinator.round_runner import RETRY_SECONDS, UNAVAILABLE, CannotGoOn, RoundRunner, question_of
from thresher.roles.coordinator.series import SeriesKeeper
from thresher.roles.coordinator.store import CoordinatorStore, StoredQuery
from thresher.roles.ports import AggregatorPort, CollectorPort
from thresher.verbs.drivers import Done

_log = logging.getLogger("thresher.coordinator")

_TRIES = 5
"""A query fails for good after this many errors in a row. A role that is down is no error."""
_REFUSED = 100
"""How many refused queries are kept. They cost nothing, so that without a limit they could fill the store."""
_ANSWERS = 64
"""Answers that are kept in memory."""


def _new_id() -> str:
    return f"q{secrets.token_hex(8)}"


def _found(query: StoredQuery | None) -> StoredQuery:
    if query is None:
        raise NotFound("There is no such query.", hint="GET /v1/queries or thresher fleet list lists them.")
    return query


def _code_of(error: Exception) -> str:
    """Why a query fails, in a word, without any value."""
    if isinstance(error, Conflict):  # a role knows the round otherwise, as after one of the stores was restored
        return "stores-differ"
    return error.code if isinstance(error, ThresherError) else "internal"


class Coordinator:
    """The role as a plain class on any clock.

    Guarantee: a query's rounds are reserved before the first of them is planned, and each is charged before it opens;
    those that never opened are given back once the query has ended. A ledger that lacks a charge of the store's queries
    is refused. All releases of a query's step are stored before its next step is planned, and never replaced. Methods
    may be called from any thread. One `step` runs at a time; no other method waits for it.
    """

    def __init__(
        self,
        store: CoordinatorStore,
        ledger: Ledger,
        clock: Clock,
        collector: CollectorPort,
        aggregator: AggregatorPort,
        fleet: str,
        defaults: RoundSettings = DEFAULTS,
        *,
        policy: Policy | None = None,
        most_open: int = 32,
        new_id: Callable[[], str] = _new_id,
        compute: Compute = here,
        webhooks: Collection[str] = (),
        public_url: str | None = None,
    ) -> None:
        """`webhooks` are the names of those that alerts may be posted to; `public_url` is where people reach this."""
        self.payments = Payments(ledger, store, fleet)
        """The fleet's ledger, held against the store."""
        self._store = store
        self._ledger = ledger
        self._clock = clock
        self._collector = collector
        self._aggregator = aggregator
        self._defaults = filled(defaults, DEFAULTS)
        self.policy = policy or Policy()
        """What devices agree to, as the operator states it. A device may have another policy."""
        self._most_open = most_open
        self._new_id = new_id
        self._compute = compute
        self._runner = RoundRunner(store, clock, collector, aggregator, fleet, self.payments)
        self._fleet = check_name("fleet", fleet)
        # Held while a query is stored and charged, so that no other charge comes between the check and the entry.
        self._charging = threading.RLock()
        self._stepping = threading.Lock()
        self._to_forget: set[str] = set()  # stopped queries that may have reports left
        self._looked = False  # whether those from before the start are among them
        self._failures: dict[str, int] = {}
        self.series = SeriesKeeper(
            store,
            self.payments,
            clock,
            defaults=self._defaults,
            compute=compute,
            charging=self._charging,
            stepping=self._stepping,
            public=self._public,
        )
        """The series: one query asked again and again on a schedule."""
        self.alerts = AlertKeeper(
            store, clock, answer=self.answer, compute=compute, webhooks=webhooks, public_url=public_url
        )
        """Rules on series, and what they found."""
        self._replayed = functools.lru_cache(maxsize=_ANSWERS)(self._replay)

    # What an analyst may do.

    def preview(self, request: QueryRequest | bytes, come_back: float = 0.0) -> PlanPreview:
        """What a query would do, and reasons not to ask it; charges nothing. A request in bytes is decoded first.

        `come_back` is the number of seconds between two visits of a device; 0 if it is not known.
        """
        budget, public = self._ledger.budget, self._public(come_back)
        preview: PlanPreview = self._compute(previews.preview, request, self._defaults, budget, public)
        return preview

    def _public(self, come_back: float) -> Public:
        return Public.of(
            self._collector.overview().active,
            self.policy,
            self._ledger,
            now=self._clock.now(),
            come_back=come_back,
        )

    def submit(self, request: QueryRequest | bytes, by: str) -> QueryStatus:
        """Store a query, charge it, and start it; returns its status. A request in bytes is decoded first.

        Guarantee: idempotent by `by` and the request's name. A request that fails a check is not stored. A query that
        does not fit the budget is not charged; it is stored as refused, for a while.
        Edge cases: another request under a name that is taken is a `Conflict`.
        """
        admitted: Admitted = self._compute(admit, request, self._defaults)
        with self._charging:
            stored = self._store.named(by, admitted.name)
            if stored is None:
                # Another coordinator may have used this store since the start.
                self.payments.check()
                self._check_room()
                stored = self._create(admitted, by)
            if not views.same_request(stored, admitted.request_hash):
                raise Conflict("Another query is stored under this name.", hint="Choose another name.")
            if stored.state == QueryState.REFUSED:
                raise BudgetExceeded(stored.problem or "The budget was exceeded.", hint="Nothing was charged.")
            self._charge(stored)
        return self.standing(stored.id)

    def cancel(self, query: str, by: str) -> QueryStatus:
        """Stop a query and forget its open rounds' reports unread; rounds that never opened are given back.

        Edge cases: a query that has ended stays as it is. `by` is who cancels, not necessarily who asked.
        """
        _found(self._store.outline(query))
        with self._charging:  # not between a charge and the mark that it was made
            stopped = self._end(query, QueryState.CANCELLED)
        if stopped:
            self._to_forget.add(query)
            # A step that is at work finishes it; otherwise it is done here and now.
            if self._stepping.acquire(blocking=False):
                try:
                    self._forget_stopped()
                    self.series.finish()
                    self.payments.settle()
                finally:
                    self._stepping.release()
        return self.standing(query)

    def close_rounds(self, query: str) -> QueryStatus:
        """Close the open rounds of a query now: what has completed counts. The next `step` closes them.

        Guarantee: stored, so that a crash does not lose it. All rounds of a step are closed, or none. While they are
        open, a second time changes nothing.
        Edge cases: a query that has ended stays as it is. `Conflict` where a query goes on and no round of it is open,
        or some are still opening; nothing is changed then. Rounds of later steps are open for their whole time.
        """
        _found(self._store.outline(query))
        if self._store.end_open_rounds(query, self._clock.now()) == 0:
            standing = self.standing(query)
            if standing.state in ACTIVE_QUERY:
                opening = any(round.state == RoundState.PLANNED for round in standing.rounds)
                raise Conflict(
                    "The rounds of this query are still opening." if opening else "No round of this query is open now.",
                    hint="Nothing was closed. Try again in a moment.",
                )
        return self.standing(query)

    def status(self, query: str) -> QueryStatus:
        """Where a query stands; `NotFound` if there is none."""
        return views.status(self._find(query), self._store.shown_rounds(query), self._runner.live)

    def status_json(self, query: str) -> bytes:
        """The status as JSON, as it is sent. A long query is copied without being decoded."""
        return views.written(self.standing(query), self._find(query))

    def standing(self, query: str) -> QueryStatus:
        """Where a query stands, without its lists of values; `NotFound` if there is none."""
        return views.status(_found(self._store.outline(query)), self._store.shown_rounds(query), self._runner.live)

    def queries(self) -> list[QueryStatus]:
        """All queries without their lists of values, the newest first."""
        found, rounds = reversed(self._store.queries()), self._store.all_shown_rounds()
        return [views.status(query, rounds.get(query.id, ()), self._runner.live) for query in found]

    def releases(self, query: str) -> list[str]:
        """The stored releases, in order, each as `Release.to_json` wrote it."""
        _found(self._store.outline(query))
        return self._store.releases(query)

    def asked(self, query: str) -> list[Any]:
        """What the stored releases answer, in order, each question as `Question.to_dict` wrote it."""
        number = len(self.releases(query))
        return [question_of(round) for round in self._store.rounds(query)[:number]]

    def answer(self, query: str) -> Any:
        """The answer of a query that is done, replayed from its stored releases."""
        stored = _found(self._store.outline(query))
        if stored.state in ACTIVE_QUERY:
            raise Conflict("This query is not done yet.", hint="Wait for its last round.")
        if stored.state != QueryState.DONE:
            raise QueryEnded(f"This query ended without an answer: it is {stored.state}.")
        return self._replayed(query)

    def _replay(self, query: str) -> Any:
        try:
            at = self._runner.standing(self._find(query))
        except CannotGoOn:
            at = None
        if not isinstance(at, Done):
            raise VerificationFailed("The stored releases do not give this query's answer.")
        return at.answer

    def ledger_view(self) -> LedgerView:
        """The budget and every charge."""
        return views.ledger_view(self._ledger, self._store.asked_by(), self._store.series_asked_by())

    def fleet_view(self) -> FleetView:
        """The fleet at a glance."""
        return views.fleet_view(self._fleet, self._collector, self._aggregator)

    def keys_in_use(self) -> set[str]:
        """The keys that rounds without a release are sealed to; others may be retired.

        Edge cases: a round whose configuration cannot be read needs no key, since nobody can release it.
        """
        keys = set()
        for round in self._store.unfinished_rounds():
            with suppress(CannotGoOn):
                keys.add(self._runner.configuration(round).key_id)
        return keys

    # What the loop does.

    def step(self) -> float | None:
        """Advance every query as far as it goes without waiting; seconds until something may be due, None if nothing.

        Guarantee: never waits for devices. A role that is down leaves all as it is, to be tried again; one query that
        cannot go on does not hold up the others.
        """
        with self._stepping:
            try:
                waits = [self.series.ask_due()]
                waits += [self._guarded(query) for query in self._store.queries(ACTIVE_QUERY)]
                waits += [self._forget_stopped(), self.series.finish(), self.alerts.judge_due()]
                self.payments.settle()
            except UNAVAILABLE:
                return RETRY_SECONDS
        return min((wait for wait in waits if wait is not None), default=None)

    def _guarded(self, query: StoredQuery) -> float | None:
        """One query's part of a step. Its errors do not stop the other queries."""
        try:
            wait = self._take_up(query) if query.state == QueryState.RECEIVED else self._advance(query)
        except UNAVAILABLE:
            return RETRY_SECONDS
        except CannotGoOn as error:
            return self._fail(query.id, error.code)
        except Exception as error:
            # Only the class of the error is logged, since its message could quote a value.
            _log.warning("query %s did not go on: %s", query.id, type(error).__name__)
            self._failures[query.id] = self._failures.get(query.id, 0) + 1
            if self._failures[query.id] < _TRIES:
                return RETRY_SECONDS
            return self._fail(query.id, _code_of(error))
        self._failures.pop(query.id, None)
        return wait

    def _fail(self, query: str, code: str) -> float | None:
        self._end(query, QueryState.FAILED, f"The query could not go on ({code}).")
        self._failures.pop(query, None)
        self._to_forget.add(query)
        return None

    def _end(self, query: str, state: QueryState, problem: str | None = None) -> bool:
        """Give a query its last state, unless it has ended already; whether it had not."""
        ended = self._store.set_state(query, state, expected=ACTIVE_QUERY, ended=self._clock.now(), problem=problem)
        self.payments.unsettled = True
        self.alerts.look_again()
        return ended

    def _take_up(self, query: StoredQuery) -> float | None:
        """Charge a query that a crash left stored and not charged, or charged and not marked so.

        A query of a series is paid for. It starts as soon as there is room for it.
        """
        if query.series is not None:
            of_series = self._store.count([QueryState.RUNNING], of_series=True)
            if of_series >= self._series_places or self._open_now() >= self._most_open:
                return RETRY_SECONDS
            self._store.set_state(query.id, QueryState.RUNNING, expected=[QueryState.RECEIVED])
            return self._advance(query)
        with self._charging:
            try:
                whole = self._find(query.id)
                views.query_of(whole)  # a query that cannot be read is not charged
                self._charge(whole)
            except (InvalidFormat, InvalidSetting):
                raise CannotGoOn("unreadable") from None
            except BudgetExceeded:
                return None
        return 0.0

    def _advance(self, query: StoredQuery) -> float | None:
        wait = self._runner.advance(query)
        if wait is None:
            self._end(query.id, QueryState.DONE)
        return wait

    def _forget_stopped(self) -> float | None:
        """Forget the reports of stopped queries; the first call after a start looks at all stopped queries."""
        if not self._looked:
            self._to_forget |= {query.id for query in self._store.queries(STOPPED_QUERY)}
            self._looked = True
        wait = None
        for query in tuple(self._to_forget):
            try:
                self._runner.forget(query)
            except Exception as error:  # nobody waits for it, so it is tried until it is done
                _log.warning("what query %s left cannot be deleted yet: %s", query, type(error).__name__)
                wait = RETRY_SECONDS
            else:
                self._to_forget.discard(query)
        return wait

    def _find(self, query: str) -> StoredQuery:
        return _found(self._store.query(query))

    def _open_now(self) -> int:
        """How many queries have a place. Those of series that wait for one do not."""
        running = self._store.count([QueryState.RUNNING], of_series=True)
        return running + self._store.count(ACTIVE_QUERY, of_series=False)

    @property
    def _series_places(self) -> int:
        """How many queries of series run at a time: three quarters of all places, so that others find room."""
        return max(1, 3 * self._most_open // 4)

    def _check_room(self) -> None:
        if self._open_now() >= self._most_open:
            most = "1 query" if self._most_open == 1 else f"{self._most_open} queries"
            raise Conflict(
                f"This server runs at most {most} at a time, and has no place left.",
                hint="Wait for one to end, or cancel one.",
            )

    def _create(self, admitted: Admitted, by: str) -> StoredQuery:
        fixed = views.Prepared.of(admitted.guarantees, admitted.request_hash, admitted.steps)
        stored, _ = self._store.create_query(
            StoredQuery(
                id=self._new_id(),
                by=by,
                name=admitted.name,
                verb=admitted.query.verb,
                what=admitted.query.what,
                query=canonical(admitted.query.to_dict()).decode(),
                settings=canonical(admitted.settings).decode(),
                prepared=canonical(fixed).decode(),
                state=QueryState.RECEIVED,
                created=self._clock.now(),
            )
        )
        return stored

    def _charge(self, query: StoredQuery) -> None:
        """Charge a query, whole or in short, under its id and start it, unless that was done already.

        Guarantee: after a crash anywhere in here, calling it again charges nothing twice.
        """
        if query.state != QueryState.RECEIVED:
            return
        try:
            plan = views.plan_of(query)
        except (InvalidFormat, InvalidSetting):
            raise CannotGoOn("unreadable") from None
        try:
            self.payments.reserve(plan, query.what, query.id, query.by)
        except BudgetExceeded as error:
            self._end(query.id, QueryState.REFUSED, error.message)
            self._store.delete_refused(_REFUSED)
            raise
        self._store.set_state(query.id, QueryState.RUNNING, expected=[QueryState.RECEIVED])

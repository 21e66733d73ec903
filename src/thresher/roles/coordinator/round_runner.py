"""Runs the rounds of a query through their states (`RoundState`), from the state that the store holds.

Every step ends with a write to the store. What comes before the write may be done again (docs/protocol.md, section 2).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from thresher.clock import Clock
from thresher.errors import (
    Conflict,
    InvalidFormat,
    InvalidSetting,
    LedgerUnavailable,
    NotFound,
    ServerUnavailable,
    StoreUnavailable,
    ThresherError,
    Unauthorised,
    VerificationFailed,
)
from thresher.mechanism.release import Release
from thresher.mechanism.response import Response, RoundNumbers
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.messages import LARGEST_CONFIGURATION
from thresher.protocol.states import ENDED_ROUND, QueryState, RoundState
from thresher.questions import Question
from thresher.roles.coordinator import views
from thresher.roles.coordinator.admission import MOST_TOGETHER, rates_of
from thresher.roles.coordinator.store import NewRound
from thresher.roles.ports import AggregatorPort, CollectorPort
from thresher.verbs.drivers import Done, Next, step

if TYPE_CHECKING:
    from thresher.roles.coordinator.payments import Payments
    from thresher.roles.coordinator.store import CoordinatorStore, StoredQuery, StoredRound

UNAVAILABLE = (StoreUnavailable, ServerUnavailable, LedgerUnavailable, Unauthorised)
"""Errors that pass: a role is down, or an operator has still to correct the keys between roles."""
RETRY_SECONDS = 1.0
POLL_SECONDS = 1.0
_REST = 10.0


class CannotGoOn(Exception):
    """Trying again would not help this query; `code` says why, without any value."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class RoundRunner:
    """Runs rounds. `live` has the newest numbers of open rounds, which the store gets only when they are final.

    The rounds of one step of a query, whose questions do not depend on one another, are planned in one transaction with
    one deadline, and are open at the same time. Each closes, is forwarded and is released by itself. The next step is
    planned when all of them are released.

    A round is charged, durably, before it opens: nobody is contacted for a round that was not charged. A round that is
    planned now cannot have been charged before, unless the store is older than the ledger: then it was drawn once, and
    is not drawn again.
    """

    def __init__(
        self,
        store: CoordinatorStore,
        clock: Clock,
        collector: CollectorPort,
        aggregator: AggregatorPort,
        fleet: str,
        payments: Payments,
    ) -> None:
        self._store = store
        self._clock = clock
        self._collector = collector
        self._aggregator = aggregator
        self._fleet = fleet
        self._payments = payments
        self.live: dict[str, RoundNumbers] = {}
        self._next_look: dict[str, float] = {}  # when the collector may be asked again who is waited for

    def advance(self, query: StoredQuery) -> float | None:
        """Move a running query on until it has to wait; for how many seconds, or None once its last release is there.

        The query may be in short: it is read whole only where rounds are planned.
        Edge cases: a query that was cancelled meanwhile is left alone.
        """
        while self._running(query):
            unfinished = [round for round in self._store.shown_rounds(query.id) if round.state != RoundState.RELEASED]
            if unfinished:
                waits = [self._move(query, round) for round in unfinished if self._running(query)]
                if waits and all(wait is not None for wait in waits):
                    return min(wait for wait in waits if wait is not None)
                continue
            whole = self._store.query(query.id)
            if whole is None:
                break
            at = self.standing(whole)
            if isinstance(at, Done):
                return None
            self._plan(whole, at.index, at.questions[:MOST_TOGETHER])
        return 0.0

    def standing(self, query: StoredQuery) -> Next | Done:
        """What the query does after its stored releases: its next questions, or its answer.

        Asked when every planned round is released: questions of one step do not depend on one another's releases.
        """
        texts, rounds = self._store.releases(query.id), self._store.rounds(query.id)
        try:
            asked = [question_of(round) for round in rounds[: len(texts)]]
            return step(views.query_of(query), [Release.from_json(text) for text in texts], asked)
        except UNAVAILABLE:
            raise
        except Exception as error:  # whatever a verb does, it does again: its result depends on the releases alone
            raise CannotGoOn(error.code if isinstance(error, ThresherError) else "internal") from None

    def configuration(self, round: StoredRound) -> RoundConfiguration:
        """A stored round's configuration; `CannotGoOn` if it cannot be read."""
        try:
            return RoundConfiguration.read(round.configuration)
        except InvalidFormat:
            raise CannotGoOn("unreadable") from None

    def _configuration_of(self, round: str) -> RoundConfiguration:
        stored = self._store.round(round)
        if stored is None:
            raise CannotGoOn("round-lost")
        return self.configuration(stored)

    def forget(self, query: str) -> None:
        """End the open rounds of a stopped query, and have their reports forgotten unread."""
        for round in self._store.shown_rounds(query):
            if round.state in ENDED_ROUND:
                continue
            numbers: RoundNumbers | None = None
            with suppress(NotFound):  # it was never opened, or has been forgotten before a crash
                numbers = self._collector.close(round.round)
            self._collector.forget(round.round)
            self._aggregator.forget(round.round)
            self._store.set_round_state(round.round, RoundState.DROPPED, numbers=numbers)
            self.live.pop(round.round, None)
            self._next_look.pop(round.round, None)

    def _running(self, query: StoredQuery) -> bool:
        stored = self._store.outline(query.id)
        return stored is not None and stored.state == QueryState.RUNNING

    def _plan(self, query: StoredQuery, index: int, questions: Sequence[Question]) -> None:
        """Fix the configurations of the next rounds, from `index` on, which are open at the same time."""
        if any(self._payments.was_drawn(query, place) for place, _ in enumerate(questions, start=index)):
            raise CannotGoOn("drawn-before")
        key = self._aggregator.public_key()
        self._collector.overview()  # a collector that is down would let the rounds' time run out before they open
        try:
            plan, settings = views.query_of(query).plan, views.settings_of(query)
        except (InvalidFormat, InvalidSetting):
            raise CannotGoOn("unreadable") from None
        now = self._clock.now()
        planned = []
        for place, question in enumerate(questions, start=index):
            configuration = RoundConfiguration.of(
                fleet=self._fleet,
                query=query.id,
                index=place,
                round=f"{query.id}-r{place}",
                question=question,
                plan=plan,
                rates=rates_of(plan, settings),
                bucket_size=settings.bucket_size or 0,
                deadline=now + (settings.seconds or 0.0),
                key_id=key.key_id,
                public_key=key.raw,
            )
            content = configuration.content
            if len(content) > LARGEST_CONFIGURATION:
                raise CannotGoOn("configuration-too-large")
            name, deadline = configuration.round, configuration.deadline
            planned.append(NewRound(place, name, content, deadline, settings.completions))
        self._store.plan_rounds(query.id, planned, now)

    def _move(self, query: StoredQuery, round: StoredRound) -> float | None:
        """One move; seconds to wait where there is none to make yet."""
        if round.state == RoundState.PLANNED:
            configuration = self._configuration_of(round.round)
            try:
                self._payments.draw(query, round.index)
            except Conflict:  # the store is older than the ledger, in which the query has ended
                raise CannotGoOn("given-back") from None
            self._collector.open(configuration, round.target)
            self._store.set_round_state(round.round, RoundState.OPEN, opened=self._clock.now())
        elif round.state == RoundState.OPEN:
            return self._watch(query, round)
        elif round.state == RoundState.CLOSED:
            batches = self._collector.forward(round.round)
            self._store.set_round_state(round.round, RoundState.FORWARDED, batches=batches)
        elif round.state == RoundState.FORWARDED:
            self._release(query, round)
        else:
            raise CannotGoOn("round-dropped")
        return None

    def _watch(self, query: StoredQuery, round: StoredRound) -> float | None:
        """Close an open round that is due: at its deadline, or when enough devices, or all, have completed it.

        Edge cases: a round that nobody has completed does not count as completed by all.
        """
        numbers = self.live[round.round] = self._collector.progress(round.round)
        left = round.deadline - self._clock.now()
        enough = round.target is not None and numbers.completed >= round.target
        if left > 0 and not enough and not (numbers.completed and self._all_answered(query, round)):
            return min(left, POLL_SECONDS)
        numbers = self._collector.close(round.round)
        self._store.set_round_state(round.round, RoundState.CLOSED, closed=self._clock.now(), numbers=numbers)
        self.live.pop(round.round, None)
        self._next_look.pop(round.round, None)
        return None

    def _all_answered(self, query: StoredQuery, round: StoredRound) -> bool:
        """Whether the round may close early, and nobody is waited for any more.

        The collector looks at every device to say that. So that it is not kept busy, it is asked again only after ten
        times as long as it took.
        """
        now = self._clock.now()
        if now < self._next_look.get(round.round, 0.0) or not _closes_early(query):
            return False
        waited_for = self._collector.waited_for(round.round)
        took = self._clock.now() - now
        self._next_look[round.round] = now + max(POLL_SECONDS / 2, _REST * took)
        return waited_for == 0

    def _release(self, query: StoredQuery, round: StoredRound) -> None:
        """Fetch the release, have the reports forgotten, and store the release.

        The aggregator keeps the release that it drew, so that all of this can be done again. Reports are forgotten
        before the release is stored: a round that is marked as released has no reports left anywhere.
        """
        configuration = self._configuration_of(round.round)
        response = Response.of(round, configuration.rates)
        text = self._aggregator.release(configuration, round.batches or 0, response)
        release = Release.from_json(text)
        if release.plan != configuration.planned or release.columns != configuration.asked.columns:
            raise VerificationFailed("The aggregator's release is not of this round.")
        self._collector.forget(round.round)
        self._aggregator.forget(round.round)
        if self._running(query):
            self._store.store_release(round.round, text, self._clock.now())


def _closes_early(query: StoredQuery) -> bool:
    """Whether rounds close when everybody who is active has answered; settings that cannot be read do not say so."""
    try:
        return bool(views.settings_of(query).until_all)
    except InvalidFormat:
        return False


def question_of(round: StoredRound) -> Any:
    """A round's question, read without the rest of the configuration, which another version may have written."""
    return json.loads(round.configuration)["question"]

"""Runs the rounds of a query through their states (`RoundState`), from the state that the store holds.

Every step ends with a write to the store. What comes before the write may be done again (docs/protocol.md, section 2).
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from thresher.clock import Clock
from thresher.errors import (
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
from thresher.protocol.messages import LARGEST_CONFIGURATION, RoundConfiguration, canonical, decode
from thresher.protocol.states import ENDED_ROUND, QueryState, RoundState
from thresher.questions import Question
from thresher.roles.coordinator import views
from thresher.roles.coordinator.admission import rates_of
from thresher.roles.ports import AggregatorPort, CollectorPort
from thresher.verbs.drivers import Done, Next, step

if TYPE_CHECKING:
    from thresher.roles.coordinator.payments import Payments
    from thresher.roles.coordinator.store import CoordinatorStore, StoredQuery, StoredRound

UNAVAILABLE = (StoreUnavailable, ServerUnavailable, LedgerUnavailable, Unauthorised)
"""Errors that pass: a role is down, or an operator has still to correct the keys between roles."""
RETRY_SECONDS = 1.0
POLL_SECONDS = 1.0


class CannotGoOn(Exception):
    """Trying again would not help this query; `code` says why, without any value."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class RoundRunner:
    """Runs rounds. `live` has the newest numbers of open rounds, which the store gets only when they are final.

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

    def advance(self, query: StoredQuery) -> float | None:
        """Move a running query on until it has to wait; for how many seconds, or None once its last release is there.

        The query may be in short: it is read whole only where a round is planned.
        Edge cases: a query that was cancelled meanwhile is left alone.
        """
        while self._running(query):
            rounds = self._store.shown_rounds(query.id)
            current = next((round for round in rounds if round.state != RoundState.RELEASED), None)
            if current is not None:
                wait = self._move(query, current)
                if wait is not None:
                    return wait
                continue
            whole = self._store.query(query.id)
            if whole is None:
                break
            at = self.standing(whole)
            if isinstance(at, Done):
                return None
            self._plan(whole, at.index, at.questions[0])
        return 0.0

    def standing(self, query: StoredQuery) -> Next | Done:
        """What the query does after its stored releases: its next questions, or its answer."""
        texts, rounds = self._store.releases(query.id), self._store.rounds(query.id)
        try:
            asked = [_question(round) for round in rounds[: len(texts)]]
            return step(views.query_of(query), [Release.from_json(text) for text in texts], asked)
        except UNAVAILABLE:
            raise
        except Exception as error:  # whatever a verb does, it does again: its result depends on the releases alone
            raise CannotGoOn(error.code if isinstance(error, ThresherError) else "internal") from None

    def configuration(self, round: StoredRound) -> RoundConfiguration:
        """A stored round's configuration; `CannotGoOn` if it cannot be read."""
        try:
            return decode(RoundConfiguration, round.configuration)
        except InvalidFormat:
            raise CannotGoOn("unreadable") from None

    def _configuration_of(self, round: str) -> RoundConfiguration:
        stored = self._store.round(round)
        if stored is None:
            raise CannotGoOn("round-lost")
        return self.configuration(stored)

    def forget(self, query: str) -> None:
        """End the open round of a stopped query, and have its reports forgotten unread."""
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

    def _running(self, query: StoredQuery) -> bool:
        stored = self._store.outline(query.id)
        return stored is not None and stored.state == QueryState.RUNNING

    def _plan(self, query: StoredQuery, index: int, question: Question) -> None:
        """Fix the next round's configuration."""
        if self._payments.was_drawn(query, index):
            raise CannotGoOn("drawn-before")
        key = self._aggregator.public_key()
        self._collector.overview()  # a collector that is down would let the round's time run out before it opens
        try:
            plan, settings = views.query_of(query).plan, views.settings_of(query)
        except (InvalidFormat, InvalidSetting):
            raise CannotGoOn("unreadable") from None
        now = self._clock.now()
        name = f"{query.id}-r{index}"
        configuration = RoundConfiguration.of(
            fleet=self._fleet,
            query=query.id,
            index=index,
            round=name,
            question=question,
            plan=plan,
            rates=rates_of(plan, settings),
            bucket_size=settings.bucket_size or 0,
            deadline=now + (settings.seconds or 0.0),
            key_id=key.key_id,
            public_key=key.raw,
        )
        content = canonical(configuration)
        if len(content) > LARGEST_CONFIGURATION:
            raise CannotGoOn("configuration-too-large")
        self._store.plan_round(
            query.id, index, name, content, deadline=configuration.deadline, target=settings.completions, now=now
        )

    def _move(self, query: StoredQuery, round: StoredRound) -> float | None:
        """One move; seconds to wait where there is none to make yet."""
        if round.state == RoundState.PLANNED:
            configuration = self._configuration_of(round.round)
            self._payments.draw(query, round.index)
            self._collector.open(configuration, round.target)
            self._store.set_round_state(round.round, RoundState.OPEN, opened=self._clock.now())
        elif round.state == RoundState.OPEN:
            return self._watch(round)
        elif round.state == RoundState.CLOSED:
            batches = self._collector.forward(round.round)
            self._store.set_round_state(round.round, RoundState.FORWARDED, batches=batches)
        elif round.state == RoundState.FORWARDED:
            self._release(query, round)
        else:
            raise CannotGoOn("round-dropped")
        return None

    def _watch(self, round: StoredRound) -> float | None:
        """Close an open round that is due: at its deadline, or when enough devices have completed it."""
        numbers = self.live[round.round] = self._collector.progress(round.round)
        left = round.deadline - self._clock.now()
        if left > 0 and (round.target is None or numbers.completed < round.target):
            return min(left, POLL_SECONDS)
        numbers = self._collector.close(round.round)
        self._store.set_round_state(round.round, RoundState.CLOSED, closed=self._clock.now(), numbers=numbers)
        self.live.pop(round.round, None)
        return None

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


def _question(round: StoredRound) -> Any:
    """A round's question, read without the rest of the configuration, which another version may have written."""
    return json.loads(round.configuration)["question"]

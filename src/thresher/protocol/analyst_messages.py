"""What analysts send and see: queries, their status, previews, the ledger and the fleet at a glance."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from thresher.protocol.configurations import Guarantees
from thresher.protocol.lasting import time_in_words
from thresher.protocol.messages import VERSION, BucketSize, Count, Message, Name, Text, Version
from thresher.protocol.rates import SampledBy
from thresher.protocol.states import QueryState, RoundState

RoundSeconds = Annotated[float, Meta(ge=0.1, le=366 * 86_400)]
"""Shorter than this no device can answer: the query would be charged for nothing."""


class RoundSettings(Message, frozen=True, kw_only=True):
    """How a query's rounds are run; all have defaults at the server."""

    contact_rate: Annotated[float, Meta(gt=0, le=1)] | None = None
    sampled_by: SampledBy | None = None
    bucket_size: BucketSize | None = None
    seconds: RoundSeconds | None = None
    """How long a round is open."""
    completions: Annotated[int, Meta(ge=1, le=1 << 40)] | None = None
    """A round also closes when this many devices have completed it."""
    until_all: bool | None = None
    """A round also closes when every device that was active in the last day has checked in, and all that it was shown
    to have completed it. Off by default."""

    @property
    def closes_early(self) -> bool:
        """Whether a round may close before its time is over."""
        return self.completions is not None or bool(self.until_all)


class QueryRequest(Message, frozen=True, kw_only=True):
    """A query: one of the four verbs with its plan, as `thresher.verbs.query` writes it."""

    name: Name
    """Chosen by the caller; asking again under the same name returns the first query."""
    query: dict[str, Any]
    settings: RoundSettings = RoundSettings()
    version: Version = VERSION


class RoundStatus(Message, frozen=True, kw_only=True):
    """One round of a query; the numbers are public (docs/protocol.md, section 4)."""

    round: Name
    index: int
    state: RoundState
    asked: Count
    contacted: Count
    completed: Count
    target: Count | None
    opened: float | None
    deadline: float
    released: float | None


class QueryStatus(Message, frozen=True, kw_only=True):
    """Where a query stands."""

    id: Name
    name: Name
    verb: Text
    what: str
    by: str
    state: QueryState
    created: float
    ended: float | None
    problem: str | None
    query: dict[str, Any]
    """Empty for a stored query that cannot be read; `problem` says so. A long one lacks its domain, the
    edges of its bins and its probabilities, except where it is asked for by its id and was not refused."""
    settings: RoundSettings
    rounds_planned: int
    rounds: list[RoundStatus]
    guarantees: Guarantees | None
    """None where what was stored cannot be read."""
    series: Name | None = None
    """The series that asked it, and that has paid for it."""
    steps_planned: int = 0
    """How many times its rounds are waited for, one after another. Rounds of one step are open at the same time."""

    @property
    def seconds(self) -> float | None:
        """How long it takes in all, if no round closes before its deadline; None where that is not known."""
        known = self.settings.seconds is not None and self.steps_planned > 0
        return self.steps_planned * (self.settings.seconds or 0.0) if known else None

    @property
    def in_all(self) -> str:
        """How long it takes in all, in a sentence; empty where that is not known."""
        settings = self.settings
        if self.seconds is None or settings.seconds is None:
            return ""
        steps, rounds = self.steps_planned, self.rounds_planned
        return time_in_words(steps, rounds, settings.seconds, early=settings.closes_early)


class Releases(Message, frozen=True, kw_only=True):
    """The stored releases of a query, in order; each is what `Release.to_json` wrote."""

    query: Name
    state: QueryState
    releases: list[str]
    questions: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """What each of them answers, as `Question.to_dict` writes it."""


class Caution(Message, frozen=True, kw_only=True):
    """What speaks against a query, as far as public numbers tell: it would be charged for nothing, or is weak."""

    code: Name
    text: str


class PlanPreview(Message, frozen=True, kw_only=True):
    """What a query would do, before anything is charged."""

    verb: str
    what: str
    sampling_rate: float
    threshold: int
    rounds: int
    contact_rate: float
    devices: Count
    contacted: float
    smallest_visible: int
    sees: list[tuple[int, float]]
    relative_error: list[tuple[int, float]]
    guarantees: Guarantees
    words: list[str]
    cost_epsilon: float
    cost_delta: float
    left_epsilon: float
    """What the plain sum of epsilons leaves."""
    left_delta: float
    """What the plain sum of deltas leaves."""
    fits: bool
    takes: float = 0.0
    """The part of the whole budget that the query takes, from 0 to 1."""
    left_share: float = 0.0
    """The part of the budget that is left before it."""
    affords: Count = 0
    """How many queries like it fit, this one included."""
    price: str = ""
    """What it takes of the budget and how many like it fit after it, in a sentence."""
    warnings: list[Caution] = msgspec.field(default_factory=list)
    """What speaks against asking it; empty where nothing does."""
    steps: Count = 0
    """How many times its rounds are waited for, one after another. Rounds of one step are open at the same time."""
    seconds: float = 0.0
    """How long it takes in all, if no round closes before its deadline."""
    contributions: int = 1
    """How many values of a device count in a round, and how many reports it sends."""


class Charge(Message, frozen=True, kw_only=True):
    """One entry of the ledger."""

    id: int
    time: float
    what: str
    by: str
    epsilon: float
    delta: float
    rounds: int
    query: str | None
    """The query that was charged, if it was one."""
    series: str | None = None
    """The series that was charged, if it was one."""
    drawn: int = 0
    """Rounds that were drawn."""
    given_back: int = 0
    """Rounds that never will be; the others are reserved."""
    share: float = 0.0
    """The part of the whole budget that its rounds take that were not given back."""
    used: float = 0.0
    """The part of the budget that this charge and those before it take; of its period if the budget renews."""
    contributions: int = 1
    """How many values of a device count in a round."""


class BudgetPeriod(Message, frozen=True, kw_only=True):
    """Where a budget stands that renews. The promise is for each period by itself."""

    seconds: float
    number: Count
    """From 1."""
    ends: float
    used: Count
    """Periods in which something was drawn."""
    together_epsilon: float
    """What all used periods together come to."""
    together_delta: float


class LedgerView(Message, frozen=True, kw_only=True):
    """The fleet's budget and every charge."""

    epsilon: float
    delta: float
    spent_epsilon: float | None
    """What everything drawn so far guarantees; None where no epsilon does, in a ledger restored beyond its budget."""
    spent_delta: float
    left_epsilon: float
    left_delta: float
    charges: list[Charge]
    unit: Literal["device"] = "device"
    """Whom the guarantees protect that are added up here."""
    composition: Literal["adaptive", "sum"] = "sum"
    spent_share: float = 0.0
    """The part of the budget that was drawn, from 0 to 1; of the current period if it renews."""
    left_share: float = 0.0
    """The part that is left. What is neither spent nor left is reserved."""
    data_set: str | None = None
    promises: list[tuple[float, float]] = msgspec.field(default_factory=list)
    """When which epsilon was promised; more than one where the budget was enlarged."""
    period: BudgetPeriod | None = None


class FleetView(Message, frozen=True, kw_only=True):
    """The fleet at a glance."""

    fleet: Name
    enrolled: Count
    active: Count
    """Devices that enrolled or checked in during the last day."""
    check_ins: list[tuple[float, int]]
    """Devices that enrolled or checked in, by hour of the last day."""
    roles: dict[str, str]
    """Health of each role: "ready", or what is wrong."""

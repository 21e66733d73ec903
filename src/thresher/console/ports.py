"""What the console needs of the server: services for analysts and operators, and whose a token is.

The console sees releases and public numbers only, because these protocols offer nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from thresher.protocol.alert_messages import AlertStatus, RuleList, RuleRequest, RuleStatus, StandingList
from thresher.protocol.analyst_messages import FleetView, LedgerView, PlanPreview, QueryRequest, QueryStatus
from thresher.protocol.series_messages import SeriesPreview, SeriesRequest, SeriesStatus

CallerRole = Literal["analyst", "operator"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who holds a token; an operator may do all that an analyst may."""

    name: str
    role: CallerRole

    @property
    def operates(self) -> bool:
        """Whether this is an operator."""
        return self.role == "operator"


class TokenChecker(Protocol):
    """Says whose a token is."""

    def caller(self, token: str) -> Caller | None:
        """The caller, or None for a token that is unknown, expired or revoked, or not an analyst's or operator's."""


class SeriesService(Protocol):
    """What an analyst may do with series."""

    def preview(self, request: SeriesRequest) -> SeriesPreview:
        """What a series would cost and see, and its first dates; reserves nothing."""

    def create(self, request: SeriesRequest, by: str) -> SeriesStatus:
        """Reserve a series' budget and start it; the same name again returns the first one."""

    def pause(self, series: str, by: str) -> SeriesStatus:
        """Let dates pass without asking."""

    def resume(self, series: str, by: str) -> SeriesStatus:
        """Ask again from the next date on."""

    def end(self, series: str, by: str) -> SeriesStatus:
        """Ask no more."""

    def status(self, series: str) -> SeriesStatus:
        """Where a series stands, with every date that has come; `NotFound` if there is none."""

    def all(self) -> Sequence[SeriesStatus]:
        """All series without their dates, the newest first."""


class AnalystService(Protocol):
    """What an analyst may do; the coordinator does it."""

    @property
    def series(self) -> SeriesService:
        """What an analyst may do with series."""

    def preview(self, request: QueryRequest) -> PlanPreview:
        """What a query would do; charges nothing."""

    def submit(self, request: QueryRequest, by: str) -> QueryStatus:
        """Charge and run a query; the same name again returns the first one."""

    def cancel(self, query: str, by: str) -> QueryStatus:
        """Stop a query; rounds that never opened are given back, unless the budget adds up."""

    def close_rounds(self, query: str) -> QueryStatus:
        """Close the open rounds of a query now; what has completed counts."""

    def status(self, query: str) -> QueryStatus:
        """Where a query stands; `NotFound` if there is none."""

    def standing(self, query: str) -> QueryStatus:
        """The same without its lists of values: cheap enough to be polled."""

    def queries(self) -> Sequence[QueryStatus]:
        """All queries, without their lists of values."""

    def answer(self, query: str) -> Any:
        """The answer of a query that is done, replayed from its stored releases."""

    def ledger_view(self) -> LedgerView:
        """The budget and every charge."""

    def fleet_view(self) -> FleetView:
        """The fleet at a glance."""

    def rules(self, series: str) -> RuleList:
        """The rules of a series, and the webhooks that a rule may name; `NotFound` if there is no such series."""

    def add_rule(self, series: str, request: RuleRequest, by: str) -> RuleStatus:
        """Judge the releases of a series by a rule, from now on; costs nothing."""

    def remove_rule(self, series: str, rule: str) -> RuleList:
        """Remove a rule; returns those that are left."""

    def alerts(self, series: str) -> Sequence[AlertStatus]:
        """The newest alerts of a series, newest first."""

    def alert_number(self, series: str) -> int:
        """How many alerts a series has in all."""

    def standing_alerts(self, most_series: int) -> StandingList:
        """The series that may still ask and whose last release gave alerts, newest first, at most so many."""


@dataclass(frozen=True, slots=True)
class EnrolmentKey:
    """A key that devices enrol with, without the key itself. `limit` is how many devices it may enrol."""

    id: str
    name: str
    made: float
    expires: float | None
    limit: int | None
    devices: int
    revoked: bool


@dataclass(frozen=True, slots=True)
class Token:
    """An analyst's or operator's token, without the token itself."""

    id: str
    name: str
    role: CallerRole
    made: float
    expires: float | None
    revoked: bool


@dataclass(frozen=True, slots=True)
class SealingKey:
    """A key of the aggregator that devices seal to: its public half."""

    id: str
    made: float | None
    current: bool
    fingerprint: str


@dataclass(frozen=True, slots=True)
class EnrolledDevice:
    """A device that has enrolled; its times are rounded to the day."""

    id: str
    enrolled: float | None
    last_check_in: float | None
    revoked: bool


class Operations(Protocol):
    """What an operator may do. Secrets are returned once, when they are made."""

    def enrolment_keys(self) -> Sequence[EnrolmentKey]:
        """All enrolment keys."""

    def make_enrolment_key(self, name: str, *, days: float | None, devices: int | None) -> str:
        """A new key; it is shown this once."""

    def revoke_enrolment_key(self, key: str) -> None:
        """Let no further device enrol with it; those enrolled stay."""

    def devices(self, key: str) -> tuple[int, Sequence[EnrolledDevice]]:
        """How many devices enrolled with a key, and those that did last; `NotFound` if there is no such key."""

    def revoke_device(self, device: str) -> None:
        """Accept no more reports of it; reports that were accepted stay."""

    def revoke_devices(self, key: str) -> None:
        """Revoke the key and every device that enrolled with it."""

    def tokens(self) -> Sequence[Token]:
        """All tokens of analysts and operators."""

    def make_token(self, name: str, role: CallerRole, *, days: float | None) -> str:
        """A new token; it is shown this once."""

    def revoke_token(self, token: str) -> None:
        """Make the token invalid; its sessions end."""

    def dropped_reports(self) -> tuple[int, int]:
        """How many reports of all rounds were malformed, and how many came twice."""

    def sealing_keys(self) -> Sequence[SealingKey]:
        """The aggregator's keys, the current one first."""

    def rotate_key(self) -> SealingKey:
        """A new current key; open rounds keep theirs."""

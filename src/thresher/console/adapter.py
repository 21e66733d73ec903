"""The console in the server's process: its desk, door and levers are the server's own parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from thresher.console import Caller, EnrolledDevice, EnrolmentKey, SealingKey, Token, routes
from thresher.errors import NotFound, Unauthorised
from thresher.roles.computing import here
from thresher.roles.tokens import new_token, token_hash
from thresher.server.problem import Refused

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from thresher.console.ports import CallerRole
    from thresher.protocol.analyst_messages import FleetView, LedgerView, PlanPreview, QueryRequest, QueryStatus
    from thresher.server.services import Services

_DAY = 86_400.0
_MOST_DEVICES = 200


def console_pages(services: Services, attributes: Sequence[str] = ()) -> Sequence[BaseRoute]:
    """The console's routes; none where no coordinator runs, and no levers for operators unless all roles are here.

    `attributes` are suggested on the page that asks.
    """
    if services.coordinator is None:
        return ()
    complete = services.collector is not None and services.aggregator is not None
    return routes(
        ServerDesk(services),
        ServerDoor(services),
        ServerOperations(services) if complete else None,
        attributes=attributes or sorted(services.coordinator.policy.attributes or ()),
        clock=services.clock,
        stopping=services.stopping.is_set,
        form_seconds=services.limits.body_seconds,
        compute=services.compute or here,
    )


class ServerDesk:
    """What an analyst may do: the coordinator does it, and is woken when there is something new to do."""

    def __init__(self, services: Services) -> None:
        self._coordinator = services.the_coordinator
        self._wake = services.wake
        self._come_back = services.come_back

    def preview(self, request: QueryRequest) -> PlanPreview:
        """What a query would do; charges nothing."""
        return self._coordinator.preview(request, self._come_back)

    def submit(self, request: QueryRequest, by: str) -> QueryStatus:
        """Charge and run a query."""
        status = self._coordinator.submit(request, by)
        self._wake.set()
        return status

    def cancel(self, query: str, by: str) -> QueryStatus:
        """Stop a query."""
        status = self._coordinator.cancel(query, by)
        self._wake.set()
        return status

    def status(self, query: str) -> QueryStatus:
        """Where a query stands."""
        return self._coordinator.status(query)

    def standing(self, query: str) -> QueryStatus:
        """Where a query stands, without its lists of values."""
        return self._coordinator.standing(query)

    def queries(self) -> Sequence[QueryStatus]:
        """All queries, without their lists of values."""
        return self._coordinator.queries()

    def answer(self, query: str) -> Any:
        """The answer of a query that is done."""
        return self._coordinator.answer(query)

    def ledger_view(self) -> LedgerView:
        """The budget and every charge."""
        return self._coordinator.ledger_view()

    def fleet_view(self) -> FleetView:
        """The fleet at a glance."""
        return self._coordinator.fleet_view()


class ServerDoor:
    """Knows whose a token is."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def caller(self, token: str) -> Caller | None:
        """The caller, or None for a token that opens nothing here."""
        try:
            identity = self._services.tokens.identify(token, ("analyst", "operator"))
        except (Unauthorised, Refused):
            return None
        return Caller(identity.by, "operator" if identity.kind == "operator" else "analyst")


class ServerOperations:
    """What an operator may do."""

    def __init__(self, services: Services) -> None:
        self._collector = services.the_collector
        self._aggregator = services.the_aggregator
        self._tokens = services.the_coordinator_store
        self._clock = services.clock

    def enrolment_keys(self) -> Sequence[EnrolmentKey]:
        """All enrolment keys."""
        return [
            EnrolmentKey(key.id, key.name, key.created, key.expires, key.devices, key.enrolled, key.revoked is not None)
            for key in self._collector.enrolment_keys()
        ]

    def make_enrolment_key(self, name: str, *, days: float | None, devices: int | None) -> str:
        """A new key."""
        key = new_token("enrolment")
        self._collector.add_enrolment_key(key, name, expires=self._expires(days), devices=devices)
        return key

    def revoke_enrolment_key(self, key: str) -> None:
        """No further device enrols with it."""
        if not self._collector.revoke_enrolment_key(key):
            raise NotFound("There is no such enrolment key.")

    def devices(self, key: str) -> tuple[int, Sequence[EnrolledDevice]]:
        """How many devices enrolled with a key, and those that did last."""
        found = self._collector.devices_of_key(key, _MOST_DEVICES)
        if found is None:
            raise NotFound("There is no such enrolment key.")
        number, devices = found
        return number, [EnrolledDevice(each.id, each.enrolled, each.last_check_in, each.revoked) for each in devices]

    def revoke_device(self, device: str) -> None:
        """Nothing more is taken of it."""
        if not self._collector.revoke_device(device):
            raise NotFound("There is no such device.")

    def revoke_devices(self, key: str) -> None:
        """The key and every device that enrolled with it."""
        if self._collector.revoke_devices(key) is None:
            raise NotFound("There is no such enrolment key.")

    def tokens(self) -> Sequence[Token]:
        """All tokens of analysts and operators."""
        return [
            Token(
                token.id,
                token.name,
                "operator" if token.kind == "operator" else "analyst",
                token.created,
                token.expires,
                token.revoked is not None,
            )
            for token in self._tokens.tokens()
        ]

    def make_token(self, name: str, role: CallerRole, *, days: float | None) -> str:
        """A new token."""
        token = new_token(role)
        hashed = token_hash(token)
        self._tokens.add_token(
            hashed.hex()[:16], role, hashed, name, now=self._clock.now(), expires=self._expires(days)
        )
        return token

    def revoke_token(self, token: str) -> None:
        """The token opens nothing any more."""
        if not self._tokens.revoke_token(token, self._clock.now()):
            raise NotFound("There is no such token.")

    def dropped_reports(self) -> tuple[int, int]:
        """How many reports of all rounds were malformed, and how many came twice."""
        return self._aggregator.dropped()

    def sealing_keys(self) -> Sequence[SealingKey]:
        """The aggregator's current key."""
        key = self._aggregator.public_key()
        return [SealingKey(key.key_id, None, True, key.raw.hex())]

    def rotate_key(self) -> SealingKey:
        """A new current key."""
        key = self._aggregator.rotate()
        return SealingKey(key.key_id, None, True, key.raw.hex())

    def _expires(self, days: float | None) -> float | None:
        return None if days is None else self._clock.now() + days * _DAY

"""Embeds the console into a server: the console's desk, door and operations are the server's own parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from thresher.console import Caller, EnrolledDevice, EnrolmentKey, SealingKey, Token, routes
from thresher.errors import Unauthorised
from thresher.roles.computing import here
from thresher.server.auth import ANALYST
from thresher.server.problem import Refused

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from thresher.console.ports import CallerRole
    from thresher.protocol.analyst_messages import FleetView, LedgerView, QueryStatus
    from thresher.protocol.sealing import PublicKey
    from thresher.protocol.series_messages import SeriesPreview, SeriesRequest, SeriesStatus
    from thresher.server.services import Services

_MOST_DEVICES = 200


def console_pages(
    services: Services, attributes: Sequence[str] = (), *, device_page: str | None = None
) -> Sequence[BaseRoute]:
    """The console's routes; none where no coordinator runs, and no levers for operators unless all roles are here.

    `attributes` are suggested on the page that asks; `device_page` is the address of a page that is a device.
    """
    if services.coordinator is None:
        return ()
    complete = services.collector is not None and services.aggregator is not None
    return routes(
        ServerDesk(services),
        ServerDoor(services),
        ServerOperations(services) if complete else None,
        attributes=attributes or sorted(services.coordinator.policy.attributes or ()),
        device_page=device_page,
        clock=services.clock,
        stopping=services.stopping.is_set,
        form_seconds=services.limits.body_seconds,
        compute=services.compute or here,
    )


class ServerDesk:
    """What an analyst may do: see `Desk`. The coordinator does it."""

    def __init__(self, services: Services) -> None:
        self._coordinator = services.the_coordinator
        self.series = ServerSeries(services)
        self.preview = services.preview
        self.submit = services.submit
        self.cancel = services.cancel
        self.close_rounds = services.close_rounds
        alerts = services.the_coordinator.alerts
        self.rules = alerts.rules
        self.add_rule = alerts.add
        self.remove_rule = alerts.remove
        self.alerts = alerts.alerts
        self.alert_number = alerts.alert_number
        self.standing_alerts = alerts.standing

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


class ServerSeries:
    """What an analyst may do with series: see `SeriesService`. What changes one wakes the coordinator's loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._keeper = services.the_coordinator.series
        self.status = self._keeper.status
        self.all = self._keeper.all
        self.pause = self._keeper.pause

    def preview(self, request: SeriesRequest) -> SeriesPreview:
        """What a series would cost and see."""
        return self._keeper.preview(request, self._services.come_back)

    def create(self, request: SeriesRequest, by: str) -> SeriesStatus:
        """Reserve a series' budget and start it."""
        return self._woken(self._keeper.create(request, by))

    def resume(self, series: str, by: str) -> SeriesStatus:
        """Ask again from the next date on."""
        return self._woken(self._keeper.resume(series, by))

    def end(self, series: str, by: str) -> SeriesStatus:
        """Ask no more."""
        return self._woken(self._keeper.end(series, by))

    def _woken(self, status: SeriesStatus) -> SeriesStatus:
        self._services.wake.set()
        return status


class ServerDoor:
    """Knows whose a token is."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def caller(self, token: str) -> Caller | None:
        """The caller, or None for a token that opens nothing here."""
        try:
            identity = self._services.tokens.identify(token, ANALYST)
        except (Unauthorised, Refused):
            return None
        return Caller(identity.by, cast("CallerRole", identity.kind))


class ServerOperations:
    """What an operator may do: see `Operations`."""

    def __init__(self, services: Services) -> None:
        self._collector = services.the_collector
        self._aggregator = services.the_aggregator
        self._store = services.the_coordinator_store
        self._operations = services.operations
        self.revoke_enrolment_key = self._operations.revoke_enrolment_key
        self.revoke_device = self._operations.revoke_device
        self.revoke_token = self._operations.revoke_token
        self.dropped_reports = self._aggregator.dropped

    def enrolment_keys(self) -> Sequence[EnrolmentKey]:
        """All enrolment keys."""
        return [
            EnrolmentKey(key.id, key.name, key.created, key.expires, key.devices, key.enrolled, key.revoked is not None)
            for key in self._collector.enrolment_keys()
        ]

    def make_enrolment_key(self, name: str, *, days: float | None, devices: int | None) -> str:
        """A new key."""
        return self._operations.issue("enrolment", name, seconds=_seconds(days), devices=devices).token

    def devices(self, key: str) -> tuple[int, Sequence[EnrolledDevice]]:
        """How many devices enrolled with a key, and those that did last."""
        number, devices = self._operations.devices(key, _MOST_DEVICES)
        return number, [EnrolledDevice(each.id, each.enrolled, each.last_check_in, each.revoked) for each in devices]

    def revoke_devices(self, key: str) -> None:
        """The key and every device that enrolled with it."""
        self._operations.revoke_devices(key)

    def tokens(self) -> Sequence[Token]:
        """All tokens of analysts and operators."""
        return [
            Token(
                each.id, each.name, cast("CallerRole", each.kind), each.created, each.expires, each.revoked is not None
            )
            for each in self._store.tokens()
        ]

    def make_token(self, name: str, role: CallerRole, *, days: float | None) -> str:
        """A new token."""
        return self._operations.issue(role, name, seconds=_seconds(days)).token

    def sealing_keys(self) -> Sequence[SealingKey]:
        """The aggregator's current key."""
        return [_sealing_key(self._aggregator.public_key())]

    def rotate_key(self) -> SealingKey:
        """A new current key."""
        return _sealing_key(self._aggregator.rotate())


def _sealing_key(key: PublicKey) -> SealingKey:
    return SealingKey(key.key_id, None, True, key.raw.hex())


def _seconds(days: float | None) -> float | None:
    return None if days is None else days * 86_400.0

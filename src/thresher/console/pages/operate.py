"""For operators: enrolment keys, tokens, key rotation, health, and in aggregate dropped reports and silent devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast
from urllib.parse import quote

from starlette.responses import Response

from thresher.console import ask_form as asking
from thresher.console import pictures
from thresher.console.ports import CallerRole, Operations, SealingKey
from thresher.console.requests import Visit
from thresher.errors import InvalidSetting, NotFound, ThresherError
from thresher.protocol.analyst_messages import QueryStatus

_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Secret:
    """A key or token that was just made, shown once."""

    what: str
    text: str


@dataclass(frozen=True, slots=True)
class Silence:
    """How many devices were shown a round and did not answer: by policy, by failure or by leaving, nobody can tell."""

    query: str
    what: str
    round: int
    contacted: int
    silent: int
    closed: float


def show(visit: Visit) -> Response:
    """The page; a secret that was just made is on it once."""
    return _page(visit, visit.office.sessions.take(visit.identifier))


def make_enrolment_key(visit: Visit) -> Response:
    """A new enrolment key, shown on the next page and never again."""
    name = _name(visit)
    devices = visit.form.get("devices", "").strip()
    limit = asking.whole({"devices": devices}, "devices", "devices") if devices else None
    key = _operations(visit).make_enrolment_key(name, days=_days(visit), devices=limit)
    return _made(visit, Secret("enrolment key", key))


def revoke_enrolment_key(visit: Visit) -> Response:
    """No further device enrols with it."""
    _operations(visit).revoke_enrolment_key(visit.form.get("id", ""))
    return visit.go("/operate#enrolment-keys")


def revoke_device(visit: Visit) -> Response:
    """Nothing more is taken of a device."""
    _operations(visit).revoke_device(visit.form.get("id", ""))
    key = visit.form.get("key", "")
    return visit.go(f"/operate?key={quote(key)}#devices" if key else "/operate")


def revoke_devices(visit: Visit) -> Response:
    """A key and every device that enrolled with it."""
    _operations(visit).revoke_devices(visit.form.get("id", ""))
    return visit.go("/operate#enrolment-keys")


def make_token(visit: Visit) -> Response:
    """A new token, shown on the next page and never again."""
    role = visit.form.get("role", "")
    if role not in ("analyst", "operator"):
        raise InvalidSetting("role", "must be analyst or operator")
    token = _operations(visit).make_token(_name(visit), cast(CallerRole, role), days=_days(visit))
    return _made(visit, Secret(f"{role} token", token))


def revoke_token(visit: Visit) -> Response:
    """It opens nothing any more."""
    _operations(visit).revoke_token(visit.form.get("id", ""))
    return visit.go("/operate#tokens")


def rotate_key(visit: Visit) -> Response:
    """A new sealing key for the rounds that open from now on."""
    _operations(visit).rotate_key()
    return visit.go("/operate#sealing-keys")


def _made(visit: Visit, secret: Secret) -> Response:
    """To the page by way of a redirect, so that reloading it makes no second one."""
    visit.office.sessions.leave(visit.identifier, secret)
    return visit.go("/operate")


def _page(visit: Visit, secret: Secret | None) -> Response:
    desk, operations = visit.office.desk, visit.office.operations
    silences = silent(list(desk.queries()))
    contacted = sum(each.contacted for each in silences)
    sealing_keys: list[SealingKey] = []
    problem = None
    shown = visit.asked.get("key", "") if operations else ""
    number, devices = operations.devices(shown) if operations and shown else (0, [])
    try:
        sealing_keys = list(operations.sealing_keys()) if operations else []
    except ThresherError as error:  # the aggregator may be away; the rest of the page is still useful
        problem = error
    return visit.page(
        "operate.html",
        fleet=desk.fleet_view(),
        enrolment_keys=operations.enrolment_keys() if operations else [],
        shown=shown,
        devices=devices,
        devices_number=number,
        tokens=operations.tokens() if operations else [],
        sealing_keys=sealing_keys,
        sealing_problem=problem,
        secret=secret,
        here=str(visit.request.base_url).rstrip("/"),
        dropped=operations.dropped_reports() if operations else None,
        silences=silences,
        silent_part=sum(each.silent for each in silences) / contacted if contacted else None,
        meter=pictures.meter,
    )


def silent(queries: list[QueryStatus]) -> list[Silence]:
    """The last closed rounds, newest first."""
    rounds = [
        Silence(
            query.id,
            query.what,
            each.index + 1,
            each.contacted,
            max(each.contacted - each.completed, 0),
            each.released or each.deadline,
        )
        for query in queries
        for each in query.rounds
        if each.state in ("closed", "forwarded", "released")
    ]
    return sorted(rounds, key=lambda each: -each.closed)[:_ROUNDS]


def _operations(visit: Visit) -> Operations:
    if visit.office.operations is None:
        raise NotFound("Not all roles run here, so keys and tokens are not made here.", hint="See the page Operate.")
    return visit.office.operations


def _name(visit: Visit) -> str:
    name = visit.form.get("name", "").strip()
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise InvalidSetting("name", "must have from 1 to 100 characters")
    return name


def _days(visit: Visit) -> float | None:
    days = visit.form.get("days", "").strip()
    if not days:
        return None
    number = asking.as_number(days, "days")
    if not 0 < number <= 3660:
        raise InvalidSetting("days", "must be above 0 and at most 3,660")
    return number

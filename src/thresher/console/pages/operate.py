"""For operators: enrolment keys, tokens, the sealing key, the health of the roles, dropped reports, silent devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote

from starlette.responses import Response

from thresher.console.ports import CallerRole, Operations, SealingKey
from thresher.console.requests import PageRequest
from thresher.errors import InvalidSetting, NotFound, ThresherError
from thresher.protocol.analyst_messages import QueryStatus
from thresher.verbs.settings import read_number, read_whole

_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Secret:
    """A key or token that was just made, shown once."""

    what: str
    text: str


@dataclass(frozen=True, slots=True)
class Silence:
    """How many devices were contacted in a round and did not answer, by policy or by failure: nobody can tell."""

    query: str
    what: str
    round: int
    contacted: int
    silent: int
    closed: float


def show(request: PageRequest) -> Response:
    """The page. A secret that was just made is on it once."""
    analyst, operations = request.console.analyst, request.console.operations
    silences = silent(analyst.queries())
    contacted = sum(each.contacted for each in silences)
    sealing_keys: Sequence[SealingKey] = []
    problem = None
    shown = request.parameters.get("key", "") if operations else ""
    number, devices = operations.devices(shown) if operations and shown else (0, [])
    try:
        sealing_keys = operations.sealing_keys() if operations else []
    except ThresherError as error:  # the aggregator may be away; the rest of the page is still useful
        problem = error
    return request.page(
        "operate.html",
        fleet=analyst.fleet_view(),
        enrolment_keys=operations.enrolment_keys() if operations else [],
        shown=shown,
        devices=devices,
        devices_number=number,
        tokens=operations.tokens() if operations else [],
        sealing_keys=sealing_keys,
        sealing_problem=problem,
        secret=request.session.take(),
        here=str(request.http.base_url).rstrip("/"),
        dropped=operations.dropped_reports() if operations else None,
        silences=silences,
        silent_part=sum(each.silent for each in silences) / contacted if contacted else None,
    )


def make_enrolment_key(request: PageRequest) -> Response:
    """Make an enrolment key, shown on the next page and never again."""
    name, devices = _name(request), _field(request, "devices")
    limit = read_whole(devices, "devices") if devices else None
    key = _operations(request).make_enrolment_key(name, days=_days(request), devices=limit)
    return _made(request, Secret("enrolment key", key))


def revoke_enrolment_key(request: PageRequest) -> Response:
    """Let no further device enrol with a key."""
    _operations(request).revoke_enrolment_key(_field(request, "id"))
    return request.redirect("/operate#enrolment-keys")


def revoke_device(request: PageRequest) -> Response:
    """Accept no more reports of a device."""
    _operations(request).revoke_device(_field(request, "id"))
    key = _field(request, "key")
    return request.redirect(f"/operate?key={quote(key)}#devices" if key else "/operate")


def revoke_devices(request: PageRequest) -> Response:
    """Revoke a key and every device that enrolled with it."""
    _operations(request).revoke_devices(_field(request, "id"))
    return request.redirect("/operate#enrolment-keys")


def make_token(request: PageRequest) -> Response:
    """Make a token, shown on the next page and never again."""
    role = _field(request, "role")
    if role not in ("analyst", "operator"):
        raise InvalidSetting("role", "must be analyst or operator")
    token = _operations(request).make_token(_name(request), cast(CallerRole, role), days=_days(request))
    return _made(request, Secret(f"{role} token", token))


def revoke_token(request: PageRequest) -> Response:
    """Make a token invalid."""
    _operations(request).revoke_token(_field(request, "id"))
    return request.redirect("/operate#tokens")


def rotate_key(request: PageRequest) -> Response:
    """Make a new sealing key, for the rounds that open from now on."""
    _operations(request).rotate_key()
    return request.redirect("/operate#sealing-keys")


def silent(queries: Sequence[QueryStatus]) -> list[Silence]:
    """The rounds that closed last, newest first."""
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


def _made(request: PageRequest, secret: Secret) -> Response:
    """Show a secret on the next page, after a redirect, so that reloading that page makes no second one."""
    request.session.leave(secret)
    return request.redirect("/operate")


def _operations(request: PageRequest) -> Operations:
    if request.console.operations is None:
        raise NotFound("Not all roles run here, so keys and tokens are not made here.", hint="See the page Operate.")
    return request.console.operations


def _field(request: PageRequest, name: str) -> str:
    return request.form.get(name, "").strip()


def _name(request: PageRequest) -> str:
    name = _field(request, "name")
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise InvalidSetting("name", "must have from 1 to 100 characters")
    return name


def _days(request: PageRequest) -> float | None:
    days = _field(request, "days")
    if not days:
        return None
    number = read_number(days, "days")
    if not 0 < number <= 3660:
        raise InvalidSetting("days", "must be above 0 and at most 3,660")
    return number

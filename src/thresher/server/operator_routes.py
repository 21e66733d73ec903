"""The operator's routes: enrolment keys, tokens, the aggregator's key. Secrets are shown once, when they are made."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from msgspec import Meta, convert, field

from thresher.protocol.messages import Message, Name, Seconds
from thresher.roles.collector.enrolment import EnrolmentKey
from thresher.roles.coordinator.store import StoredToken
from thresher.server.peer_messages import AggregatorKey
from thresher.server.routing import Call, Routes

M = TypeVar("M", bound=Message)

MOST_DEVICES = 1_000
"""How many devices of a key are listed."""

_OPERATOR = ("operator",)
_COLLECTOR = Routes("collector", _OPERATOR)
_COORDINATOR = Routes("coordinator", _OPERATOR)
_AGGREGATOR = Routes("aggregator", _OPERATOR)
_KEYS = "/v1/operator/enrolment-keys"
_TOKENS = "/v1/operator/tokens"


class NewEnrolmentKey(Message, frozen=True, kw_only=True):
    """Make an enrolment key, for a time or a number of devices, in all or in an hour, if wanted."""

    name: Name
    seconds: Seconds | None = None
    devices: Annotated[int, Meta(ge=1, le=1 << 40)] | None = None
    hourly: Annotated[int, Meta(ge=1, le=1 << 40)] | None = None


class EnrolmentKeyMade(Message, frozen=True, kw_only=True):
    """The key, shown this once."""

    id: Name
    key: str


class EnrolmentKeyShown(Message, frozen=True, kw_only=True):
    """An enrolment key without its secret."""

    id: Name
    name: str
    created: float
    expires: float | None
    revoked: bool
    devices: int | None
    """How many devices it may enrol; null for any number."""
    hourly: int | None
    """How many in an hour; null for as many as the server says."""
    enrolled: int


class EnrolmentKeys(Message, frozen=True, kw_only=True):
    """All enrolment keys."""

    keys: list[EnrolmentKeyShown]


class DeviceShown(Message, frozen=True, kw_only=True):
    """A device that has enrolled: when it did and was last here, each to the day, and nothing of what it holds."""

    id: Name
    enrolled: float | None
    """Null for devices from before this was kept."""
    last_check_in: float | None
    revoked: bool


class DeviceList(Message, frozen=True, kw_only=True):
    """The devices of one enrolment key: how many there are, and the 1,000 that enrolled last."""

    number: int
    devices: list[DeviceShown]


class DevicesRevoked(Message, frozen=True, kw_only=True):
    """How many devices were revoked by this request."""

    revoked: int


class NewToken(Message, frozen=True, kw_only=True):
    """Make a token for a person or a program."""

    name: Name
    role: Literal["analyst", "operator"]
    seconds: Seconds | None = None


class TokenMade(Message, frozen=True, kw_only=True):
    """The token, shown this once."""

    id: Name
    token: str


class TokenShown(Message, frozen=True, kw_only=True):
    """A token without its secret."""

    id: Name
    name: str
    kind: str = field(name="role")
    created: float
    expires: float | None
    revoked: bool


class TokenList(Message, frozen=True, kw_only=True):
    """All tokens that an operator made."""

    tokens: list[TokenShown]


def _shown(shape: type[M], stored: EnrolmentKey | StoredToken) -> M:
    """The message with what is stored of a key or token. The message says whether it was revoked, and not when."""
    fields = {name: getattr(stored, name) for name in shape.__struct_fields__}
    return shape(**fields | {"revoked": stored.revoked is not None})


@_COLLECTOR.add("POST", _KEYS, body=NewEnrolmentKey, status=201, problems=(400,))
def make_enrolment_key(call: Call) -> EnrolmentKeyMade:
    """Make an enrolment key; it is shown this once."""
    asked: NewEnrolmentKey = call.body
    made = call.services.operations.issue(
        "enrolment", asked.name, seconds=asked.seconds, devices=asked.devices, hourly=asked.hourly
    )
    return EnrolmentKeyMade(id=made.id, key=made.token)


@_COLLECTOR.add("GET", _KEYS)
def list_enrolment_keys(call: Call) -> EnrolmentKeys:
    """All enrolment keys, without their secrets."""
    return EnrolmentKeys(keys=[_shown(EnrolmentKeyShown, key) for key in call.services.the_collector.enrolment_keys()])


@_COLLECTOR.add("DELETE", f"{_KEYS}/{{id}}", problems=(404,))
def revoke_enrolment_key(call: Call) -> None:
    """Nobody enrols with this key any more; devices that did stay."""
    call.services.operations.revoke_enrolment_key(call.path["id"])


@_COLLECTOR.add("GET", f"{_KEYS}/{{id}}/devices", problems=(404,))
def list_devices(call: Call) -> DeviceList:
    """The devices that enrolled with this key."""
    number, devices = call.services.operations.devices(call.path["id"], MOST_DEVICES)
    return DeviceList(number=number, devices=convert(devices, list[DeviceShown], from_attributes=True))


@_COLLECTOR.add("DELETE", f"{_KEYS}/{{id}}/devices", problems=(404,))
def revoke_devices(call: Call) -> DevicesRevoked:
    """Revoke this key and every device that enrolled with it."""
    return DevicesRevoked(revoked=call.services.operations.revoke_devices(call.path["id"]))


@_COLLECTOR.add("DELETE", "/v1/operator/devices/{id}", problems=(404,))
def revoke_device(call: Call) -> None:
    """Take nothing more of this device; reports that were taken stay."""
    call.services.operations.revoke_device(call.path["id"])


@_COORDINATOR.add("POST", _TOKENS, body=NewToken, status=201, problems=(400,))
def make_token(call: Call) -> TokenMade:
    """Make an analyst's or operator's token; it is shown this once."""
    asked: NewToken = call.body
    made = call.services.operations.issue(asked.role, asked.name, seconds=asked.seconds)
    return TokenMade(id=made.id, token=made.token)


@_COORDINATOR.add("GET", _TOKENS)
def list_tokens(call: Call) -> TokenList:
    """All tokens, without their secrets."""
    return TokenList(tokens=[_shown(TokenShown, token) for token in call.services.the_coordinator_store.tokens()])


@_COORDINATOR.add("DELETE", f"{_TOKENS}/{{id}}", problems=(404,))
def revoke_token(call: Call) -> None:
    """This token opens nothing any more."""
    call.services.operations.revoke_token(call.path["id"])


@_AGGREGATOR.add("GET", "/v1/operator/keys")
def show_key(call: Call) -> AggregatorKey:
    """The key that new rounds are sealed to; devices can pin it."""
    return AggregatorKey.of(call.services.the_aggregator.public_key())


@_AGGREGATOR.add("POST", "/v1/operator/keys/rotate", problems=(400,))
def rotate_key(call: Call) -> AggregatorKey:
    """A new key for the rounds to come; open rounds keep theirs."""
    return AggregatorKey.of(call.services.the_aggregator.rotate())


ROUTES = (*_COLLECTOR, *_COORDINATOR, *_AGGREGATOR)

"""The operator's routes: enrolment keys, tokens, the aggregator's key. Secrets are shown once, when they are made."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from msgspec import Meta, convert, field

from thresher.protocol.messages import Message, Name, Seconds
from thresher.roles.collector.enrolment import EnrolmentKey
from thresher.roles.coordinator.store import StoredToken
from thresher.server.peer_messages import AggregatorKey
from thresher.server.routing import Call, Route

M = TypeVar("M", bound=Message)

OPERATOR = ("operator",)
MOST_DEVICES = 1_000
"""Listed for a key."""


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


def _make_enrolment_key(call: Call) -> EnrolmentKeyMade:
    asked: NewEnrolmentKey = call.body
    made = call.services.operations.issue(
        "enrolment", asked.name, seconds=asked.seconds, devices=asked.devices, hourly=asked.hourly
    )
    return EnrolmentKeyMade(id=made.id, key=made.token)


def _enrolment_keys(call: Call) -> EnrolmentKeys:
    return EnrolmentKeys(keys=[_shown(EnrolmentKeyShown, key) for key in call.services.the_collector.enrolment_keys()])


def _revoke_enrolment_key(call: Call) -> None:
    call.services.operations.revoke_enrolment_key(call.path["id"])


def _devices(call: Call) -> DeviceList:
    number, devices = call.services.operations.devices(call.path["id"], MOST_DEVICES)
    return DeviceList(number=number, devices=convert(devices, list[DeviceShown], from_attributes=True))


def _revoke_devices(call: Call) -> DevicesRevoked:
    return DevicesRevoked(revoked=call.services.operations.revoke_devices(call.path["id"]))


def _revoke_device(call: Call) -> None:
    call.services.operations.revoke_device(call.path["id"])


def _make_token(call: Call) -> TokenMade:
    asked: NewToken = call.body
    made = call.services.operations.issue(asked.role, asked.name, seconds=asked.seconds)
    return TokenMade(id=made.id, token=made.token)


def _tokens(call: Call) -> TokenList:
    return TokenList(tokens=[_shown(TokenShown, token) for token in call.services.the_coordinator_store.tokens()])


def _revoke_token(call: Call) -> None:
    call.services.operations.revoke_token(call.path["id"])


def _key(call: Call) -> AggregatorKey:
    return AggregatorKey.of(call.services.the_aggregator.public_key())


def _rotate(call: Call) -> AggregatorKey:
    return AggregatorKey.of(call.services.the_aggregator.rotate())


_ENROLMENT_KEYS = "/v1/operator/enrolment-keys"
_TOKENS = "/v1/operator/tokens"
_KEYS = "/v1/operator/keys"
ROUTES = (
    Route(
        "POST", _ENROLMENT_KEYS, "make_enrolment_key", "Make an enrolment key; it is shown this once.",
        OPERATOR, "collector", _make_enrolment_key,
        body=NewEnrolmentKey, answer=EnrolmentKeyMade, status=201, problems=(400,),
    ),
    Route(
        "GET", _ENROLMENT_KEYS, "list_enrolment_keys", "All enrolment keys, without their secrets.",
        OPERATOR, "collector", _enrolment_keys, answer=EnrolmentKeys,
    ),
    Route(
        "DELETE", f"{_ENROLMENT_KEYS}/{{id}}", "revoke_enrolment_key",
        "Nobody enrols with this key any more; devices that did stay.",
        OPERATOR, "collector", _revoke_enrolment_key, problems=(404,),
    ),
    Route(
        "GET", f"{_ENROLMENT_KEYS}/{{id}}/devices", "list_devices", "The devices that enrolled with this key.",
        OPERATOR, "collector", _devices, answer=DeviceList, problems=(404,),
    ),
    Route(
        "DELETE", f"{_ENROLMENT_KEYS}/{{id}}/devices", "revoke_devices",
        "Revoke this key and every device that enrolled with it.",
        OPERATOR, "collector", _revoke_devices, answer=DevicesRevoked, problems=(404,),
    ),
    Route(
        "DELETE", "/v1/operator/devices/{id}", "revoke_device",
        "Take nothing more of this device; reports that were taken stay.",
        OPERATOR, "collector", _revoke_device, problems=(404,),
    ),
    Route(
        "POST", _TOKENS, "make_token", "Make an analyst's or operator's token; it is shown this once.",
        OPERATOR, "coordinator", _make_token, body=NewToken, answer=TokenMade, status=201, problems=(400,),
    ),
    Route(
        "GET", _TOKENS, "list_tokens", "All tokens, without their secrets.",
        OPERATOR, "coordinator", _tokens, answer=TokenList,
    ),
    Route(
        "DELETE", f"{_TOKENS}/{{id}}", "revoke_token", "This token opens nothing any more.",
        OPERATOR, "coordinator", _revoke_token, problems=(404,),
    ),
    Route(
        "GET", _KEYS, "show_key", "The key that new rounds are sealed to; devices can pin it.",
        OPERATOR, "aggregator", _key, answer=AggregatorKey,
    ),
    Route(
        "POST", f"{_KEYS}/rotate", "rotate_key", "A new key for the rounds to come; open rounds keep theirs.",
        OPERATOR, "aggregator", _rotate, answer=AggregatorKey, problems=(400,),
    ),
)  # fmt: skip

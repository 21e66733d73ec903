"""Every message of the fleet protocol, as it is on the wire. See docs/protocol.md.

One definition serves the server, the Python clients and the OpenAPI document. Making a message and reading one are
equally strict: unknown, missing, oversized or mistyped fields are refused, and the error says which field, never its
content.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from thresher import questions
from thresher.errors import InvalidFormat, InvalidSetting, ThresherError
from thresher.privacy import rates as against
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan
from thresher.privacy.rates import ONE, Rates
from thresher.privacy.units import DEVICE
from thresher.protocol import recomputation
from thresher.protocol.checking import Checked, field_of, read_json
from thresher.protocol.rates import SampledBy, check_bounded
from thresher.protocol.states import QueryState, RoundState
from thresher.questions import Question

VERSION: Literal[1] = 1
"""Of the requests."""
CONFIGURATION_VERSION: Literal[2] = 2
"""Of a round's configuration. Version 1, of Thresher 0.1.0, did not state what holds against injected reports."""
SMALLEST_BUCKET = 48
"""A padded plaintext has room for a decoy, at least."""
LARGEST_BUCKET = 4096
LARGEST_CONFIGURATION = 4 << 20
LARGEST_ANSWER = 4 * LARGEST_CONFIGURATION
"""What a device reads of an answer at most."""

_NAMES = "letters, digits and . _ : - only, a letter or digit first, at most 100"
Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$(?!\n)",
        description=_NAMES,
    ),
]
"""An identifier: letters, digits and . _ : - only, so that it is safe in a path, a log or a page.

`$` alone would let a line break through at the end.
"""
Text = Annotated[str, Meta(min_length=1, max_length=200)]
Rate = Annotated[int, Meta(ge=1, le=ONE)]
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Seconds = Annotated[float, Meta(gt=0, le=366 * 86_400)]
RoundSeconds = Annotated[float, Meta(ge=0.1, le=366 * 86_400)]
"""Shorter than this no device can answer: the query would be charged for nothing."""
Hex32 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
"""32 bytes in hexadecimal."""
BucketSize = Annotated[int, Meta(ge=SMALLEST_BUCKET, le=LARGEST_BUCKET)]
Version = Literal[1]


class Message(Checked, frozen=True, kw_only=True):
    """Base of all messages: whatever can be made can be read back."""


class GuaranteeStated(Message, frozen=True, kw_only=True):
    """An (epsilon, delta) over a number of rounds."""

    epsilon: float
    delta: float
    adjacency: Literal["replace"]
    rounds: int

    @classmethod
    def of(cls, guarantee: Guarantee) -> GuaranteeStated:
        """The wire form; a fleet only ever states replace-one guarantees."""
        if guarantee.adjacency != "replace":
            raise InvalidFormat("A fleet states replace-one guarantees only.")
        return cls(epsilon=guarantee.epsilon, delta=guarantee.delta, adjacency="replace", rounds=guarantee.rounds)

    @property
    def stated(self) -> Guarantee:
        """The same as a value; a fleet's units are its devices."""
        return Guarantee(self.epsilon, self.delta, self.adjacency, self.rounds, DEVICE)


class Guarantees(Message, frozen=True, kw_only=True):
    """Against whoever sees the release, whoever also knows who was contacted, and whoever can add reports."""

    analyst: GuaranteeStated
    contact_list: GuaranteeStated
    injected: GuaranteeStated

    @classmethod
    def of(cls, plan: Plan, rates: Rates) -> Guarantees:
        """What a plan guarantees whose coins are tossed at these rates."""
        values = against.Guarantees.of(plan, rates)
        return cls(
            analyst=GuaranteeStated.of(values.analyst),
            contact_list=GuaranteeStated.of(values.contact_list),
            injected=GuaranteeStated.of(values.injected),
        )

    @property
    def values(self) -> against.Guarantees:
        """As `thresher.privacy` has them."""
        return against.Guarantees(self.analyst.stated, self.contact_list.stated, self.injected.stated)


class GuaranteesStated(Message, frozen=True, kw_only=True, omit_defaults=True):
    """The guarantees in a round's configuration.

    Version 1 of a configuration did not state `injected`. It is read and written without, so the hash of such a
    configuration, which reports are sealed to, stays the same.
    """

    analyst: GuaranteeStated
    contact_list: GuaranteeStated
    injected: GuaranteeStated | None = None

    @classmethod
    def of(cls, guarantees: Guarantees) -> GuaranteesStated:
        """State all of them."""
        return cls(analyst=guarantees.analyst, contact_list=guarantees.contact_list, injected=guarantees.injected)

    @property
    def values(self) -> against.Guarantees | None:
        """As `thresher.privacy` has them; None where `injected` is not stated."""
        if self.injected is None:
            return None
        return against.Guarantees(self.analyst.stated, self.contact_list.stated, self.injected.stated)

    @property
    def beyond_the_plan(self) -> tuple[Guarantee, Guarantee | None]:
        """The contact list's and, if it is stated, that against injected reports; the analyst's is the plan's."""
        return self.contact_list.stated, None if self.injected is None else self.injected.stated


class RoundConfiguration(Message, frozen=True, kw_only=True):
    """All that a device agrees to when it answers. Its hash is sealed into every report.

    Version 1 is read so that rounds that Thresher 0.1.0 opened can be finished; devices answer version 2 only.
    """

    version: Literal[1, 2]
    fleet: Name
    query: Name
    index: Annotated[int, Meta(ge=0, le=100_000)]
    round: Name
    question: dict[str, Any]
    plan: dict[str, Any]
    contact_rate: Rate
    device_rate: Rate
    aggregator_rate: Rate
    bucket_size: BucketSize
    deadline: float
    key_id: Name
    public_key: Hex32
    guarantees: GuaranteesStated

    @classmethod
    def of(
        cls,
        *,
        fleet: str,
        query: str,
        index: int,
        round: str,
        question: Question,
        plan: Plan,
        rates: Rates,
        bucket_size: int,
        deadline: float,
        key_id: str,
        public_key: bytes,
    ) -> RoundConfiguration:
        """The configuration of a round whose plan is already that of its rates."""
        return cls(
            version=CONFIGURATION_VERSION,
            fleet=fleet,
            query=query,
            index=index,
            round=round,
            question=questions.to_dict(question),
            plan=plan.to_dict(),
            contact_rate=rates.contact,
            device_rate=rates.device,
            aggregator_rate=rates.aggregator,
            bucket_size=bucket_size,
            deadline=deadline,
            key_id=key_id,
            public_key=public_key.hex(),
            guarantees=GuaranteesStated.of(Guarantees.of(plan, rates)),
        )

    @property
    def asked(self) -> Question:
        """The question as a value; `InvalidFormat` or `InvalidSetting` if it is not one."""
        question: Question = questions.from_dict(self.question)
        return question

    @property
    def planned(self) -> Plan:
        """The plan as a value."""
        return Plan.from_dict(self.plan)

    @property
    def rates(self) -> Rates:
        """The three rates as a value."""
        return Rates(self.contact_rate, self.device_rate, self.aggregator_rate)


class Enrol(Message, frozen=True, kw_only=True):
    """A device asks for a token, showing an enrolment key."""

    version: Version = VERSION


class Enrolled(Message, frozen=True, kw_only=True):
    """The device's token, shown this once, and the server's own public key (docs/protocol.md, section 7)."""

    token: Text
    identity: Hex32 | None = None


class CheckIn(Message, frozen=True, kw_only=True):
    """A device asks which rounds it has been chosen for."""

    version: Version = VERSION


class CheckedIn(Message, frozen=True, kw_only=True):
    """The open rounds that this device was chosen for and has not answered, and when to come back, in seconds."""

    rounds: list[RoundConfiguration]
    come_back: float


class Report(Message, frozen=True, kw_only=True):
    """A sealed bucket or decoy; the same bytes however often it is sent."""

    sealed: Annotated[bytes, Meta(min_length=1, max_length=LARGEST_BUCKET + 1024)]
    version: Version = VERSION


class Accepted(Message, frozen=True, kw_only=True):
    """The report is stored durably."""

    accepted: Literal[True] = True


class RoundSettings(Message, frozen=True, kw_only=True):
    """How a query's rounds are run; all have defaults at the server."""

    contact_rate: Annotated[float, Meta(gt=0, le=1)] | None = None
    sampled_by: SampledBy | None = None
    bucket_size: BucketSize | None = None
    seconds: RoundSeconds | None = None
    """How long a round is open."""
    completions: Annotated[int, Meta(ge=1, le=1 << 40)] | None = None
    """A round also closes when this many devices have completed it."""


class QueryRequest(Message, frozen=True, kw_only=True):
    """A query: one of the four verbs with its plan, as `thresher.verbs.queries` writes it."""

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


class Releases(Message, frozen=True, kw_only=True):
    """The stored releases of a query, in order; each is what `Release.to_json` wrote."""

    query: Name
    state: QueryState
    releases: list[str]


class Caution(Message, frozen=True, kw_only=True):
    """Why a query would be charged for nothing, as far as public numbers tell."""

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
    left_delta: float
    fits: bool
    warnings: list[Caution] = msgspec.field(default_factory=list)
    """What speaks against asking it; empty where nothing does."""


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


class LedgerView(Message, frozen=True, kw_only=True):
    """The fleet's budget and every charge."""

    epsilon: float
    delta: float
    spent_epsilon: float
    spent_delta: float
    left_epsilon: float
    left_delta: float
    charges: list[Charge]
    unit: Literal["device"] = "device"
    """Whom the guarantees protect that are added up here."""


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


class Problem(Message, frozen=True, kw_only=True):
    """An error, as application/problem+json."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str = ""


def canonical(message: Any) -> bytes:
    """The one way to write a message: JSON with sorted keys and no spaces, so that its hash is the same everywhere."""
    plain = msgspec.to_builtins(message)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def configuration_hash(configuration: RoundConfiguration) -> bytes:
    """What is bound into every sealed report of a round."""
    return hashlib.sha256(b"thresher round %d\0" % configuration.version + canonical(configuration)).digest()


def encode(message: Message) -> bytes:
    """A message as JSON. `InvalidSetting` where a query holds what JSON cannot."""
    try:
        return msgspec.json.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidSetting("query", "holds a value that cannot be sent", hint="Use text, numbers or dates.") from None


def check_name(setting: str, text: str) -> str:
    """A text that may be the name of something in a message."""
    try:
        return msgspec.convert(text, Name)
    except msgspec.ValidationError:
        raise InvalidSetting(setting, f"must be {_NAMES}") from None


T = TypeVar("T")


def decode(kind: type[T], body: bytes | str) -> T:
    """Read a message. `InvalidFormat` names the field that is wrong, never its content."""
    try:
        return read_json(kind, body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        field = field_of(error)
        where = f" Check the field {field}." if field else ""
        raise InvalidFormat(f"This is not a {kind.__name__} message of version {VERSION}.{where}") from None


def read_configuration(configuration: RoundConfiguration) -> tuple[Question, Plan, Rates]:
    """The question, plan and rates of a configuration whose parts fit together, as far as that costs next to nothing.

    Guarantee: the rates' product is the plan's rate exactly, the analyst's guarantee is the plan's, and `injected` is
    stated from version 2 on. What is stated is not recomputed: `check_configuration` does. `InvalidFormat` otherwise.
    """
    try:
        question, plan, rates = configuration.asked, configuration.planned, configuration.rates
        check_bounded(plan)
        consistent = (
            configuration.index < plan.rounds
            and rates.sampling_rate == plan.exact_rate
            and configuration.guarantees.analyst == GuaranteeStated.of(plan.stated)
            and (configuration.version == 1) == (configuration.guarantees.injected is None)
        )
    except (ThresherError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError):
        raise InvalidFormat("This round's configuration does not hold together.") from None
    if not consistent:
        raise InvalidFormat("This round's configuration states rates or guarantees that do not follow from its plan.")
    return question, plan, rates


def check_configuration(configuration: RoundConfiguration) -> tuple[Question, Plan, Rates]:
    """The question, plan and rates of a configuration that is consistent in itself.

    Guarantee: that of `read_configuration`, and the plan's delta and all stated guarantees have been recomputed.
    `InvalidFormat` otherwise.
    """
    question, plan, rates = read_configuration(configuration)
    if not recomputation.holds(plan, rates, configuration.guarantees.beyond_the_plan):
        raise InvalidFormat("This round's configuration states rates or guarantees that do not follow from its plan.")
    return question, plan, rates

"""A round's configuration, and the guarantees that it states, as the servers make, check and keep them.

Devices read the same configurations with `thresher.protocol.readable`, which computes nothing.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import Meta

from thresher import questions
from thresher.errors import InvalidFormat
from thresher.privacy import rates as against
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan
from thresher.privacy.rates import Rates
from thresher.privacy.settings import MAX_CONTRIBUTIONS
from thresher.privacy.units import DEVICE
from thresher.protocol.messages import BucketSize, Hex32, Message, Name, Rate, canonical, decode
from thresher.questions import Question

CONFIGURATION_VERSION: Literal[3] = 3
"""Of a round's configuration. Version 2 was hashed in canonical form by everybody who read it. Version 1, of Thresher
0.1.0, did not state the `injected` guarantee either."""


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


class Guarantees(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Against whoever sees the release, whoever also knows who was contacted, and whoever can add reports."""

    analyst: GuaranteeStated
    contact_list: GuaranteeStated
    injected: GuaranteeStated
    contributions: Annotated[int, Meta(ge=1, le=MAX_CONTRIBUTIONS)] = 1
    """How many values of one device count in a round. It is not written where it is 1."""

    @classmethod
    def of(cls, plan: Plan, rates: Rates) -> Guarantees:
        """What a plan guarantees whose coins are tossed at these rates."""
        values = against.Guarantees.of(plan, rates)
        return cls(
            analyst=GuaranteeStated.of(values.analyst),
            contact_list=GuaranteeStated.of(values.contact_list),
            injected=GuaranteeStated.of(values.injected),
            contributions=plan.contributions,
        )

    @property
    def values(self) -> against.Guarantees:
        """As `thresher.privacy` has them."""
        stated = (self.analyst.stated, self.contact_list.stated, self.injected.stated)
        return against.Guarantees(*(replace(each, contributions=self.contributions) for each in stated))


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


class RoundConfiguration(Message, frozen=True, kw_only=True, dict=True):
    """All that a device agrees to when it answers. Its hash is sealed into every report.

    It travels as one string, its `text`. Versions 1 and 2 are read so that rounds that earlier versions of Thresher
    opened can be finished; devices answer version 3 only.
    """

    version: Literal[1, 2, 3]
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
            question=question.to_dict(),
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

    @classmethod
    def read(cls, text: str | bytes) -> RoundConfiguration:
        """Read a string that a server role has written.

        Guarantee: it is the very string that this role would write, so that duplicate keys or another spelling cannot
        mean one thing here and another to a device. `InvalidFormat` otherwise.
        """
        configuration = decode(cls, text)
        try:
            same = configuration.content == (text.encode() if isinstance(text, str) else text)
        except ValueError:  # text that is no UTF-8, numbers that are no JSON
            same = False
        if not same:
            raise InvalidFormat("This round's configuration is not spelled as this server would write it.")
        return configuration

    @functools.cached_property
    def content(self) -> bytes:
        """The string that is stored, sent and hashed, in UTF-8."""
        return canonical(self)

    @property
    def text(self) -> str:
        """The string that is stored, sent and hashed."""
        return self.content.decode()

    @functools.cached_property
    def hash(self) -> bytes:
        """What is bound into every sealed report of the round."""
        return hashlib.sha256(b"thresher round %d\0" % self.version + self.content).digest()

    def __hash__(self) -> int:
        return hash(self.hash)

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

"""The messages between roles that run on different machines. See `thresher.roles.ports`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from thresher.mechanism.response import RoundNumbers
from thresher.protocol.messages import LARGEST_CONFIGURATION, Count, Message, Name
from thresher.protocol.sealing import PublicKey

ConfigurationText = Annotated[str, Meta(max_length=LARGEST_CONFIGURATION)]
"""A round's configuration: one string, which whoever reads it hashes as it came."""


class OpenRound(Message, frozen=True, kw_only=True):
    """Show this round to devices."""

    configuration: ConfigurationText
    target: Count | None = None


class NumbersStated(Message, frozen=True, kw_only=True):
    """The public numbers of a round."""

    asked: Count
    contacted: Count
    completed: Count

    @classmethod
    def of(cls, numbers: RoundNumbers) -> NumbersStated:
        """The wire form."""
        return cls(**numbers.numbers)

    @property
    def stated(self) -> RoundNumbers:
        """The same as a value."""
        return RoundNumbers(self.asked, self.contacted, self.completed)


class WaitedFor(Message, frozen=True, kw_only=True):
    """How many active devices have not answered a round."""

    devices: Count


class Forwarded(Message, frozen=True, kw_only=True):
    """How many batches of a round the aggregator has."""

    batches: Count


class Overview(Message, frozen=True, kw_only=True):
    """The fleet at a glance, as the collector knows it."""

    enrolled: Count
    active: Count
    check_ins: list[tuple[float, int]]


class AggregatorKey(Message, frozen=True, kw_only=True):
    """The key that new rounds are sealed to; devices can pin it."""

    key_id: Name
    public_key: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]

    @classmethod
    def of(cls, key: PublicKey) -> AggregatorKey:
        """The message with a key."""
        return cls(key_id=key.key_id, public_key=key.raw.hex())

    @property
    def stated(self) -> PublicKey:
        """The key."""
        return PublicKey(self.key_id, bytes.fromhex(self.public_key))


class RetireKeys(Message, frozen=True, kw_only=True):
    """Delete the private half of every old key but these."""

    in_use: list[Name]


class KeysRetired(Message, frozen=True, kw_only=True):
    """The keys that were deleted."""

    retired: list[Name]


class ReleaseRound(Message, frozen=True, kw_only=True):
    """Release this round, once all its batches are there."""

    configuration: ConfigurationText
    batches: Count
    response: NumbersStated


class Released(Message, frozen=True, kw_only=True):
    """A release, as `Release.to_json` writes it."""

    release: str

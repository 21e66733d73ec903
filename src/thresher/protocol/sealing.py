"""Sealed reports: HPKE (RFC 9180) from the `cryptography` package, base mode, one message a key exchange.

The suite is X25519, HKDF-SHA256, AES-128-GCM. Sealed bytes are the sender's fresh public key (32 bytes), the
ciphertext and its tag (16 bytes). `info` is the hash of the round's configuration: bytes sealed under one
configuration do not open under another.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from thresher.errors import InvalidFormat

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
KEY_BYTES = 32
OVERHEAD = KEY_BYTES + 16
"""How many bytes sealing adds."""


class SealBroken(InvalidFormat):
    """Sealed bytes do not open: changed, cut, or sealed for another key or another configuration."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The aggregator's public key, as it is in a round's configuration."""

    key_id: str
    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != KEY_BYTES:
            raise InvalidFormat(f"A public key has {KEY_BYTES} bytes.")


@dataclass(frozen=True, slots=True, eq=False)
class PrivateKey:
    """The aggregator's private key. Its secret is in no representation, and it cannot be pickled."""

    key_id: str
    _key: X25519PrivateKey = field(repr=False)

    @classmethod
    def generate(cls, key_id: str | None = None) -> PrivateKey:
        """A fresh key; without an id it is called after its public half."""
        key = X25519PrivateKey.generate()
        return cls(key_id or key_id_of(key.public_key().public_bytes_raw()), key)

    @classmethod
    def from_bytes(cls, key_id: str, secret: bytes) -> PrivateKey:
        """Read what `to_bytes` wrote."""
        if len(secret) != KEY_BYTES:
            raise InvalidFormat(f"A private key has {KEY_BYTES} bytes.")
        return cls(key_id, X25519PrivateKey.from_private_bytes(secret))

    def to_bytes(self) -> bytes:
        """The secret itself: for the key's own file and for the processes that open reports, nothing else."""
        return self._key.private_bytes_raw()

    @property
    def public(self) -> PublicKey:
        """The public half."""
        return PublicKey(self.key_id, self._key.public_key().public_bytes_raw())


def key_id_of(raw: bytes) -> str:
    """A short name for a public key, that follows from it."""
    return "key-" + hashlib.sha256(raw).hexdigest()[:16]


def seal(plaintext: bytes, public: PublicKey, info: bytes) -> bytes:
    """Seal for whoever holds the private half.

    Guarantee: `len(plaintext) + OVERHEAD` bytes, unlinkable to any other sealing, even of the same plaintext.
    Edge cases: a public key of low order, which would hide nothing, is refused with `InvalidFormat`.
    """
    try:
        return SUITE.encrypt(plaintext, _loaded(public.raw), info)
    except ValueError:
        raise InvalidFormat("This public key cannot be sealed for.") from None


def open_sealed(sealed: bytes, private: PrivateKey, info: bytes) -> bytes:
    """The plaintext. `SealBroken` for anything but bytes sealed for this key under this `info`."""
    try:
        return SUITE.decrypt(sealed, private._key, info)
    except (InvalidTag, ValueError):
        raise SealBroken("This report does not open under this key and configuration.") from None


@functools.lru_cache(maxsize=64)
def _loaded(raw: bytes) -> X25519PublicKey:
    return X25519PublicKey.from_public_bytes(raw)

"""Where every random bit comes from.

Code that draws takes its source as an argument: a test can supply its own, a release can say which it was.
"""

from __future__ import annotations

import hmac
import os
from typing import Any, ClassVar, NoReturn, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from thresher.errors import InvalidSetting

Buffer: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]

_KEY_BYTES = 32
_CHUNK_BYTES = 1 << 18  # plaintext and keystream stay in the second-level cache
_ZEROS = memoryview(bytes(_CHUNK_BYTES))


class Randomness(Protocol):
    """A source of independent uniform bits."""

    @property
    def private(self) -> bool:
        """Whether nobody can predict or repeat the bits; a release carries this mark."""
        ...

    def fill(self, buffer: Buffer) -> None:
        """Overwrite a contiguous buffer with fresh bits."""
        ...


class SecureRandomness:
    """The keystream of AES-256 in counter mode, under a key from the operating system.

    Guarantee: the key is 256 bits of `os.urandom`, belongs to this instance alone and is never shown. A new
    process id, the mark of a fork, brings a new key before the next byte, so parent and children never share
    bits. Pickling and copying are refused, because two holders of one keystream would toss the same coins.
    Edge cases: an empty buffer stays empty; a buffer that is not contiguous is refused. Give each thread its
    own instance: filling from one in two threads at the same time fails.
    """

    __slots__ = ("_keystream", "_process")

    private: ClassVar[bool] = True

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._keystream = _keystream(os.urandom(_KEY_BYTES))
        self._process = os.getpid()

    def fill(self, buffer: Buffer) -> None:
        """Overwrite a contiguous buffer with fresh bits."""
        if os.getpid() != self._process:
            self._renew()
        _fill(buffer, self._keystream)

    def __reduce__(self) -> NoReturn:
        raise TypeError("SecureRandomness cannot be pickled or copied: both would toss the same coins.")

    def __repr__(self) -> str:
        return "SecureRandomness()"


class KeyedRandomness:
    """The keystream of AES-256 in counter mode, under a key that follows from a secret and a place.

    It is for a cluster, which may do the same work twice: whoever works on the same place again draws the same bits.

    Guarantee: bits at different places are independent, and nobody without the secret can tell them from uniform ones.
    The caller makes a new secret for each round with `new_secret`, shows it to nobody who may not see exact counts, and
    gives each place to one part of the work.
    """

    __slots__ = ("_keystream",)

    private: ClassVar[bool] = True

    def __init__(self, secret: bytes, place: int) -> None:
        self._keystream = _keystream(hmac.digest(secret, place.to_bytes(8), "sha256"))

    @staticmethod
    def new_secret() -> bytes:
        """A fresh secret from the operating system."""
        return os.urandom(_KEY_BYTES)

    def fill(self, buffer: Buffer) -> None:
        """Overwrite a contiguous buffer with the next bits."""
        _fill(buffer, self._keystream)


def _keystream(key: bytes) -> CipherContext:
    # The counter starts at zero: a key is used for one keystream only, so it needs no nonce.
    return Cipher(AES(key), CTR(bytes(16))).encryptor()


def _fill(buffer: Buffer, keystream: CipherContext) -> None:
    octets = as_octets(buffer)
    for start in range(0, len(octets), _CHUNK_BYTES):
        chunk = octets[start : start + _CHUNK_BYTES]
        # The keystream is what counter mode makes of zeros.
        keystream.update_into(_ZEROS[: len(chunk)], chunk.data)


def as_octets(buffer: Buffer) -> npt.NDArray[np.uint8]:
    """The memory of a buffer, byte by byte.

    Guarantee: a view, never a copy, so that writing to it fills the buffer.
    """
    if not buffer.flags.c_contiguous:
        raise InvalidSetting("buffer", "must be contiguous", hint="Fill a new array and copy from it.")
    return buffer.reshape(-1).view(np.uint8)

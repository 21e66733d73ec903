"""How a server proves to a device that it is the one which enrolled it: a signature (Ed25519) over the device's nonce.

The server signs one statement only: "I know nobody with this token". A device that enrolled after the last backup gets
it from the restored server, and enrols again. Another machine that answers in the server's place cannot sign it.
"""

from __future__ import annotations

import hashlib
import re
import secrets

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

NONCE_HEADER = "thresher-nonce"
PROOF_HEADER = "thresher-proof"
_NONCE_BYTES = 16
_NONCE = re.compile(rf"[0-9a-f]{{{2 * _NONCE_BYTES}}}")


class Identity:
    """A server's own key. Its secret is in no representation."""

    __slots__ = ("_key", "public")

    def __init__(self, secret: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._key.public_key().public_bytes_raw().hex()
        """The public key in hexadecimal; a device keeps it when it enrols."""

    def proof(self, nonce: str, token: str) -> str | None:
        """The statement that this token is unknown here; None for a nonce that no device makes."""
        return self._key.sign(_statement(nonce, token)).hex() if _NONCE.fullmatch(nonce) else None


def new_secret() -> bytes:
    """The secret of a new identity."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def new_nonce() -> str:
    """A number that was never used before."""
    return secrets.token_hex(_NONCE_BYTES)


def proves(public: str, nonce: str, token: str, proof: str) -> bool:
    """Whether a proof is that of the server with this public key, for this nonce and this token."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(proof), _statement(nonce, token))
    except (InvalidSignature, ValueError):
        return False
    return True


def _statement(nonce: str, token: str) -> bytes:
    return b"thresher unknown token 1\0" + bytes.fromhex(nonce) + hashlib.sha256(token.encode()).digest()

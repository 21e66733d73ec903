"""Bearer tokens: the owner sees a token once, and the stores keep only its hash."""

from __future__ import annotations

import hashlib
import secrets

_BYTES = 24


def new_token(kind: str) -> str:
    """A fresh token of 192 random bits; `kind` is a readable word in front, such as "device"."""
    return f"thresher-{kind}-{secrets.token_urlsafe(_BYTES)}"


def token_hash(token: str) -> bytes:
    """The hash that is stored in place of a token. A plain hash is enough: nobody can guess 192 random bits."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()

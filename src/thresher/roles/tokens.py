"""Bearer tokens: shown once to whom they are for, kept only as hashes."""

from __future__ import annotations

import hashlib
import secrets

_BYTES = 24


def new_token(kind: str) -> str:
    """A fresh token of 192 random bits; `kind` is a readable mark in front, such as "device"."""
    return f"thresher-{kind}-{secrets.token_urlsafe(_BYTES)}"


def token_hash(token: str) -> bytes:
    """What is stored in place of a token. Tokens have too much entropy to be guessed, so a plain hash is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()

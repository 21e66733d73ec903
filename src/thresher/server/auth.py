"""Who is calling: bearer tokens, what kind each is, and which kinds open a route.

A token's readable mark says its kind ("thresher-analyst-…"). A token of another kind than the route takes is refused
with 403 without being looked up, so a collector can refuse analysts that it does not know. A token of the right kind
that is unknown, expired or revoked is refused with 401; the caller cannot tell the three apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from thresher.errors import Unauthorised
from thresher.roles.tokens import token_hash
from thresher.server.problem import Refused

COORDINATOR_TO_COLLECTOR: Final = "coordinator-to-collector"
COORDINATOR_TO_AGGREGATOR: Final = "coordinator-to-aggregator"
COLLECTOR_TO_AGGREGATOR: Final = "collector-to-aggregator"
PEERS: Final = (COORDINATOR_TO_COLLECTOR, COORDINATOR_TO_AGGREGATOR, COLLECTOR_TO_AGGREGATOR)
"""One key for each direction between two roles, made by the one that is called."""

KINDS: Final = ("enrolment", "device", "analyst", "operator", *PEERS)

ANALYST: Final = ("analyst", "operator")
"""The kinds that open an analyst's routes."""

_TOKEN = re.compile(rf"thresher-({'|'.join(KINDS)})-[A-Za-z0-9_-]{{20,100}}")
_NEEDED = "This needs a bearer token."
_HINT = "Send the header: Authorization: Bearer <token>."


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a token belongs to: its kind, and the name it was given when it was made."""

    kind: str
    by: str


def bearer(headers: list[tuple[bytes, bytes]]) -> str:
    """The token of a request, or `Unauthorised`."""
    for name, value in headers:
        if name == b"authorization":
            if value[:7].lower() == b"bearer ":
                return value[7:].strip().decode("latin-1")
            break
    raise Unauthorised(_NEEDED, hint=_HINT)


def kind_of(token: str) -> str | None:
    """The kind that a token says it is; None if it does not look like a token."""
    found = _TOKEN.fullmatch(token)
    return found[1] if found else None


def check_kind(token: str, opens: tuple[str, ...]) -> str:
    """The token's kind, if it is one of those that open a route."""
    kind = kind_of(token)
    if kind is None:
        raise unknown()
    if kind not in opens:
        raise Refused(403, "forbidden", "This token is for another role.", hint="Use a token of the right kind.")
    return kind


def unknown() -> Unauthorised:
    """The refusal of a token that is unknown, expired or revoked."""
    return Unauthorised("This token is not valid here.", hint="It is wrong, has expired or was revoked.")


class Tokens:
    """The analyst's, operator's and peers' tokens that this server takes.

    `fixed` are those of the data directory. `find` looks up the hash of a token that an operator made later; it returns
    None for one that is unknown, expired or revoked. Only hashes are compared.
    """

    def __init__(self, fixed: Mapping[bytes, Identity], find: Callable[[bytes], Identity | None] | None = None) -> None:
        self._fixed = dict(fixed)
        self._find = find

    def identify(self, token: str, opens: tuple[str, ...]) -> Identity:
        """Whose token this is, if it opens a route for `opens`; may ask a store."""
        kind = check_kind(token, opens)
        hashed = token_hash(token)
        identity = self._fixed.get(hashed)
        if identity is None and self._find is not None:
            identity = self._find(hashed)
        if identity is None or identity.kind != kind:
            raise unknown()
        return identity

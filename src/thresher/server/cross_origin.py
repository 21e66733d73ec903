"""Which web pages may use the device's routes: CORS, for the origins that the operator lists.

A browser lets a page of another origin read an answer only if the answer says so, errors too. No cookie is used, so
what a page can do with these routes is what anybody with its token can do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from thresher.errors import InvalidSetting
from thresher.protocol.identity import NONCE_HEADER, PROOF_HEADER

ANY = "*"
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_ORIGIN = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]{0,30})://(?P<host>[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{1,5}))?"
)
_PREFLIGHT_SECONDS = 7200
_VARY = (b"vary", b"origin")
_ALLOWED = [
    (b"access-control-allow-methods", b"POST"),
    (b"access-control-allow-headers", f"authorization, content-type, {NONCE_HEADER}".encode()),
    (b"access-control-max-age", str(_PREFLIGHT_SECONDS).encode()),
]
_EXPOSED = (b"access-control-expose-headers", f"retry-after, {PROOF_HEADER}".encode())

Headers = list[tuple[bytes, bytes]]


class Origins:
    """The origins whose pages may use the device's routes; none by default.

    Args:
        listed: origins such as `https://app.example`, or `*` for all. `InvalidSetting` names the setting otherwise.
    """

    __slots__ = ("_any", "_listed")

    def __init__(self, listed: Iterable[str] = ()) -> None:
        origins = [_checked(origin) for origin in listed]
        self._any = ANY in origins
        self._listed = frozenset(origin.encode() for origin in origins)

    def __bool__(self) -> bool:
        return bool(self._listed)

    def allow(self, origin: bytes) -> bool:
        """Whether pages of an origin may use the routes."""
        return self._any or origin in self._listed

    def answer(self, request: Headers) -> Headers:
        """The headers that an answer has because of the origin of its request."""
        if not self._listed:
            return []
        origin = origin_of(request)
        if origin is None or not self.allow(origin):
            return [_VARY]
        return [(b"access-control-allow-origin", b"*" if self._any else origin), _EXPOSED, _VARY]

    def preflight(self, request: Headers) -> Headers | None:
        """The further headers of the answer to a preflight; None if the origin is not listed."""
        origin = origin_of(request)
        return _ALLOWED if self._listed and origin is not None and self.allow(origin) else None


def origin_of(request: Headers) -> bytes | None:
    """The origin that a request states."""
    return next((value for name, value in request if name == b"origin"), None)


def _checked(origin: str) -> str:
    """An origin as browsers write it: in lower case, without a port that is the scheme's own."""
    if origin == ANY:
        return origin
    found = _ORIGIN.fullmatch(origin.lower())
    if found is None or (found["port"] is not None and not 0 < int(found["port"]) <= 65535):
        raise InvalidSetting(
            "allow-origin",
            "must be * or an origin: a scheme, a host, and a port if it has one, without a path",
            hint="For example --allow-origin https://app.example or http://localhost:5173.",
        )
    port = None if _DEFAULT_PORTS.get(found["scheme"]) == found["port"] else found["port"]
    return f"{found['scheme']}://{found['host']}" + ("" if port is None else f":{int(port)}")

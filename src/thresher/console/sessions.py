"""Sessions live here, in memory; the browser holds a random number and nothing else.

A session keeps the token it was opened with, in this memory only, and shows it at the door again on every request:
revoking a token ends its sessions at once. A restart ends all of them.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from thresher.clock import Clock

_MOST = 1000
_MOST_EACH = 50
_BYTES = 32


@dataclass(frozen=True, slots=True, repr=False)
class Session:
    """Who signed in, when, and the number that every form of this session carries."""

    token: str
    csrf: str
    opened: float
    used: float


class Sessions:
    """Open sessions, each ended after `idle` seconds without a request and after `longest` seconds in any case.

    Guarantee: identifiers have 256 random bits, and only their hashes are kept. At most a thousand are open, and fifty
    with one token. The token's session that was not used for the longest time makes room, or, where a thousand are
    open, that of a token that has the most: whoever signs in again and again ends sessions of their own.
    """

    def __init__(self, clock: Clock, *, idle: float = 3600.0, longest: float = 12 * 3600.0) -> None:
        self._clock = clock
        self._idle, self._longest = idle, longest
        self._open: OrderedDict[bytes, Session] = OrderedDict()
        self._left: dict[bytes, Any] = {}
        self._lock = threading.Lock()

    def open(self, token: str) -> str:
        """Open a session and return its identifier, for the cookie."""
        identifier, now = secrets.token_urlsafe(_BYTES), self._clock.now()
        with self._lock:
            self._forget_ended(now)
            own = [key for key, session in self._open.items() if session.token == token]
            if len(own) >= _MOST_EACH:
                self._end(own[0])
            elif len(self._open) >= _MOST:
                self._end(self._crowding())
            self._open[_key(identifier)] = Session(token, secrets.token_urlsafe(_BYTES), now, now)
        return identifier

    def find(self, identifier: str, *, touch: bool = True) -> Session | None:
        """The session, if it is still open. `touch` counts as use; a page that refreshes itself does not."""
        now, key = self._clock.now(), _key(identifier)
        with self._lock:
            session = self._open.get(key)
            if session is None:
                return None
            if not self._lasts(session, now):
                self._end(key)
                return None
            if touch:
                session = self._open[key] = replace(session, used=now)
                self._open.move_to_end(key)
            return session

    def close(self, identifier: str) -> None:
        """End a session; one that is not open is no error."""
        with self._lock:
            self._end(_key(identifier))

    def leave(self, identifier: str, thing: Any) -> None:
        """Keep something for the next page of this session, such as a secret that is shown once."""
        with self._lock:
            if _key(identifier) in self._open:
                self._left[_key(identifier)] = thing

    def take(self, identifier: str) -> Any:
        """What the last page left, once; None if there is nothing."""
        with self._lock:
            return self._left.pop(_key(identifier), None)

    def _forget_ended(self, now: float) -> None:
        for key in [key for key, session in self._open.items() if not self._lasts(session, now)]:
            self._end(key)

    def _lasts(self, session: Session, now: float) -> bool:
        return now - session.used < self._idle and now - session.opened < self._longest

    def _crowding(self) -> bytes:
        """The oldest session of the token that has the most."""
        numbers = Counter(session.token for session in self._open.values())
        most = max(numbers.values())
        return next(key for key, session in self._open.items() if numbers[session.token] == most)

    def _end(self, key: bytes) -> None:
        self._open.pop(key, None)
        self._left.pop(key, None)


class LoginForms:
    """Ties a login form to the browser it was sent to, before there is a session.

    The browser gets a random number as a cookie and its keyed hash in the form; another site can read neither.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(_BYTES)

    def start(self) -> str:
        """A number for the cookie."""
        return secrets.token_urlsafe(_BYTES)

    def mark(self, number: str) -> str:
        """What the form carries."""
        return hmac.new(self._key, number.encode(), "sha256").hexdigest()

    def fits(self, number: str, mark: str) -> bool:
        """Whether the form belongs to the cookie."""
        return bool(number) and hmac.compare_digest(self.mark(number).encode(), mark.encode())


def _key(identifier: str) -> bytes:
    return hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).digest()

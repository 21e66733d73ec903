"""Sessions, kept in this process's memory; the browser holds a random number and nothing else.

A session keeps the token that it was opened with, and the token is checked again for every request: revoking a token
ends its sessions at once. A restart ends all sessions.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Any

from thresher.clock import Clock
from thresher.roles.tokens import token_hash

_MOST = 1000
_MOST_EACH = 50
_BYTES = 32


@dataclass(slots=True, repr=False, eq=False)
class Session:
    """A signed-in browser. `csrf` is the secret that every form of this session carries."""

    token: str
    csrf: str
    opened: float
    used: float
    newest_plan: object = None
    """Marks the last plan that was asked for; only that one is computed."""
    _left: Any = None

    def leave(self, thing: Any) -> None:
        """Keep something for the next page of this session, such as a secret that is shown once."""
        self._left = thing

    def take(self) -> Any:
        """What the last page left, once; None if there is nothing."""
        thing, self._left = self._left, None
        return thing


class Sessions:
    """Open sessions, each ended after `idle` seconds without a request and after `longest` seconds in any case.

    Guarantee: identifiers have 256 random bits, and only their hashes are kept. At most 1,000 sessions are open, and at
    most 50 with one token. When a token has 50, its least recently used session ends; when 1,000 are open, the least
    recently used one of a token that has the most: somebody who signs in again and again ends their own sessions.
    """

    def __init__(self, clock: Clock, *, idle: float = 3600.0, longest: float = 12 * 3600.0) -> None:
        self._clock = clock
        self._idle, self._longest = idle, longest
        self._open: OrderedDict[bytes, Session] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, token: str) -> str:
        """Open a session and return its identifier, for the cookie."""
        identifier, now = secrets.token_urlsafe(_BYTES), self._clock.now()
        with self._lock:
            for key in [key for key, session in self._open.items() if not self._lasts(session, now)]:
                del self._open[key]
            own = [key for key, session in self._open.items() if session.token == token]
            if len(own) >= _MOST_EACH:
                del self._open[own[0]]
            elif len(self._open) >= _MOST:
                del self._open[self._least_used_of_the_largest()]
            self._open[token_hash(identifier)] = Session(token, secrets.token_urlsafe(_BYTES), now, now)
        return identifier

    def find(self, identifier: str, *, touch: bool = True) -> Session | None:
        """The session, if it is still open. `touch` counts as use; a page that refreshes itself does not."""
        now, key = self._clock.now(), token_hash(identifier)
        with self._lock:
            session = self._open.get(key)
            if session is not None and not self._lasts(session, now):
                session = None
                del self._open[key]
            if session is not None and touch:
                session.used = now
                self._open.move_to_end(key)
            return session

    def close(self, identifier: str) -> None:
        """End a session; one that is not open is no error."""
        with self._lock:
            self._open.pop(token_hash(identifier), None)

    def _lasts(self, session: Session, now: float) -> bool:
        return now - session.used < self._idle and now - session.opened < self._longest

    def _least_used_of_the_largest(self) -> bytes:
        numbers = Counter(session.token for session in self._open.values())
        most = max(numbers.values())
        return next(key for key, session in self._open.items() if numbers[session.token] == most)


class LoginForms:
    """Ties a login form to the browser it was sent to, before there is a session.

    The browser gets a random number as a cookie and the number's keyed hash in the form; another site can read neither.
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

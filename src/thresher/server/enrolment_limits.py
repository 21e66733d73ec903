"""How many devices enrol from one address. Addresses are neither stored nor logged: only keyed hashes, in memory."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Any

from thresher.server.limits import Rate, TokenBuckets
from thresher.server.networks import network_of, parsed

_HOUR = 3600


class Addresses:
    """A number of enrolments an hour for each address (IPv6: each /64).

    Guarantee: what is remembered is a hash under a key that this process alone knows, and ends with the process.
    Edge cases: this machine's own addresses are not limited. Behind a proxy that is not named as trusted, that proxy's
    address is everybody's.
    """

    def __init__(self, hourly: int, *, now: Callable[[], float] = time.monotonic) -> None:
        self._buckets = TokenBuckets(Rate(hourly / _HOUR, hourly), most=100_000, now=now)
        self._key = secrets.token_bytes(16)

    def take(self, client: Any) -> None:
        """Count one enrolment from `(address, port)`, or refuse it."""
        address = parsed(client[0]) if client else None
        if address is None or address.is_loopback:
            return
        self._buckets.take(hashlib.blake2b(network_of(address).encode(), key=self._key, digest_size=16).digest())

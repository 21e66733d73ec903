"""Limits by address. Networks are given out as single IPv4 addresses and as /64s of IPv6: each counts as one caller."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import time
from collections.abc import Callable
from typing import Any

from thresher.server.limits import Rate, TokenBuckets

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_HOUR = 3600


def parsed(text: Any) -> Address | None:
    """An address without a zone, and as IPv4 where it is one; None for what is no address."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except (ValueError, AttributeError):
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def network_of(address: Address) -> str:
    """What counts as one caller."""
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


class Addresses:
    """How many devices may enrol from one address in an hour.

    Guarantee: addresses are neither stored nor logged. What is remembered is a hash under a key that only this process
    knows, and ends with the process.
    Edge cases: this machine's own addresses are not limited. Behind a proxy that is not named as trusted, all devices
    have that proxy's address.
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

"""Whose an address is, as far as limits go: networks are given out as single IPv4 addresses and as /64s of IPv6."""

from __future__ import annotations

import ipaddress
from typing import Any

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


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

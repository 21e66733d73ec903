"""Test vectors of a device's coins: 32 random bits and a rate, and whether that is heads."""

from __future__ import annotations

from typing import Any

from thresher.device.core import is_heads
from thresher.privacy.whole_numbers import ONE


def coins() -> list[dict[str, Any]]:
    """Both sides of several rates."""
    rates = (1, 2, 1000, 1 << 31, ONE - 1)
    return [
        {"bits": bits, "device_rate": rate, "heads": is_heads(bits, rate)}
        for rate in rates
        for bits in sorted({0, rate - 1, rate, ONE - 1})
    ]

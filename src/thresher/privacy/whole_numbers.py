"""The units in which rates and costs are whole numbers, so that every language compares them alike."""

from __future__ import annotations

ONE = 1 << 32
"""The numerator of a rate of 1: rates are whole numbers of 2^-32."""
PERIOD = 10**9
"""What a device's period has room for: costs are billionths of it."""
BEYOND = PERIOD + 1
"""The cost of whatever does not fit a period."""

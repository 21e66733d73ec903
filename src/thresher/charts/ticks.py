"""Round numbers for the axes of pictures."""

from __future__ import annotations

import math


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between two ends."""
    if not (high > low and math.isfinite(high - low)):
        return [low]
    rough = (high - low) / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def round_up(most: float) -> float:
    """The next number at or above this one that is easy to read and to halve."""
    if not most > 2:
        return 2.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(power * factor for factor in (1, 2, 3, 4, 5, 6, 8, 10) if power * factor >= most)


def decades(low: float, high: float, factors: tuple[int, ...] = (1,)) -> list[float]:
    """Powers of ten between two ends, each times these factors."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [float(f"{factor}e{exponent}") for exponent in exponents for factor in factors]
    return [value for value in every if low <= value <= high]

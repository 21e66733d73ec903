"""Any number as the nearest double, and a double as text, as ECMAScript writes it.

Devices are written in many languages, and all of them must write one number as one text. The rule is that of
ECMAScript's `Number::toString` in base 10: the fewest digits that are read back as this very double (of several such
texts, the one nearest to it); all of them without an exponent from 1e-6 up to, but not including, 1e21.
"""

from __future__ import annotations

import math
from typing import Any


def nearest_double(number: Any) -> float | None:
    """The nearest double; None for NaN.

    Edge cases: a number too large for a double is an infinity, as in ECMAScript and with `Decimal`.
    """
    try:
        found = float(number)
    except OverflowError:  # of whole numbers and fractions
        return math.inf if number > 0 else -math.inf
    return None if math.isnan(found) else found


def double_text(number: float) -> str:
    """A double as ECMAScript writes it: 1.0 is "1", -0.0 is "0", 1e21 is "1e+21", 1e-7 is "1e-7".

    Edge cases: infinities are "Infinity" and "-Infinity".
    """
    text = repr(number)  # Python's digits are those of ECMAScript; where it puts the point is not
    if "e" not in text:
        if text.endswith(".0"):
            return text[:-2] if number else "0"
        return text if math.isfinite(number) else text.replace("inf", "Infinity")
    mantissa, _, exponent = text.partition("e")
    sign = "-" if number < 0 else ""
    return sign + double_form(mantissa.removeprefix("-").replace(".", ""), int(exponent))


def double_form(digits: str, exponent: int) -> str:
    """The number d.ddd × 10^exponent as ECMAScript writes it; of its digits neither the first nor the last is zero."""
    if len(digits) - 1 <= exponent < 21:
        return digits.ljust(exponent + 1, "0")
    if 0 <= exponent < 21:
        return f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
    if -7 < exponent < 0:
        return f"0.{digits.rjust(len(digits) - exponent - 1, '0')}"
    rest = f".{digits[1:]}" if digits[1:] else ""
    return f"{digits[0]}{rest}e{exponent:+d}"

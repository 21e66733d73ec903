"""Checks for the settings that every layer takes, and the exact form of a sampling rate.

Checks are positive (`if not 0 < x < 1`), so NaN fails them. Each raises `InvalidSetting` with the setting's
name and what would be accepted.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Literal, get_args

from thresher.errors import Hint, InvalidSetting

Adjacency = Literal["replace", "add-remove"]
ADJACENCIES: tuple[str, ...] = get_args(Adjacency)

RATE_BITS = 64
"""A sampling rate is a whole number of 2^-64: coins and binomials compare integers with it."""

MAX_THRESHOLD = 10_000_000
MAX_ROUNDS = 10_000
MAX_CONTRIBUTIONS = 1_000
MAX_BUDGET_EPSILON = 1_000_000
MAX_DAYS = 36_500


def _real(setting: str, value: object, accepted: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidSetting(setting, f"must be a number, not {type(value).__name__}", hint=accepted)
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _whole(setting: str, value: object, accepted: str) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    number = _real(setting, value, accepted)
    if not (math.isfinite(number) and number == int(number)):
        raise InvalidSetting(setting, "must be a whole number", hint=accepted)
    return int(number)


def _between_zero_and_one(setting: str, value: object, accepted: str) -> float:
    number = _real(setting, value, accepted)
    if not 0 < number < 1:
        raise InvalidSetting(setting, "must be between 0 and 1, both excluded", hint=accepted)
    return number


def _from_one_to(most: int, setting: str, value: object, example: int) -> int:
    accepted = f"Give a whole number from 1 to {most:,}, for example `{setting}={example}`."
    number = _whole(setting, value, accepted)
    if not 1 <= number <= most:
        raise InvalidSetting(setting, f"must be from 1 to {most:,}", hint=accepted)
    return number


def is_writable(text: str) -> bool:
    """Whether UTF-8 can write a text: it cannot write half of a surrogate pair."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def check_epsilon(value: object, *, setting: str = "epsilon") -> float:
    """A finite epsilon above zero, at most 100."""
    accepted = "Give a number above 0 and at most 100, for example `epsilon=1.0`."
    number = _real(setting, value, accepted)
    if not 0 < number <= 100:
        raise InvalidSetting(setting, "must be above 0 and at most 100", hint=accepted)
    return number


def check_budget_epsilon(value: object, *, setting: str = "epsilon") -> float:
    """A budget's epsilon, above zero. It may be large: budgets are enlarged, and say so wherever they are shown."""
    accepted = f"Give a number above 0 and at most {MAX_BUDGET_EPSILON:,}, for example `epsilon=3`."
    number = _real(setting, value, accepted)
    if not 0 < number <= MAX_BUDGET_EPSILON:
        raise InvalidSetting(setting, f"must be above 0 and at most {MAX_BUDGET_EPSILON:,}", hint=accepted)
    return number


def check_delta(value: object, *, setting: str = "delta") -> float:
    """A delta strictly between 0 and 1."""
    accepted = "Give a number well below one in the number of units, for example `delta=1e-8`."
    return _between_zero_and_one(setting, value, accepted)


def check_days(value: object, *, setting: str) -> float:
    """The length of a period in days, above zero and at most a hundred years."""
    accepted = f"Give a number above 0 and at most {MAX_DAYS:,}, for example `{setting}=30`."
    number = _real(setting, value, accepted)
    if not 0 < number <= MAX_DAYS:
        raise InvalidSetting(setting, f"must be above 0 and at most {MAX_DAYS:,}", hint=accepted)
    return number


def check_probability(value: object, *, setting: str = "probability") -> float:
    """A probability strictly between 0 and 1."""
    accepted = f"Give a number between 0 and 1, both excluded, for example `{setting}=0.95`."
    return _between_zero_and_one(setting, value, accepted)


def check_threshold(value: object, *, setting: str = "threshold") -> int:
    """A whole threshold of at least 1."""
    return _from_one_to(MAX_THRESHOLD, setting, value, 20)


def check_rounds(value: object, *, setting: str = "rounds") -> int:
    """A whole number of rounds, at least 1."""
    return _from_one_to(MAX_ROUNDS, setting, value, 10)


def check_contributions(value: object, rounds: int = 1, *, setting: str = "contributions") -> int:
    """How many values of a unit count in a round, at least 1; together with the rounds no more than can be composed."""
    number = _from_one_to(MAX_CONTRIBUTIONS, setting, value, 5)
    if not number * rounds <= MAX_ROUNDS:
        raise InvalidSetting(
            setting, f"times {rounds:,} rounds must be at most {MAX_ROUNDS:,}", hint="Use fewer of one or the other."
        )
    return number


def check_count(value: object, *, setting: str = "count", least: int = 0, example: int = 1000) -> int:
    """A whole number of units, or of anything else that is counted."""
    accepted = f"Give a whole number, {least} or more, for example `{setting}={example}`."
    number = _whole(setting, value, accepted)
    if not least <= number <= 10**15:
        raise InvalidSetting(setting, f"must be a whole number from {least} to 10^15", hint=accepted)
    return number


def check_adjacency(value: object, *, setting: str = "adjacency") -> Adjacency:
    """One of the two adjacencies."""
    for known in ADJACENCIES:
        if isinstance(value, str) and value == known:
            return known  # type: ignore[return-value]
    raise InvalidSetting(
        setting,
        "must be 'replace' or 'add-remove'",
        hint="'replace' hides what one unit holds (the default); 'add-remove' also hides that it takes part.",
    )


def check_flag(value: object, *, setting: str) -> bool:
    """True or False, and nothing that Python takes for one of them."""
    if isinstance(value, bool):
        return value
    raise InvalidSetting(setting, f"must be True or False, not {type(value).__name__}")


def check_rate(value: object, *, setting: str = "sampling_rate") -> float:
    """A sampling rate strictly between 0 and 1, as given (not yet rounded to a whole number of 2^-64)."""
    accepted = f"Give a number between 0 and 1, both excluded, for example `{setting}=0.1`."
    return _between_zero_and_one(setting, value, accepted)


def upper_float(value: object, *, setting: str = "sampling_rate") -> float:
    """The smallest float that is not below a given rate: delta does not fall in p, so rounding up is outward."""
    number = check_rate(value, setting=setting)
    if isinstance(value, Rational) and Fraction(number) < Fraction(value):
        number = math.nextafter(number, 1.0)
    return check_rate(number, setting=setting)


def dyadic(value: object, *, significant_bits: int = 53, setting: str = "sampling_rate") -> float:
    """The rate rounded down to a float that is a whole number of 2^-64 with at most `significant_bits` bits.

    Every float is a fraction with a power of two below the line; this one also fits the 64 bits that coins
    compare with, so it is used exactly and its guarantee is computed for the very same number.
    """
    number = check_rate(value, setting=setting)
    if isinstance(value, Rational) and Fraction(number) > Fraction(value):
        number = math.nextafter(number, 0.0)
    mantissa, exponent = math.frexp(number)
    bits = min(significant_bits, RATE_BITS + exponent)
    if bits < 1:
        raise InvalidSetting(setting, f"must be at least 2^-{RATE_BITS}", hint="Use a larger sampling rate.")
    return math.ldexp(math.floor(math.ldexp(mantissa, bits)), exponent - bits)


def rate_numerator(rate: float) -> int:
    """The whole number k with rate = k / 2^64.

    Edge cases: a rate that is not a whole number of 2^-64 is refused; round it with `dyadic` first.
    """
    check_rate(rate)
    scaled = Fraction(rate) * 2**RATE_BITS
    if scaled.denominator != 1:
        raise InvalidSetting(
            "sampling_rate",
            f"must be a whole number of 2^-{RATE_BITS}",
            hint=Hint(
                "Round it down, or leave it out: the planner then chooses it.",
                python="Round it down with thresher.privacy.settings.dyadic, or let thresher.plan choose it.",
            ),
        )
    return int(scaled)

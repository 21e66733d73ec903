"""Many rounds: privacy losses of one round as atoms, composed on a grid by Fourier transforms.

One round, unit removed: the loss is ℓ_j = ln[(1−p)(j−1)/(j−τ)] with probability Pr[T = j], j ≥ τ+1, and infinite with
probability p^τ. Unit added: −ℓ_j with probability Pr[T = j−1]. Replacing a unit is both at once.

Two things keep the result an upper bound with small *relative* error, however small delta is:

* an atom between two grid points is split between them so that its mass under both datasets is kept
  ("connect the dots", Doroshenko et al. 2022), which can only raise delta and does so in second order;
* before the transform, masses are tilted by e^{θℓ}, with θ chosen so that the composed loss is centred at ε:
  floating-point noise of the transform is then small against what is being summed, not against 1. A bound on
  that noise is added; where it would matter, the convolution is done directly, in positive terms.

Reference: docs/privacy.md, section 6.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from thresher.privacy.binomial import Floats, log_point, miss
from thresher.privacy.exact import between, longest_wait

_DENSE_ATOMS = 50_000
_GROUPS = 6_000
_LONGEST_TRANSFORM = 1 << 22
_LONGEST_DIRECT = 1 << 14
_MANY_ROUNDS = 32
_NEGLIGIBLE = 1e-12
_LARGEST_EXPONENT = 1_500.0
"""More than ln of any mass that a float holds, twice."""
_OUTWARD = math.log1p(1e-9)

FINE = 1e-4
"""By how much discretisation may raise delta, relatively, in a number that is reported."""
COARSE = 1e-2
"""The same for a search, whose result is then checked finely."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Privacy losses of one round in one direction: values, their masses, and the mass of an infinite loss."""

    values: Floats
    masses: Floats
    infinite: float


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same losses, drawn afresh `times` times."""

    losses: Losses
    times: int


def losses_remove(rate: float, threshold: int) -> Losses:
    """Losses when a unit is removed: T against T+1."""
    first, last, mass, shifted = groups(rate, threshold)
    values, masses = at_ends(loss_at(rate, threshold, first), loss_at(rate, threshold, last), mass, shifted)
    beyond = float(miss(last[-1], threshold, rate))  # smaller losses, rounded up to the last one listed
    values, masses = np.append(values, loss_at(rate, threshold, last[-1:])), np.append(masses, beyond)
    return _without_zeros(values, masses, math.exp(threshold * math.log(rate)))


def losses_add(rate: float, threshold: int) -> Losses:
    """Losses when a unit is added: T+1 against T."""
    first, last, mass, shifted = groups(rate, threshold)
    values, masses = at_ends(-loss_at(rate, threshold, last), -loss_at(rate, threshold, first), shifted, mass)
    beyond = float(miss(last[-1] - 1, threshold, rate))
    return _without_zeros(np.append(values, -math.log1p(-rate)), np.append(masses, beyond), 0.0)


def _without_zeros(values: Floats, masses: Floats, infinite: float) -> Losses:
    """Leave out atoms too small for a float. All together weigh less than the smallest normal one: that is infinite."""
    kept = masses > 0
    return Losses(values[kept], masses[kept], infinite if kept.all() else infinite + sys.float_info.min)


def loss_at(rate: float, threshold: int, wait: Floats) -> Floats:
    """ℓ_j, the loss of a removal where T = j > τ; it falls in j. Precise near zero, and where the rate is near one."""
    excess = (threshold - 1 - rate * (wait - 1)) / (wait - threshold)
    low = math.log1p(-rate) + np.log((wait - 1) / (wait - threshold))
    return np.where(excess < -0.5, low, np.log1p(np.maximum(excess, -0.5)))


@functools.lru_cache(maxsize=4)  # removal and addition ask for the same ones
def groups(rate: float, threshold: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Values j = τ+1 … of T in groups (of one where that is few): first, last, Pr[T in group], Pr[T+1 in group].

    The arrays are shared and cannot be written to.
    """
    found = _groups(rate, threshold)
    for array in found:
        array.flags.writeable = False
    return found


def _groups(rate: float, threshold: int) -> tuple[Floats, Floats, Floats, Floats]:
    longest = longest_wait(rate, threshold)
    if longest - threshold <= _DENSE_ATOMS:
        wait = np.arange(threshold + 1, longest + 1, dtype=np.float64)
        log_mass = log_point(np.append(wait[0] - 1, wait) - 1, threshold - 1, rate) + math.log(rate)
        mass = np.exp(log_mass)
        return wait, wait, mass[1:], mass[:-1]
    spread = math.sqrt(threshold * (1 - rate)) / rate
    edges = np.concatenate(
        [
            threshold + np.geomspace(1, float(longest - threshold), _GROUPS // 3),
            threshold / rate + spread * np.linspace(-14, 14, _GROUPS),
        ]
    )
    edges = np.unique(np.rint(np.clip(edges, threshold + 1, longest)))
    first, last = edges[:-1], edges[1:] - 1
    return (
        first,
        last,
        between(rate, threshold, first - 1, last),
        between(rate, threshold, first - 2, last - 1),
    )


def at_ends(high: Floats, low: Floats, mass: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Put each group's mass on its two extreme losses, keeping its mass under both datasets (`mass`, `other`)."""
    if np.array_equal(high, low):
        return high, mass
    high, low = np.maximum(high, low), np.minimum(high, low)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = -np.log(other / mass)  # the loss of the group taken as one atom
    share = upper_share(np.nan_to_num(mean, nan=0.0), low, high)
    return np.concatenate([high, low]), np.concatenate([mass * share, mass * (1 - share)])


def upper_share(value: Floats, low: Floats, high: Floats) -> Floats:
    """The part of an atom at `value` that goes to `high` so that Σ mass and Σ mass·e^−loss are both kept."""
    width = np.where(high > low, high - low, 1.0)
    share = np.expm1(low - np.clip(value, low, high)) / np.expm1(-width)
    return np.where(high > low, share, 1.0)


def log_delta_composed(parts: Sequence[Repeated], epsilon: float, *, tolerance: float = FINE) -> float:
    """ln of an upper bound of delta at `epsilon` for all parts together, about `tolerance` above it.

    Edge cases: where large losses are so rare that no grid has both them and the usual ones, it is a looser bound.
    """
    log_infinite = _log_infinite(parts)
    log_guess, less = max(_tilt(parts, epsilon)[1], log_infinite), 10.0
    log_best = math.inf
    while True:
        trimmed, log_moved = _trim_high(parts, log_guess)
        log_finite = _log_delta_finite(trimmed, epsilon, tolerance)
        log_kept = float(np.logaddexp(log_finite, log_infinite))
        log_total = float(np.logaddexp(log_kept, log_moved))
        log_best = min(log_best, log_total)  # each is an upper bound
        if not log_moved > log_kept + math.log(tolerance / 10):
            return log_best + _OUTWARD
        log_guess, less = min(log_total, log_guess - less), 2 * less  # too high: what was moved must weigh less


def _log_delta_finite(parts: Sequence[Repeated], epsilon: float, tolerance: float) -> float:
    """The smaller of Chernoff's bound and what losses on a grid give; a grid may be too coarse, or have much noise."""
    if not all(part.losses.values.size for part in parts):  # every loss of some round is infinite
        return -math.inf
    tilt, log_chernoff = _tilt(parts, epsilon)
    if tilt == 0.0:
        return -math.inf
    log_best = log_chernoff + _moment_error(parts, tilt, epsilon)
    raised = [Repeated(_raise_low(part.losses, tilt, tolerance), part.times) for part in parts]
    for longest, convolve in ((_LONGEST_TRANSFORM, _fourier), (_LONGEST_DIRECT, _direct)):
        step = max(_step(raised, tilt, tolerance), _reach(raised) / longest)
        grid, composed, log_scale = _compose(raised, tilt, step, convolve)
        above = grid > epsilon
        distance = grid[above] - epsilon
        kernel = np.exp(-tilt * distance) * -np.expm1(-distance)
        total = float((composed.weights[above] * kernel).sum())
        margin = composed.noise * float(kernel.sum()) + composed.lost
        if margin <= COARSE * total:  # else the transform's rounding noise drowns it
            log_total = log_scale - tilt * epsilon + math.log(total + margin) if total > 0 else -math.inf
            log_best = min(log_best, log_total)
        if margin <= tolerance * total:  # else convolve directly: precise in every entry, but on a shorter grid
            break
    return log_best


def _log_infinite(parts: Sequence[Repeated]) -> float:
    log_none = sum(part.times * math.log1p(-part.losses.infinite) for part in parts)
    return math.log(-math.expm1(log_none)) if log_none < 0 else -math.inf


def _moments(parts: Sequence[Repeated], tilt: float) -> tuple[float, float, float]:
    """Log moment generating function of the composed finite loss at `tilt`, and its two derivatives."""
    log_moment = mean = variance = 0.0
    for part in parts:
        exponent = np.log(part.losses.masses) + tilt * part.losses.values
        peak = float(exponent.max())
        weight = np.exp(exponent - peak)
        total = float(weight.sum())
        first = float((weight * part.losses.values).sum()) / total
        second = float((weight * (part.losses.values - first) ** 2).sum()) / total
        log_moment += part.times * (peak + math.log(total))
        mean += part.times * first
        variance += part.times * second
    return log_moment, mean, variance


def _tilt(parts: Sequence[Repeated], epsilon: float) -> tuple[float, float]:
    """The θ at which the tilted loss has mean ε, and the Chernoff bound there, as a logarithm.

    Edge cases: θ = 0 and −inf where finite losses cannot add up to more than ε.
    """
    if sum(part.times * float(part.losses.values.max()) for part in parts) <= epsilon:
        return 0.0, -math.inf
    tilt, low, high = 1.0, 0.0, math.inf
    for _ in range(100):
        log_moment, mean, variance = _moments(parts, tilt)
        log_chernoff = log_moment - tilt * epsilon
        if abs(mean - epsilon) < 0.02 * math.sqrt(variance) or tilt > 1e9 or high < 1e-6:
            break
        low, high = (tilt, high) if mean < epsilon else (low, tilt)
        newton = tilt + (epsilon - mean) / max(variance, 1e-300)
        middle = 0.5 * (low + high) if high < math.inf else 4 * tilt
        tilt = newton if low < newton < min(high, 4 * tilt) else middle
    return tilt, log_chernoff


def _moment_error(parts: Sequence[Repeated], tilt: float, epsilon: float) -> float:
    """More than rounding can change the logarithm of a composed moment: 1e-12 of all exponents that go into it."""
    exponents = sum(
        part.times * (_LARGEST_EXPONENT + tilt * float(np.abs(part.losses.values).max(initial=0.0))) for part in parts
    )
    return 1e-12 * (exponents + tilt * epsilon)


def _trim_high(parts: Sequence[Repeated], log_guess: float) -> tuple[list[Repeated], float]:
    """Move high losses whose mass is negligible against a guess of delta to infinity: a shorter grid, outward."""
    allowed = 1e-8 * math.exp(min(log_guess, 0.0)) / sum(part.times for part in parts)
    moved = 0.0
    trimmed = []
    for part in parts:
        order = np.argsort(part.losses.values)
        values, masses = part.losses.values[order], part.losses.masses[order]
        keep = np.cumsum(masses[::-1])[::-1] > allowed
        moved += part.times * float(masses[~keep].sum())
        trimmed.append(Repeated(Losses(values[keep], masses[keep], 0.0), part.times))
    return trimmed, math.log(moved) if moved > 0 else -math.inf


def _raise_low(losses: Losses, tilt: float, tolerance: float) -> Losses:
    """Raise low losses (values are sorted) whose tilted mass is negligible: a shorter grid, outward."""
    log_total, _, _ = _moments([Repeated(losses, 1)], tilt)
    raised = np.log(np.maximum(np.cumsum(losses.masses), 1e-320)) + tilt * losses.values
    lowest = np.searchsorted(raised > log_total + math.log(tolerance * 1e-4), True)
    values = np.maximum(losses.values, losses.values[min(int(lowest), len(losses.values) - 1)])
    return Losses(values, losses.masses, 0.0)


def _step(parts: Sequence[Repeated], tilt: float, tolerance: float) -> float:
    """Splitting an atom over a step h raises the moment at θ by at most a factor 1 + (θh)²/8 a round."""
    rounds = sum(part.times for part in parts)
    spread = math.sqrt(max(_moments(parts, tilt)[2], 1e-24) / rounds)
    return min(math.sqrt(8 * tolerance / rounds) / tilt, spread / 20)


def _reach(parts: Sequence[Repeated]) -> float:
    return sum(part.times * float(part.losses.values.max() - part.losses.values.min()) for part in parts)


@dataclass(frozen=True, slots=True)
class _Composed:
    """Tilted weights from grid index `first` on; each is off by at most `noise`, all together by at most `lost`."""

    weights: Floats
    first: int
    noise: float = 0.0
    lost: float = 0.0


Convolve = Callable[[Sequence[tuple[Floats, int]]], _Composed]


def _compose(
    parts: Sequence[Repeated], tilt: float, step: float, convolve: Convolve
) -> tuple[Floats, _Composed, float]:
    """Grid points, the composed weights on them, and the log of the factor taken out of the weights."""
    offset, log_scale = 0, 0.0
    weights = []
    for part in parts:
        lowest, once, log_factor = _on_grid(part.losses, tilt, step)
        weights.append((once, part.times))
        offset += lowest * part.times
        log_scale += log_factor * part.times
    composed = convolve(weights)
    grid = (offset + composed.first + np.arange(len(composed.weights), dtype=np.float64)) * step
    return grid, composed, log_scale


def _fourier(weights: Sequence[tuple[Floats, int]]) -> _Composed:
    """All convolutions by fast Fourier transform; many rounds only on the window that holds nearly all weight.

    What lies beyond a window is missing in the result, and is added to it where the transform wraps around.
    """
    composed: Floats = np.ones(1)
    first, lost = 0, 0.0
    for once, times in weights:
        start, repeated = _repeated(once, times)
        composed = _convolved(composed, repeated) if len(composed) > 1 else repeated
        first, lost = first + start, lost + (2 * _NEGLIGIBLE if times >= _MANY_ROUNDS else 0.0)
    rounds = sum(times for _, times in weights)
    unit = float(np.finfo(np.float64).eps)
    norm = math.sqrt(float((composed * composed).sum()))
    noise = unit * math.log2(len(composed) + 1) * rounds * norm
    return _Composed(np.maximum(composed, 0.0), first, noise, lost)


def _repeated(once: Floats, times: int) -> tuple[int, Floats]:
    """The weights convolved with themselves, from the first index of their window on."""
    from scipy import fft

    first, last = _window(once, times)
    length = fft.next_fast_len(max(last - first + 1, len(once)))
    around = np.real(fft.ifft(fft.fft(once, length) ** times))
    return first, np.roll(around, -first)[: last - first + 1]


def _convolved(one: Floats, other: Floats) -> Floats:
    from scipy import fft

    size = len(one) + len(other) - 1
    length = fft.next_fast_len(size, real=True)
    return np.asarray(fft.irfft(fft.rfft(one, length) * fft.rfft(other, length), length)[:size])


def _window(once: Floats, times: int) -> tuple[int, int]:
    """The first and the last index that a sum of `times` draws from these weights has.

    Of many draws, all but `_NEGLIGIBLE` of the weight is there: by Chernoff's bound, at orders around 1 ÷ length.
    """
    first, last = 0, (len(once) - 1) * times
    if times < _MANY_ROUNDS:
        return first, last
    places = np.arange(len(once)) / len(once)
    log_share = math.log(2 / _NEGLIGIBLE)
    for order in range(1, 21):
        for sign in (-1, 1):
            exponent = sign * order * places
            peak = max(0.0, float(exponent[-1]))
            log_moment = peak + math.log(float((once * np.exp(exponent - peak)).sum()))
            end = len(once) * (times * log_moment + log_share) / order
            first, last = (max(first, math.floor(-end)), last) if sign < 0 else (first, min(last, math.ceil(end)))
    return first, last


def _direct(weights: Sequence[tuple[Floats, int]]) -> _Composed:
    """All convolutions as sums of positive products: slower, and precise in every entry."""
    composed: Floats = np.ones(1)
    for once, times in weights:
        power, remaining = once, times
        while remaining:
            if remaining & 1:
                composed = np.convolve(composed, power)
            remaining >>= 1
            if remaining:
                power = np.convolve(power, power)
    return _Composed(composed, 0)


def _on_grid(losses: Losses, tilt: float, step: float) -> tuple[int, Floats, float]:
    """Split every atom between its two neighbours on the grid, then tilt and scale to a total of one."""
    position = np.floor(losses.values / step)
    lowest = int(position.min())
    index = (position - lowest).astype(np.int64)
    low = position * step
    share = upper_share(losses.values, low, low + step)
    size = int(index.max()) + 2
    masses = np.bincount(index, losses.masses * (1 - share), size)
    masses += np.bincount(index + 1, losses.masses * share, size)
    exponent = tilt * step * (lowest + np.arange(size))
    with np.errstate(divide="ignore"):
        logs = np.log(masses) + exponent
    peak = float(logs.max())
    weights = np.exp(logs - peak)
    total = float(weights.sum())
    return lowest, weights / total, peak + math.log(total)

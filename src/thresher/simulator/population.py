"""What simulated devices hold, and therefore the truth that a release is compared with.

Values are drawn once, from a seed, so that a run can be repeated; nothing else in a simulation is seeded. Coins and
keys come from the operating system, as on a real device.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from thresher.errors import InvalidSetting

ZIPF = 1.1
"""The default exponent: the value on line k is held by a share proportional to k^-ZIPF."""
_SYLLABLES = "ka lo mi ne su ta ri vo pe du".split()
_TOPICS = "music football films news travel cooking games science books art gardening chess".split()
_GENERATED = 2_000
_ROWS = 1_000  # devices whose lists are drawn at a time


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of every device: the values there are, and which of them each device holds."""

    values: tuple[Any, ...]
    held: npt.NDArray[np.int32]

    def __getitem__(self, device: int) -> Any:
        return self.values[self.held[device]]

    def truth(self) -> Counter[Any]:
        """How many devices hold each value; values that nobody holds are not in it."""
        counts = np.bincount(self.held, minlength=len(self.values))
        return Counter({value: int(count) for value, count in zip(self.values, counts, strict=True) if count})

    def numbers(self) -> npt.NDArray[np.float64]:
        """The number that each device holds."""
        return np.array(self.values, dtype=np.float64)[self.held]


@dataclass(frozen=True, slots=True)
class ListColumn:
    """One attribute of which every device holds a list of distinct values: a row of `held` a device, -1 for no more."""

    values: tuple[Any, ...]
    held: npt.NDArray[np.int32]

    def __getitem__(self, device: int) -> Any:
        return [self.values[place] for place in self.held[device] if place >= 0]

    def truth(self) -> Counter[Any]:
        """How many devices hold each value; values that nobody holds are not in it."""
        return Column(self.values, self.held[self.held >= 0]).truth()

    def numbers(self) -> npt.NDArray[np.float64]:
        """Not for lists: a verb about numbers reads one number of a device."""
        raise InvalidSetting("held", "must be 1 for this query")


class Population:
    """The attributes of a number of devices. A device's share is a few bytes for each attribute."""

    def __init__(self, columns: Mapping[str, Column | ListColumn]) -> None:
        self.columns = dict(columns)
        sizes = {len(column.held) for column in self.columns.values()}
        if len(sizes) != 1:
            raise InvalidSetting("attribute", "must be given, and every attribute for the same number of devices")
        self.devices = sizes.pop()

    def attributes(self, device: int) -> dict[str, Any]:
        """What one device holds."""
        return {name: column[device] for name, column in self.columns.items()}


def draw(values: Sequence[Any], weights: npt.ArrayLike | None, devices: int, seed: int) -> Column:
    """Give every device one of the values at random."""
    if devices < 1:
        raise InvalidSetting("devices", "must be 1 or more")
    if not values:
        raise InvalidSetting("values", "must have at least one value")
    share = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not (len(share) == len(values) and np.all(np.isfinite(share)) and np.all(share >= 0) and share.sum() > 0):
        raise InvalidSetting("values", "must have weights that are finite and not below 0, and not all 0")
    random = np.random.default_rng(seed)
    return Column(tuple(values), random.choice(len(values), devices, p=share / share.sum()).astype(np.int32))


def zipf(values: Sequence[Any], devices: int, seed: int, exponent: float = ZIPF) -> Column:
    """The value on line k goes to a share proportional to k^-exponent; 0 makes all equally common."""
    if not (math.isfinite(exponent) and exponent >= 0):
        raise InvalidSetting("zipf", "must be 0 or more")
    return draw(values, np.arange(1, len(values) + 1, dtype=np.float64) ** -exponent, devices, seed)


def lists(values: Sequence[Any], devices: int, seed: int, most: int, exponent: float = ZIPF) -> ListColumn:
    """Give every device from 1 to `most` distinct values, the value on line k with a weight of k^-exponent."""
    if not 1 <= most <= len(values):
        raise InvalidSetting("held", "must be at least 1, and at most as many as there are values")
    if not (math.isfinite(exponent) and exponent >= 0):
        raise InvalidSetting("zipf", "must be 0 or more")
    random = np.random.default_rng(seed)
    weights = -exponent * np.log(np.arange(1, len(values) + 1))
    held = np.empty((devices, most), dtype=np.int32)
    for start in range(0, devices, _ROWS):
        # The largest of log-weights with Gumbel noise are a weighted choice without replacement, in its order.
        noisy = weights + random.gumbel(size=(min(_ROWS, devices - start), len(values)))
        held[start : start + _ROWS] = np.argsort(-noisy, axis=1)[:, :most]
    numbers = random.integers(1, most + 1, devices)
    held[np.arange(most) >= numbers[:, None]] = -1
    return ListColumn(tuple(values), held)


def words(count: int = _GENERATED) -> list[str]:
    """Invented words, short ones first, so that a simulation needs no file."""
    made: list[str] = []
    parts = [""]
    while len(made) < count:
        parts = [part + syllable for part in parts for syllable in _SYLLABLES]
        made.extend(parts)
    return made[:count]


def waiting_times(devices: int, seed: int) -> Column:
    """Invented numbers with a long tail: milliseconds waited, whole, mostly below 1,000."""
    drawn = np.random.default_rng(seed).lognormal(5, 1, devices).round()
    distinct, held = np.unique(drawn, return_inverse=True)
    return Column(tuple(int(value) for value in distinct), held.astype(np.int32))


def demo_population(devices: int, seed: int = 1) -> Population:
    """Invented devices: a word typed often, an app version, a country, a waiting time in milliseconds, and a list of
    one to four topics."""
    versions = ["4.2", "4.1", "4.0", "3.9", "3.8", "3.2", "2.7"]
    countries = "de fr it es pl nl be se at dk fi ie".split()
    return Population(
        {
            "word": zipf(words(300), devices, seed),
            "app_version": zipf(versions, devices, seed + 1, 1.3),
            "country": zipf(countries, devices, seed + 2, 0.9),
            "waited_ms": waiting_times(devices, seed + 3),
            "topics": lists(_TOPICS, devices, seed + 4, 4, 0.7),
        }
    )


def from_file(
    path: Path, devices: int, seed: int, *, numbers: bool | None = None, exponent: float | None = None
) -> Column:
    """One value a line, a device takes one at random; after a tab a line may have a weight.

    Without weights, and where no value is on two lines, earlier lines are commoner (`zipf`); where values repeat, each
    is as common as its lines. `exponent` asks for Zipf by the order of first lines in every case. `numbers` makes all
    values numbers; None does so if each is written exactly as the number would be.
    """
    lines = read_lines(path)
    parted = [line.rpartition("\t") for line in lines]
    weights: list[float | None]
    if all(tab for _, tab, _ in parted):
        texts = [value for value, _, _ in parted]
        weights = [_number_or_none(weight) for _, _, weight in parted]
        if None in weights:
            raise InvalidSetting("values", "must have a number after the tab on each line, or no tabs at all")
    else:
        counted = Counter(lines)
        if exponent is None and len(counted) == len(lines):
            exponent = ZIPF
        texts, weights = list(counted), [float(count) for count in counted.values()]
    values = _as_numbers(texts, numbers)
    if exponent is not None:
        return zipf(values, devices, seed, exponent)
    return draw(values, np.array(weights, dtype=np.float64), devices, seed)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that are not empty."""
    try:
        lines = [line.strip("\r\n ") for line in path.read_text(encoding="utf-8").split("\n")]
    except (OSError, UnicodeDecodeError):
        raise InvalidSetting("values", f"{str(path)!r} cannot be read", hint="Give a text file.") from None
    return [line for line in lines if line]


def plain(text: str) -> Any:
    """A text as the number it is written for, if writing that number gives the text again; otherwise the text.

    "2.1" and "42" are numbers and are still counted as "2.1" and "42"; "2.10" and "007" stay texts.
    """
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if str(number) == text and math.isfinite(number):
            return number
    return text


def _as_numbers(texts: Sequence[str], numbers: bool | None) -> list[Any]:
    if numbers is False:
        return list(texts)
    if numbers is None:
        values = [plain(text) for text in texts]
        return list(texts) if any(isinstance(value, str) for value in values) else values
    found = [_number_or_none(text) for text in texts]
    if None in found:
        raise InvalidSetting("values", "must all be numbers for this query")
    return found


def _number_or_none(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None

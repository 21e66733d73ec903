"""A number, rounded at random to one of a few public points: `Points("latency", (0, 250, 1000, 60_000))`."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from thresher.errors import InvalidSetting
from thresher.questions.doubles import nearest_double
from thresher.questions.question import (
    NUMBERS,
    Impossible,
    OneColumn,
    Reader,
    as_column,
    as_double,
    double_constant,
    finite_constant,
    json_bytes,
    number_text,
)
from thresher.questions.spelling import read_float

if TYPE_CHECKING:
    import narwhals as nw

MOST_POINTS = 1_000


@dataclass(frozen=True, slots=True)
class Points(OneColumn):
    """One of the two points beside a number, chosen at random so that the point's expectation is the number.

    A number outside the points is at the nearest one. The bucket is the point itself.
    """

    column: str
    points: tuple[float, ...]
    kind = "points"
    reads = NUMBERS
    bucket_type = "double"
    joinable = True
    listed_as = "floats"
    ordered = True

    def __post_init__(self) -> None:
        self._check_column()
        try:
            points = tuple(finite_constant(point) + 0.0 for point in self.points)  # -0.0 becomes 0.0
        except (TypeError, ValueError, OverflowError):
            raise InvalidSetting("points", "must be numbers", hint="For example `points=[0, 100, 1000]`.") from None
        rising = all(low < high for low, high in pairwise(points))
        if not (2 <= len(points) <= MOST_POINTS and rising and math.isfinite(points[-1] - points[0])):
            raise InvalidSetting(
                "points", f"must be 2 to {MOST_POINTS:,} finite numbers, each above the one before, not too far apart"
            )
        object.__setattr__(self, "points", points)

    @property
    def randomised(self) -> bool:
        """The rounding needs a draw."""
        return True

    def bucket(self, value: Any, draw: float | None = None) -> Any:
        """The point above the number if the draw is below the number's place between the two points, else the other."""
        if draw is None:
            raise TypeError("random rounding needs a draw")
        number = as_double(value)
        if number is None:
            return None
        inside = min(max(number, self.points[0]), self.points[-1])
        place = min(bisect_right(self.points, inside), len(self.points) - 1)
        low, high = self.points[place - 1], self.points[place]
        return high if draw < (inside - low) / (high - low) else low

    def device_bucket(self, value: Any, draw: float | None = None) -> Any:
        """The same as `bucket`."""
        return self.bucket(value, draw)

    def label(self, bucket: Any) -> str:
        """The point."""
        return number_text(bucket)

    def keys(self, value: nw.Expr, draw: nw.Expr | None = None) -> list[nw.Expr]:
        """The operations of `bucket`, in its order, so that doubles are rounded alike.

        A balanced tree of comparisons finds the gap between two points, so that its depth grows with the logarithm of
        their number. An engine may inline a draw and repeat it in every gap: only one gap matters to a row.
        """
        import narwhals as nw

        if draw is None:
            raise TypeError("random rounding needs a draw")
        number, points, drawn = value.cast(nw.Float64), self.points, draw
        first, last = double_constant(points[0]), double_constant(points[-1])
        inside = nw.when(number < first).then(first).otherwise(nw.when(number > last).then(last).otherwise(number))

        def rounded(gap: int) -> nw.Expr:
            low, high = double_constant(points[gap]), double_constant(points[gap + 1])
            place = (inside - low) / as_column(points[gap + 1] - points[gap], inside)
            return nw.when(drawn < place).then(high).otherwise(low)

        def within(first: int, last: int) -> nw.Expr:
            if last - first == 1:
                return rounded(first)
            middle = (first + last) // 2
            below = number < double_constant(points[middle])
            return nw.when(below).then(within(first, middle)).otherwise(within(middle, last))

        return [nw.when(number == number).then(within(0, len(points) - 1))]

    def reader(self) -> Reader:
        """Reads one of the points."""
        known = {point: point for point in self.points}

        def read(element: Any) -> float:
            number = nearest_double(element) if type(element) in (int, float) else None
            if number not in known:
                raise Impossible
            return known[number]

        return read

    @property
    def longest(self) -> int:
        """The point with the most digits."""
        return max(map(json_bytes, self.points))

    def listed(self, value: Any) -> Any:
        """A number; text is read as one."""
        read = read_float(value) if isinstance(value, str) else None
        return value if read is None else read


def equal_points(lower: float, upper: float, number: int) -> tuple[float, ...]:
    """Equally spaced points, of which the first and the last one are the bounds."""
    inner = (lower + (upper - lower) * index / (number - 1) for index in range(1, number - 1))
    return (lower, *inner, upper)

"""Which of equally wide cells between public bounds holds a number: `Cells("latency", 0, 60_000, cells=1024)`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thresher.errors import InvalidSetting
from thresher.questions.question import (
    NUMBERS,
    Impossible,
    OneColumn,
    Reader,
    are_whole,
    as_column,
    as_double,
    double_constant,
    finite_constant,
    half_open,
    json_bytes,
)

if TYPE_CHECKING:
    import narwhals as nw

MOST_CELLS = 2**40


@dataclass(frozen=True, slots=True)
class Cells(OneColumn):
    """Half-open cells, numbered from 0. A number outside the bounds is in the nearest cell."""

    column: str
    lower: float
    upper: float
    cells: int
    kind = "cells"
    reads = NUMBERS
    bucket_type = "int64"
    joinable = True
    repeated = True
    ordered = True

    def __post_init__(self) -> None:
        self._check_column()
        lower, upper = finite_constant(self.lower), finite_constant(self.upper)
        if not (lower < upper and math.isfinite(upper - lower)):
            raise InvalidSetting("lower", "must be below `upper`, and both and their difference must be finite numbers")
        wide = (upper - lower) * self.cells if are_whole(self.cells) else math.inf
        if not (math.isfinite(wide) and 1 <= self.cells <= MOST_CELLS):
            raise InvalidSetting("cells", "must be from 1 to 2^40, over a range that is not too wide")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def bucket(self, value: Any) -> Any:
        """The cell's number."""
        number = as_double(value)
        if number is None:
            return None
        inside = min(max(number, self.lower), self.upper)
        position = math.floor((inside - self.lower) * self.cells / (self.upper - self.lower))
        return min(position, self.cells - 1)

    def label(self, bucket: Any) -> str:
        """Both ends of the cell."""
        width = (self.upper - self.lower) / self.cells
        return half_open(self.lower + bucket * width, self.lower + (bucket + 1) * width)

    def keys(self, value: nw.Expr) -> list[nw.Expr]:
        """The operations of `bucket`, in its order, so that doubles are rounded alike."""
        import narwhals as nw

        number = value.cast(nw.Float64)
        lower, upper = double_constant(self.lower), double_constant(self.upper)
        inside = nw.when(number < lower).then(lower).otherwise(nw.when(number > upper).then(upper).otherwise(number))
        width = as_column(self.upper - self.lower, inside)
        # Ibis' floor is a whole number, and ClickHouse has no type for one that may also be a double.
        position = ((inside - lower) * double_constant(self.cells) / width).floor().cast(nw.Float64)
        last = double_constant(self.cells - 1)
        return [nw.when(position > last).then(last).otherwise(position).cast(nw.Int64)]

    def reader(self) -> Reader:
        """Reads a cell's number; 6.0 is 6, as JSON has one kind of numbers."""

        def read(element: Any) -> int:
            if type(element) not in (int, float) or element % 1 or not 0 <= element < self.cells:
                raise Impossible
            return int(element)

        return read

    @property
    def longest(self) -> int:
        """The number of the last of the most cells that there can be."""
        return json_bytes(MOST_CELLS - 1)

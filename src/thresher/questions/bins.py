"""Numbers in bins between public edges: `Bins("age", (0, 18, 65, 130))`."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection
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
    as_double,
    double_constant,
    finite_constant,
    half_open,
    json_bytes,
)
from thresher.questions.spelling import read_float

if TYPE_CHECKING:
    import narwhals as nw

MOST_BINS = 1_000_000
"""Equal bins that are made from a number or a width; a fleet takes as many as fit its messages."""


@dataclass(frozen=True, slots=True)
class Bins(OneColumn):
    """Half-open intervals between public edges, named by their lower edge. Outside the edges there is no bucket."""

    column: str
    edges: tuple[float, ...]
    kind = "bins"
    reads = NUMBERS
    bucket_type = "double"
    joinable = True
    in_histograms = True
    listed_as = "floats"
    ordered = True

    def __post_init__(self) -> None:
        self._check_column()
        try:
            edges = tuple(map(finite_constant, self.edges))
        except (TypeError, ValueError, OverflowError):
            raise InvalidSetting("bins", "must be numbers", hint="For example `bins=[0, 18, 65, 130]`.") from None
        rising = all(low < high for low, high in pairwise(edges))
        if not (len(edges) >= 2 and rising and all(math.isfinite(edge) for edge in edges)):
            raise InvalidSetting("bins", "must be at least two finite edges, each above the one before")
        object.__setattr__(self, "edges", edges)

    @property
    def lacks_buckets(self) -> bool:
        """Numbers outside the edges have no bucket."""
        return True

    def bucket(self, value: Any) -> Any:
        """The lower edge of the interval that holds the number."""
        number = as_double(value)
        if number is None or not self.edges[0] <= number < self.edges[-1]:
            return None
        return self.edges[bisect_right(self.edges, number) - 1]

    def axis(self, released: Collection[Any]) -> tuple[float, ...]:
        """Every bin."""
        return self.edges[:-1]

    def label(self, bucket: Any) -> str:
        """Both edges, as "18 to under 65"."""
        place = bisect_right(self.edges, bucket)
        return half_open(bucket, self.edges[place]) if place < len(self.edges) else str(bucket)

    def keys(self, value: nw.Expr) -> list[nw.Expr]:
        """A balanced tree of comparisons, so that its depth grows with the logarithm of the number of edges."""
        import narwhals as nw

        number, edges = value.cast(nw.Float64), self.edges

        def within(first: int, last: int) -> nw.Expr:
            if last - first == 1:
                return double_constant(edges[first])
            middle = (first + last) // 2
            below = number < double_constant(edges[middle])
            return nw.when(below).then(within(first, middle)).otherwise(within(middle, last))

        inside = (number >= double_constant(edges[0])) & (number < double_constant(edges[-1]))
        return [nw.when(inside).then(within(0, len(edges) - 1))]

    def reader(self) -> Reader:
        """Reads one of the lower edges."""
        lower_edges = {edge: edge for edge in self.edges[:-1]}

        def read(element: Any) -> float:
            # ECMAScript's text of a large double is that of a whole number, which need not be the double.
            number = nearest_double(element) if type(element) in (int, float) else None
            if number not in lower_edges:
                raise Impossible
            return lower_edges[number]

        return read

    @property
    def longest(self) -> int:
        """The edge with the most digits."""
        return max(map(json_bytes, self.edges))

    @property
    def as_setting(self) -> tuple[str, Any]:
        """The edges."""
        return "bins", list(self.edges)

    def listed(self, value: Any) -> Any:
        """A number; text is read as one."""
        read = read_float(value) if isinstance(value, str) else None
        return value if read is None else read

    def check_listed(self, value: Any) -> None:
        """Refuse all but lower edges: 65 is none with edges 0, 18 and 65."""
        self._check_own_bucket(value, "Name each bin by its lower edge; the last edge begins none.")


def equal_edges(lower: float, upper: float, number: int) -> tuple[float, ...]:
    """The edges of equal bins between two bounds."""
    return tuple(lower + (upper - lower) * index / number for index in range(number + 1))

"""Whether a number is below a split point: `Below("latency", 250.0)`."""

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
    as_double,
    double_constant,
    finite_constant,
    json_bytes,
    number_text,
)

if TYPE_CHECKING:
    import narwhals as nw


@dataclass(frozen=True, slots=True)
class Below(OneColumn):
    """True below the split point, False at it and above."""

    column: str
    split: float
    kind = "below"
    reads = NUMBERS
    bucket_type = "bool"
    repeated = True

    def __post_init__(self) -> None:
        self._check_column()
        split = finite_constant(self.split)
        if not math.isfinite(split):
            raise InvalidSetting("split", "must be a finite number")
        object.__setattr__(self, "split", split)

    def bucket(self, value: Any) -> Any:
        """Whether the number is below."""
        number = as_double(value)
        return None if number is None else number < self.split

    def label(self, bucket: Any) -> str:
        """The side of the split point."""
        return f"below {number_text(self.split)}" if bucket else f"{number_text(self.split)} or more"

    def keys(self, value: nw.Expr) -> list[nw.Expr]:
        """The comparison."""
        import narwhals as nw

        return [value.cast(nw.Float64) < double_constant(self.split)]

    def reader(self) -> Reader:
        """Reads a boolean."""

        def read(element: Any) -> bool:
            if type(element) is not bool:
                raise Impossible
            return element

        return read

    @property
    def longest(self) -> int:
        """The word false."""
        return json_bytes(False)

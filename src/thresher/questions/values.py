"""Whole values of one column or of several: `Values(("country", "os"))`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thresher.questions.normal_form import END, composed, normal
from thresher.questions.question import (
    Bucket,
    Foreign,
    Impossible,
    Part,
    Question,
    Reader,
    column_names,
)
from thresher.questions.spelling import as_text

if TYPE_CHECKING:
    import narwhals as nw


@dataclass(frozen=True, slots=True)
class Values(Part):
    """Whole values of one or more columns; a unit that lacks one of them has no bucket."""

    columns: tuple[str, ...]
    kind = "values"
    reads = (
        "text", "whole numbers", "floats", "decimals", "booleans", "dates", "times",
    )  # fmt: skip
    bucket_type = "string"
    joinable = True
    whole = True
    in_histograms = True
    whole = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))

    @property
    def parts(self) -> tuple[Part, ...]:
        """One question for each column."""
        return (self,) if len(self.columns) == 1 else tuple(Values((column,)) for column in self.columns)

    def bucket(self, value: Any) -> Bucket | None:
        """The value itself, normalised; a tuple where there are several columns."""
        return normal(value) if len(self.columns) == 1 else Question.bucket(self, value)

    def device_bucket(self, value: Any) -> Bucket | None:
        """The value as text, so that the type of a release never depends on what one device holds."""
        if len(self.columns) > 1:
            return Question.device_bucket(self, value)
        bucket = normal(value)
        return bucket if bucket is None or type(bucket) is str else as_text(bucket)

    def label(self, bucket: Bucket) -> str:
        """The value as text; several side by side."""
        return str(bucket) if len(self.columns) == 1 else Question.label(self, bucket)

    def keys(self, value: nw.Expr) -> list[nw.Expr]:
        """The column itself."""
        return [value]

    def reader(self) -> Reader:
        """Reads text."""
        return read_text

    @property
    def longest(self) -> int:
        """One character in quotes."""
        return 3

    def listed(self, value: Any) -> Any:
        """The value as text."""
        return as_text(value)


def read_text(element: Any) -> str:
    """Text of a report, in its normal form."""
    if type(element) is not str or END in element:
        raise Impossible
    text = composed(element)
    if text is None:
        raise Foreign
    return text

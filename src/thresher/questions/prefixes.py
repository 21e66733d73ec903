"""The first characters of a text that extends a known prefix: `Prefixes("word", length=3, known=2, parents=…)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thresher.errors import InvalidSetting
from thresher.questions.normal_form import END, normal
from thresher.questions.question import (
    ArrowType,
    Foreign,
    Impossible,
    OneColumn,
    Reader,
    are_whole,
    is_well_formed,
    json_bytes,
)
from thresher.questions.values import read_text

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa

LONGEST_PREFIX = 10_000


@dataclass(frozen=True, slots=True)
class Prefixes(OneColumn):
    """The first `length` characters of a text whose first `known` characters are a known prefix.

    A text that ends within that length has its end marked with `END`, so that "the" and "then" part ways. With
    `known` = 0 every text answers. A parent that ends in `END` is complete and is not extended.
    """

    column: str
    length: int
    known: int = 0
    parents: frozenset[str] = frozenset()
    kind = "prefixes"
    reads = ("text",)
    bucket_type = "string"
    repeated = True

    def __post_init__(self) -> None:
        self._check_column()
        if not (are_whole(self.known, self.length) and 0 <= self.known < self.length <= LONGEST_PREFIX):
            raise InvalidSetting(
                "length", f"must be above the length that is known already, at most {LONGEST_PREFIX:,}"
            )
        object.__setattr__(self, "parents", frozenset(self.parents))
        if not all(is_well_formed(parent) for parent in self.parents):
            raise InvalidSetting("parents", "must be texts")

    @property
    def lacks_buckets(self) -> bool:
        """Texts that extend no known prefix have no bucket."""
        return self.known > 0

    def bucket(self, value: Any) -> Any:
        """The prefix that this text votes for."""
        text = normal(value)
        if not isinstance(text, str):
            return None
        marked = text + END
        if self.known and (marked[: self.known] not in self.parents or len(text) < self.known):
            return None
        return marked[: self.length]

    def label(self, bucket: Any) -> str:
        """A whole text as it is; a beginning with an ellipsis."""
        return str(bucket.removesuffix(END)) if bucket.endswith(END) else f"{bucket}…"

    def keys(self, value: nw.Expr) -> list[nw.Expr]:
        """The first characters, and whether the text ends within them."""
        import narwhals as nw

        prefix, ends = value.str.head(self.length), value.str.len_chars() < self.length
        return [nw.when(self._extends(value)).then(prefix) if self.known else prefix, ends]

    def _extends(self, value: nw.Expr) -> nw.Expr:
        """Whether a text extends a known prefix."""
        length = value.str.len_chars()
        # A parent with the mark of the end is complete; no text starts with one.
        open_parents = sorted(parent for parent in self.parents if END not in parent)
        if not open_parents:
            return length < 0
        return (length >= self.known) & value.str.head(self.known).is_in(open_parents)

    @property
    def key_types(self) -> tuple[ArrowType, ...]:
        """The prefix, and whether the text ends within it."""
        return ("string", "bool")

    def from_keys(self, keys: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
        """Prefixes, those of texts that end with the mark of the end."""
        import pyarrow as pa
        import pyarrow.compute as pc

        prefixes, ends = keys
        return pc.if_else(ends, pc.binary_join_element_wise(prefixes, pa.scalar(END), ""), prefixes)

    def reader(self) -> Reader:
        """Reads a prefix: it is whole (`length` characters) or ends in the mark, and is its own bucket."""

        def read(element: Any) -> str:
            if not (type(element) is str and (len(element) == self.length or element.endswith(END))):
                raise Impossible
            bare = element.removesuffix(END)
            text = read_text(bare)
            prefix = text + element[len(bare) :]
            if self.bucket(text) != prefix:
                raise Impossible if text == bare else Foreign
            return prefix

        return read

    @property
    def longest(self) -> int:
        """All characters as ASCII, in quotes, and the mark."""
        return self.length + json_bytes(END)

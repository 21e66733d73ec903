"""What every answer with rows can be turned into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thresher.errors import require

if TYPE_CHECKING:
    import pyarrow as pa


class Tabular:
    """Rows as Arrow, and from there as pandas or Polars, each imported only when asked for."""

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """The rows as a pandas frame."""
        require("pandas", "pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The rows as a Polars frame."""
        return require("polars", "polars").from_arrow(self.to_arrow())

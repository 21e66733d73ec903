"""Who a guarantee protects: what one unit is. It follows from public settings, never from the data.

    Unit        written as          in a sentence
    ROW         row                 one row
    of a column column:user_id      one unit (user_id)
    DEVICE      device              one device
    MEMBER      member              one member

Guarantees for different units do not add up: one person may hold many rows. The written form tells a column that is
called "row" from the rows themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from thresher.errors import Hint, InvalidFormat, InvalidSetting
from thresher.privacy.settings import is_writable

Kind: TypeAlias = Literal["row", "column", "device", "member"]
_KINDS: tuple[str, ...] = get_args(Kind)
_COLUMN = "column:"


@dataclass(frozen=True, slots=True)
class Unit:
    """What one unit is: a row, all rows with one value of a column, a device of a fleet, a member of a population."""

    kind: Kind
    column: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise InvalidSetting("unit", f"must be of a kind among {', '.join(_KINDS)}")
        if (self.kind == "column") != _is_name(self.column):
            raise InvalidSetting("unit", "must be the name of one column", hint="For example `unit='user_id'`.")

    @classmethod
    def of_table(cls, column: str | None) -> Unit:
        """The unit of a query with `unit=column` on a table: each row, if there is none."""
        return ROW if column is None else cls("column", column)

    @classmethod
    def read(cls, text: object) -> Unit:
        """Read what `str` wrote; `InvalidFormat` for anything else."""
        if isinstance(text, str):
            if text.startswith(_COLUMN) and text != _COLUMN:
                return cls("column", text.removeprefix(_COLUMN))
            for unit in (ROW, DEVICE, MEMBER):
                if text == unit.kind:
                    return unit
        raise InvalidFormat("This does not say what one unit is.")

    def __str__(self) -> str:
        return f"{_COLUMN}{self.column}" if self.kind == "column" else self.kind

    @property
    def one(self) -> str:
        """One of them, in a sentence."""
        return f"one unit ({self.column})" if self.kind == "column" else f"one {self.kind}"

    def counting(self, contributions: int = 1) -> str:
        """How they are counted, in a sentence: an estimate is how many units are counted under a value.

        Where so many `contributions` count, it says what the choice hides: estimates are lower where units have more.
        """
        one = self.column if self.kind == "column" else self.kind
        if contributions > 1:
            return (
                f"each {one} is a unit and counts for each of its values, up to {contributions} chosen at random "
                "(how many units have more is not public)"
            )
        if self.kind == "column":
            return f"each {one} is a unit and counts for one of its values, chosen at random"
        return f"each {one} is a unit"


def _is_name(column: object) -> bool:
    """Whether this can be the name of a column, and written down."""
    return isinstance(column, str) and column != "" and is_writable(column)


ROW = Unit("row")
"""Each row of a table is a unit; a person with ten rows is ten units."""
DEVICE = Unit("device")
"""Each device of a fleet is a unit."""
MEMBER = Unit("member")
"""Each member of a population that says no more about its units."""


def check_unit(value: object) -> Unit:
    """A unit as it is, or the name of the column whose values are the units."""
    if isinstance(value, Unit):
        return value
    if isinstance(value, str) and value:
        return Unit("column", value)
    raise InvalidSetting(
        "unit",
        "must be the name of a column, or a unit",
        hint=Hint(
            "For example `unit='user_id'`; without it each row is a unit.",
            python='For example unit="user_id", or unit=thresher.privacy.ROW where each row is a unit.',
        ),
    )

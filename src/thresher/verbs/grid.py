"""The grid of a hierarchy: which cells each level has, from public settings alone.

Level ℓ has β^ℓ equally wide half-open cells. For numbers of any kind they lie between the two public bounds.

For whole numbers every edge is a whole number. A finest cell is one whole number wide, or a few where there are more
whole numbers between the bounds than finest cells. The last cells may then lie above the upper bound; answers read what
they count as if it were at the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from thresher.errors import InvalidSetting
from thresher.privacy.settings import check_count
from thresher.questions import Cells, Question

BRANCHING = 4
LARGEST_BRANCHING = 1024
MOST_CHOSEN = 8
"""The largest branching factor that is chosen for whole numbers by itself."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Levels of cells. `last` is the largest whole number, where the numbers are whole; None otherwise."""

    lower: float
    upper: float
    """The upper edge of the last cell."""
    branching: int
    levels: int
    last: int | None = None

    def questions(self, column: str) -> list[Question]:
        """The question of each level, coarsest first."""
        return [Cells(column, self.lower, self.upper, self.branching**level) for level in range(1, self.levels + 1)]


def grid_of(lower: float, upper: float, branching: int | None, levels: int, whole: bool) -> Grid:
    """The grid for settings that were checked with `check_bounds`.

    Without a branching factor it is 4; for whole numbers, the smallest with which the finest level has a cell for each
    of them, if one up to 8 has.
    """
    if branching is not None:
        branching = check_count(branching, setting="branching", least=2, example=4)
        if branching > LARGEST_BRANCHING:
            raise InvalidSetting(
                "branching", f"must be from 2 to {LARGEST_BRANCHING:,}", hint="Most often 2 to 16 is best."
            )
    numbers = math.floor(upper) - math.ceil(lower) + 1 if whole else 0
    if whole and numbers < 2:
        raise InvalidSetting("upper", "must leave at least two whole numbers between the bounds")
    if branching is None:
        fitting = (each for each in range(2, MOST_CHOSEN + 1) if whole and each**levels >= numbers)
        branching = next(fitting, BRANCHING)
    if branching**levels > 2**40:
        raise InvalidSetting(
            "branching",
            f"to the power of the plan's {levels} rounds must be at most 2^40",
            hint="Use a smaller branching factor, or plan with fewer rounds.",
        )
    if not whole:
        return Grid(float(lower), float(upper), branching, levels)
    first, cells = math.ceil(lower), branching**levels
    width = -(-numbers // cells)
    return Grid(float(first), float(first + width * cells), branching, levels, math.floor(upper))

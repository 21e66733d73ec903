"""What the page of an answer with groups draws: points with intervals, a row a group, or a small distribution each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thresher import charts
from thresher.charts.numbers import printable
from thresher.charts.svg import Svg
from thresher.verbs.answer import Answer


@dataclass(frozen=True, slots=True)
class GroupPictures:
    """Either `rows` or `small` has something; both are empty where nothing was released."""

    by: str
    released: int
    """How many groups have an answer; `hidden` of them are not drawn."""
    hidden: int
    names: tuple[str, ...] = ()
    """What the points of a row are, in the order of their colours."""
    rows: tuple[tuple[str, Svg, str], ...] = ()
    """Each group's name, its points with intervals, and its numbers as text."""
    axis: Svg | None = None
    """The scale of all rows."""
    cut: bool = False
    """Whether a row has an arrow where an interval goes on beyond the picture."""
    small: tuple[tuple[str, Svg], ...] = ()
    """Each group's name and distribution."""


def pictures_of(answer: Answer) -> GroupPictures | None:
    """The pictures of an answer with groups; None for one without."""
    if not answer.grouped:
        return None
    found: Any = answer
    by, released = printable(" and ".join(found.query.by)), len(found)
    if not found.measures:
        small = tuple(
            (printable(label), charts.distribution_svg(*band, title=f"Distribution: {printable(label)}", small=True))
            for label, band in found.bands()
        )
        return GroupPictures(by, released, released - len(small), small=small)
    names, groups = found.numbers()
    drawn = sum(group.numbers is not None for group in groups)
    picture = charts.group_rows_svg(names, groups)
    rows = tuple((printable(label), drawing, text) for label, drawing, text in picture.rows)
    return GroupPictures(by, released, released - drawn, tuple(map(printable, names)), rows, picture.axis, picture.cut)

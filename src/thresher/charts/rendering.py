"""One look for all pictures, and how they are written to files."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from thresher.errors import InvalidSetting, require
from thresher.files import file_target

# Okabe and Ito's colours, which people with any colour vision can tell apart.
BLUE, ORANGE, GREEN, RED, GREY, BLACK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#8A8A8A", "#222222"
PURPLE, SKY = "#CC79A7", "#56B4E9"
LINES = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
"""The colours of lines in one picture, in the order in which they are used."""

UNITS, DEVICES = "units", "devices that checked in"
"""Whom an axis counts: everybody in a table, or those of a fleet that a round was open to."""
NOTHING = "nothing reached the threshold"

_WIDEST = 95
"""Characters of a line below a title."""
_FONT, _PADDING = "Arial, Liberation Sans, Helvetica, sans-serif", {"left": 20, "right": 20, "top": 8, "bottom": 8}
"""A picture is laid out for Arial's widths. Where none of these fonts is there, text is up to a sixth wider."""
_FORMATS = (".png", ".svg", ".html")
_SAVING: dict[str, dict[str, Any]] = {".html": {"inline": True}, ".png": {"scale_factor": 2}}


class Look(NamedTuple):
    """The dress of a picture: its font, its ground, and which colour stands in for each of ours."""

    font: str
    ground: str
    text: str
    soft: str
    line: str
    colours: Mapping[str, str]


def dressed(chart: Any, look: Look, title: str, said: Sequence[str]) -> Any:
    """A styled chart in another look, with another title and further lines below it."""
    content = _recoloured(chart.to_dict(), look.colours)
    head, config = content["title"], content["config"]
    head |= {"text": title, "subtitle": [*head["subtitle"], *_wrapped(list(said))]}
    config |= {"font": look.font, "background": look.ground, "padding": 24}
    config["axis"] |= {"labelColor": look.soft, "titleColor": look.soft, "titleFontWeight": "normal"}
    config["axis"] |= {"gridColor": look.line, "domainColor": look.line, "tickColor": look.line}
    config["legend"] |= {"labelColor": look.text}
    config["title"] |= {"fontSize": 20, "color": look.text, "subtitleColor": look.soft, "offset": 18}
    return altair().Chart.from_dict(content)


def _recoloured(content: Any, colours: Mapping[str, str]) -> Any:
    """A specification with colours replaced. Data and names are left alone: a bucket may be called as a colour is."""
    if isinstance(content, dict):
        return {
            key: value if key in ("data", "datasets", "domain", "title") else _recoloured(value, colours)
            for key, value in content.items()
        }
    if isinstance(content, list):
        return [_recoloured(each, colours) for each in content]
    return colours.get(content, content) if isinstance(content, str) else content


def altair() -> Any:
    """Altair, or the error that says how to install it."""
    require("vl_convert", "plot")
    return require("altair", "plot")


def standing_for(whom: str | None) -> list[str]:
    """A line that says for whom a picture's numbers stand, where that is not everybody."""
    return [] if whom is None else [f"Numbers stand for {whom}."]


def note_alone(text: str) -> Any:
    """Text in the middle of a picture that has nothing else to show."""
    return (
        altair().Chart(altair().Data(values=[{"text": text}])).mark_text(fontSize=14, color=GREY).encode(text="text:N")
    )


def styled(chart: Any, title: str, subtitle: str | list[str]) -> Any:
    """The chart with its title and the common look."""
    return (
        chart.properties(title={"text": title, "subtitle": _wrapped(subtitle), "anchor": "start"})
        .configure(font=_FONT, padding=_PADDING)
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=12, titleFontSize=12, gridColor="#E6E6E6", domainColor=GREY, tickColor=GREY)
        .configure_title(fontSize=15, subtitleFontSize=12, subtitleColor="#555555", offset=12)
        .configure_legend(labelFontSize=12, titleFontSize=12)
    )


def _wrapped(subtitle: str | list[str]) -> list[str]:
    """The lines below a title, none longer than a picture is wide: a longer one would widen the picture."""
    lines = [subtitle] if isinstance(subtitle, str) else subtitle
    return [part for line in lines for part in textwrap.wrap(line, _WIDEST) or [""]]


def check_format(path: Path) -> None:
    """Require that a picture can be written in the format that the file's name asks for."""
    if path.suffix.lower() not in _FORMATS:
        raise InvalidSetting(
            "plot", f"must be a file ending in {', '.join(_FORMATS)}", hint="For example: histogram.png"
        )
    altair()


def show(chart: Any, path: str | Path | None) -> Any:
    """The chart itself, for a notebook; or write it to a .png, .svg or .html file."""
    if path is None:
        return chart
    file = file_target(Path(path), setting="plot")
    check_format(file)
    kind = file.suffix.lower()
    chart.save(str(file), format=kind[1:], **_SAVING.get(kind, {}))
    return chart

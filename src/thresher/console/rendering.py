"""Templates, and how numbers and times are written on every page."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from thresher._version import __version__
from thresher.charts import meter
from thresher.charts.numbers import amount, count, percent, printable
from thresher.console import assets

VERBS = {
    "histogram": "Histogram",
    "heavy_hitters": "Heavy hitters",
    "quantiles": "Quantiles",
    "ranges": "Ranges",
}
METHODS = {
    "one-shot": "whole values, one round",
    "trie": "letter by letter",
    "hierarchy": "hierarchy",
    "search": "binary search",
}
STATES = {
    "received": "Received",
    "running": "Running",
    "done": "Done",
    "cancelled": "Cancelled",
    "refused": "Refused",
    "failed": "Failed",
    "planned": "Planned",
    "open": "Open",
    "closed": "Closed",
    "forwarded": "Counting",
    "released": "Released",
    "dropped": "Dropped",
}


ROLE_STATES = {
    "server-unavailable": "cannot be reached",
    "store-unavailable": "cannot reach its store",
    "unauthorised": "does not take this server's key",
}


def environment() -> Environment:
    """Jinja, with escaping everywhere and no silent gaps."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        count=count,
        amount=amount,
        percent=percent,
        share=share,
        when=when,
        machine_time=machine_time,
        duration=duration,
        verb=lambda verb: VERBS.get(verb, verb),
        state=lambda state: STATES.get(state, state),
        role_state=lambda state: ROLE_STATES.get(state, state.replace("-", " ")),
        printable=printable,
        sentence=sentence,
        left=left,
    )
    made.globals.update(asset=assets.address, meter=meter, version=__version__)
    return made


def left(value: float) -> str:
    """What is left of a budget, as `amount` writes it; rounded down, so that it never says more than there is."""
    if not value > 0:
        return "0"
    nudged = value * (1 + 1e-12)  # what is short of a round number only by floating point is that number
    places = 4 if value < 10 else 2 if value < 10_000 else 0
    unit = 10.0 ** (-places if nudged >= 1e-3 else math.floor(math.log10(nudged)) - 2)
    return amount(math.floor(nudged / unit) * unit)


def sentence(text: str) -> str:
    """The text with a capital at its start; the rest stays as it is, since names of attributes do."""
    return text[:1].upper() + text[1:]


def share(part: float, whole: float) -> float:
    """How much of a whole, from 0 to 1; 0 where there is no whole."""
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0


def when(time: float | None) -> str:
    """A time as people read it."""
    return "–" if time is None else _utc(time).strftime("%-d %b %Y, %H:%M UTC")


def machine_time(time: float) -> str:
    """A time for the `datetime` attribute."""
    return _utc(time).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: float | None) -> str:
    """A span of time, roughly."""
    if seconds is None:
        return "–"
    seconds = max(0, round(seconds))
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {name}"
    return f"{seconds} s"


def _utc(time: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(time, dt.UTC)

"""Templates, and how numbers and times are written on every page."""

from __future__ import annotations

import datetime as dt
import math
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from thresher._version import __version__
from thresher.charts import meter
from thresher.charts.numbers import amount, count, percent, printable, shortened
from thresher.console import assets
from thresher.ledger.durations import in_words
from thresher.tables.time_zones import zone_of
from thresher.verbs.alert_rules import written

_STATES = {"forwarded": "Counting"}
"""States of queries and rounds whose names people would not understand; the others are shown by their names."""
_ROLE_STATES = {
    "server-unavailable": "cannot be reached",
    "store-unavailable": "cannot reach its store",
    "unauthorised": "does not take this server's key",
}

_LONGEST_BUCKET = 80
"""How many characters of a bucket a sentence shows."""


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
        on_clock=on_clock,
        day=lambda time: _utc(time).strftime("%-d %b %Y"),
        machine_time=machine_time,
        verb=lambda verb: verb.replace("_", " ").capitalize(),
        what=what,
        state=lambda state: _STATES.get(state, state.capitalize()),
        role_state=lambda state: _ROLE_STATES.get(state, state.replace("-", " ")),
        printable=printable,
        brief=brief,
        sentence=sentence,
        left=left,
        share_left=share_left,
        duration=in_words,
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


def share_left(part: float) -> str:
    """The part of a budget that is left, rounded down, so that it never says more than there is."""
    nudged = part * (1 + 1e-12)  # what is short of a round number only by floating point is that number
    return percent(math.floor(nudged * 1e3) / 1e3 if nudged >= 0.1 else max(math.floor(nudged * 1e4) / 1e4, 0.0))


def what(text: str) -> str:
    """What a query asks, with its verb in plain words. Names of attributes stay as they are."""
    return re.sub("^heavy_hitters", "heavy hitters", printable(text))


def brief(text: str, bucket: Any) -> str:
    """A text that begins with a bucket, with the beginning of a long bucket in place of the whole."""
    shown, whole = printable(text), written(bucket)
    return shortened(whole, _LONGEST_BUCKET) + shown.removeprefix(whole) if shown.startswith(whole) else shown


def sentence(text: str) -> str:
    """The text with a capital at its start; the rest stays as it is, since names of attributes do.

    It is for texts that begin with words of ours. A text that begins with a bucket would show another bucket.
    """
    return text[:1].upper() + text[1:]


def share(part: float, whole: float) -> float:
    """How much of a whole, from 0 to 1; 0 where there is no whole."""
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0


def when(time: float) -> str:
    """A time as people read it."""
    return _utc(time).strftime("%-d %b %Y, %H:%M UTC")


def on_clock(time: float, time_zone: str) -> str:
    """A time on the wall clock of a time zone, as people read it."""
    return dt.datetime.fromtimestamp(time, zone_of(time_zone)).strftime("%-d %b %Y, %H:%M %Z")


def machine_time(time: float) -> str:
    """A time for the `datetime` attribute."""
    return _utc(time).strftime("%Y-%m-%dT%H:%M:%SZ")


def _utc(time: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(time, dt.UTC)

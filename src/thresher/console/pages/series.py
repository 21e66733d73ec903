"""Series: the list of all, and the page of one with its trend, its numbers, its dates and its budget.

Everything here is computed from what was released already: looking costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from thresher import charts
from thresher.charts.svg import Svg
from thresher.console.alerts_shown import shown_alerts
from thresher.console.downloads import KINDS, Provenance, saved_file
from thresher.console.following import Followed
from thresher.console.pages.paging import paged
from thresher.console.python_line import following_line, series_line
from thresher.console.requests import PageRequest
from thresher.console.series_tables import latest_numbers, surfaced, writer
from thresher.errors import InvalidSetting, NotReleased, ThresherError
from thresher.protocol.analyst_messages import Charge
from thresher.protocol.series_messages import SeriesStatus
from thresher.protocol.states import ACTIVE_QUERY, OPEN_SERIES
from thresher.verbs.query import Query, query_from_dict

_OFFERED = 30
"""How many buckets can be ticked; another one is typed."""
_LONGEST_OFFERED = 200
_DRAWN = 12
"""How many series of a list have a small line."""
_DATES = 13
"""How many dates are on a page: a quarter of weeks."""
_SPARKS = 60
"""How many dates a small line has."""


@dataclass(frozen=True, slots=True)
class Spark:
    """A series in one row: the first bucket of its last release, its last number, and a small line."""

    label: str
    number: str
    line: Svg


def show_all(request: PageRequest) -> Response:
    """A page of the list; those that ask come first."""
    every = open_first(request.console.analyst.series.all())
    page = paged(every, request.parameters.get("page", "1"))
    drawn = [status for status in page["rows"] if status.released][:_DRAWN]
    return request.page("series_list.html", **page, sparks={status.id: spark(request, status) for status in drawn})


def show(request: PageRequest) -> Response:
    """The page of one series. The address says which lines are drawn, so it can be shared."""
    status = request.console.analyst.series.status(request.series)
    followed = request.console.following.read(status)
    query = _query(status)
    ledger = request.console.analyst.ledger_view()
    content = {
        "series": status,
        "zone": status.schedule.time_zone,
        "followed": followed,
        "numbers": latest_numbers(followed),
        "appeared": surfaced(followed.changes, vanished=False),
        "vanished": surfaced(followed.changes, vanished=True),
        "plan": None if query is None else query.plan,
        "is_open": status.state in OPEN_SERIES,
        "running": [each for each in status.releases if each.state in ACTIVE_QUERY],
        "downloads": list(KINDS) if followed.newest else [],
        "composition": ledger.composition,
        "charge": _charge(ledger.charges, status.id),
        **paged(status.releases[::-1], request.parameters.get("page", "1"), _DATES),
        **_alerts(request, status.id),
        **_lines(request, status, query),
    }
    return request.page("series.html", **content, **_picture(request, followed))


def save(request: PageRequest) -> Response:
    """The numbers over time as a file."""
    kind = str(request.http.path_params["kind"])
    status = request.console.analyst.series.status(request.series)
    over_time = request.console.following.read(status).over_time
    if over_time is None or not over_time.released:
        raise InvalidSetting("series", "has no answer yet", hint="Wait for its first release.")
    last = over_time.released[-1][0].timestamp()
    provenance = Provenance.of(over_time, status.what, last, series=True)
    with request.heavy_work():
        return saved_file(over_time, kind, provenance)


def pause(request: PageRequest) -> Response:
    """Let dates pass without asking."""
    return _back(request, request.console.analyst.series.pause(request.series, request.caller.name))


def resume(request: PageRequest) -> Response:
    """Ask again from the next date on."""
    return _back(request, request.console.analyst.series.resume(request.series, request.caller.name))


def end(request: PageRequest) -> Response:
    """Ask no more."""
    return _back(request, request.console.analyst.series.end(request.series, request.caller.name))


def open_first(every: Sequence[SeriesStatus]) -> list[SeriesStatus]:
    """Series that may still ask before those that have ended; each part as it was, newest first."""
    return sorted(every, key=lambda status: status.state not in OPEN_SERIES)


def spark(request: PageRequest, listed: SeriesStatus) -> Spark | None:
    """A series of the list in one row; None where nothing can be followed."""
    followed = request.console.following.read(request.console.analyst.series.status(listed.id))
    over_time = followed.over_time
    if over_time is None or not over_time.buckets:
        return None
    key = followed.latest[0].key if followed.latest else next(iter(over_time.buckets))
    label = over_time.buckets[key]
    numbers = [None if row is None else row.estimate for row in over_time.line(key)[-_SPARKS:]]
    known = [number for number in numbers if number is not None]
    shown = charts.numbers.shortened(label, 24)
    number = writer(followed)(known[-1]) if known else "–"
    return Spark(shown, number, charts.sparkline(numbers, f"{shown} over time; the last number is {number}"))


def _back(request: PageRequest, status: SeriesStatus) -> Response:
    return request.redirect(f"/series/{status.id}")


def _query(status: SeriesStatus) -> Query | None:
    """The query of one release; None if what was stored cannot be read."""
    try:
        return query_from_dict(status.query)
    except ThresherError:
        return None


def _charge(charges: Sequence[Charge], series: str) -> Charge | None:
    return next((charge for charge in charges if charge.series == series), None)


def _alerts(request: PageRequest, series: str) -> dict[str, Any]:
    """The rules of a series, the alerts that are shown, and how many are not."""
    analyst = request.console.analyst
    rules = analyst.rules(series)
    shown = shown_alerts(analyst.alerts(series), {rule.id for rule in rules.rules if rule.standing})
    return {"rules": rules, "alerts": shown, "alerts_more": max(0, analyst.alert_number(series) - len(shown))}


def _lines(request: PageRequest, status: SeriesStatus, query: Query | None) -> dict[str, str]:
    address = str(request.http.base_url).rstrip("/")
    asks = "" if query is None else series_line(query, status, address, request.console.compute)
    return {"asks": asks, "follows": following_line(status.id, address)}


def _picture(request: PageRequest, followed: Followed) -> dict[str, Any]:
    """The trend of the chosen buckets, or of the largest ones; and what else can be chosen."""
    over_time = followed.over_time
    chosen = [text for text in dict.fromkeys(request.http.query_params.getlist("bucket")) if text]
    content: dict[str, Any] = {"picture": None, "chosen": [], "offered": [], "wrong": None, "most": charts.MOST_LINES}
    if over_time is None or not over_time.released:
        return content
    labels = [label for label in over_time.buckets.values() if 0 < len(label) <= _LONGEST_OFFERED]
    kept: list[str] = []
    for text in chosen:
        try:
            over_time.line(text)
            kept.append(text)
        except NotReleased as error:
            content["wrong"] = error
    if len(kept) > charts.MOST_LINES:
        problem = f"are at most {charts.MOST_LINES} in one picture; the first of them are shown"
        content["wrong"] = InvalidSetting("lines", problem)
        kept = kept[: charts.MOST_LINES]
    drawn = over_time.svg(buckets=kept) if kept else over_time.svg()
    offered = list(dict.fromkeys([*kept, *labels[:_OFFERED]]))
    return content | {"picture": drawn, "chosen": kept, "offered": offered, "more": max(0, len(labels) - len(offered))}

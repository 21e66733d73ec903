"""An answer: pictures, table, tree, calculator, files, the Python line and the certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from thresher import charts
from thresher.charts.numbers import percent
from thresher.console.answer_tables import Page, Reading, bars, branches, reading
from thresher.console.downloads import KINDS, PICTURES, Provenance, saved_file
from thresher.console.group_pictures import GroupPictures, pictures_of
from thresher.console.headers import is_fragment
from thresher.console.pages.paging import page_number
from thresher.console.ports import AnalystService
from thresher.console.python_line import python_line
from thresher.console.requests import PageRequest
from thresher.errors import InvalidSetting, ThresherError
from thresher.protocol.analyst_messages import QueryStatus
from thresher.verbs.answer import Answer
from thresher.verbs.settings import read_number

_TREE, _WHOLE_TREE = 300, 3000


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """A query that is done, with its answer and its table."""

    status: QueryStatus
    answer: Answer
    table: Reading
    band: Any
    """The distribution of a number; it takes most of the time that its page takes."""
    groups: GroupPictures | None
    """The pictures of its groups, if it has groups."""


def show(request: PageRequest) -> Response:
    """The whole page. The address says how the table is searched and sorted, so it can be shared."""
    status = request.console.analyst.standing(request.query)
    if status.state != "done":
        return request.redirect(f"/queries/{status.id}?watch=1")
    found = _answered(request, status)
    answer = found.answer
    return request.page(
        "read.html",
        query=status,
        plan=answer.plan,
        table=found.table,
        page=_table_page(request, found.table),
        nothing=answer.nothing_in_words(),
        shape=_shape(request, found),
        rate=_rate(found),
        line=python_line(answer.query, str(request.http.base_url).rstrip("/"), status.settings),
        certificates=[release.certificate() for release in answer.releases],
        guarantees=None if status.guarantees is None else status.guarantees.values,
        downloads=[kind for kind in KINDS if answer.has_picture or kind not in PICTURES],
        verified=_verified(request, found) if "verify" in request.parameters else None,
        private=answer.private,
        stands_for=answer.stands_for,
        asked_of=answer.asked_of,
        left_out=answer.left_out,
        closed_early=any(each.target is not None and each.completed >= each.target for each in status.rounds),
        most=max((each.completed for each in status.rounds), default=0),
    )


def table(request: PageRequest) -> Response:
    """The table alone, for the script that searches and sorts."""
    if not is_fragment(request.http):
        return request.redirect(f"/queries/{request.query}/answer")
    found = _answered(request)
    page = _table_page(request, found.table)
    return request.page("table.html", query=found.status, table=found.table, page=page, left_out=found.answer.left_out)


def calculate(request: PageRequest) -> Response:
    """The range calculator's answer."""
    if not is_fragment(request.http):
        return show(request)
    found = _answered(request)
    return request.page("range.html", query=found.status, **_calculation(request, found))


def verify(request: PageRequest) -> Response:
    """The result of verifying the guarantee."""
    if not is_fragment(request.http):
        return request.redirect(f"/queries/{request.query}/answer?verify=1#certificate")
    return request.page("verified.html", verified=_verified(request, _answered(request)))


def save(request: PageRequest) -> Response:
    """The answer as a file."""
    kind = str(request.http.path_params["kind"])
    found = _answered(request)
    status = found.status
    provenance = Provenance.of(found.answer, status.what, status.ended or status.created)
    with request.heavy_work():
        return saved_file(found.answer, kind, provenance)


def _answered(request: PageRequest, status: QueryStatus | None = None) -> Answered:
    """The answer of the query that the address names; the answers that were read last are kept."""
    status = status or request.console.analyst.standing(request.query)
    if status.state != "done":
        raise InvalidSetting("query", "has no answer yet", hint="Watch it until it is done.")
    found: Answered = request.console.answers(_replayed, status.id)
    return found


def _replayed(analyst: AnalystService, query: str) -> Answered:
    answer = analyst.answer(query)
    return Answered(analyst.standing(query), answer, reading(answer), answer.band(), pictures_of(answer))


def _table_page(request: PageRequest, whole: Reading) -> Page:
    asked = request.parameters
    direction = {"up": False, "down": True}.get(asked.get("direction", ""))
    return whole.page(
        search=asked.get("search", "")[:200],
        sort=asked.get("sort", ""),
        descending=direction,
        number=page_number(asked.get("page", "1")),
    )


def _shape(request: PageRequest, found: Answered) -> dict[str, Any]:
    """What is shown above the table: bars, a tree, a distribution, a calculator; whatever the answer has."""
    answer = found.answer
    threshold = answer.plan.threshold / _rate(found)
    shown = bars(answer)
    most = max([threshold * 1.15, *(bar.upper for bar in shown if bar.upper is not None)])
    content: dict[str, Any] = {
        "bars": [(bar, charts.bar_svg(bar.estimate, bar.lower, bar.upper, threshold, most)) for bar in shown],
        "threshold": threshold,
        "counted": answer.counted,
        "released": sum(row.keys[1] is not None for row in found.table.rows),
        "rows_called": answer.rows_called,
        "window": _window(answer),
        "headline": answer.headline,
        "explained": answer.explained,
        "clipping": answer.query.clipping,
        "tree": None,
        "chart": None,
        "calculator": answer.reads_ranges and not answer.grouped,
        "groups": found.groups,
    }
    if answer.trie is not None:
        nodes = _WHOLE_TREE if request.parameters.get("tree") == "whole" else _TREE
        tree = branches(answer.trie, nodes)
        content |= {"tree": tree, "hidden": len(answer.trie.without_chains()) - len(tree)}
    if content["calculator"]:
        return content | _calculation(request, found)
    if found.band is not None:
        marks = [(percent(part), value, part, low, high) for part, value, low, high in answer.marks()]
        content["chart"] = charts.distribution_svg(*found.band, title=_title(answer), marks=marks)
    return content


def _rate(found: Answered) -> float:
    """The part of the devices that the first round sampled, of all that checked in."""
    return found.answer.releases[0].rate


def _window(answer: Answer) -> str:
    """Which part of the public range the picture shows, in words; empty where it shows all of it."""
    window = answer.window()
    return "" if window is None else window.in_words(answer.marks())


def _title(answer: Answer) -> str:
    return f"Distribution of {', '.join(answer.columns)}"


def _calculation(request: PageRequest, found: Answered) -> dict[str, Any]:
    """What the calculator shows: the distribution and, where the address has a range, how many are in it."""
    answer: Any = found.answer
    if not answer.reads_ranges or answer.grouped:
        raise InvalidSetting("query", "is not about ranges of all devices")
    low, high = answer.range_ends(-math.inf, math.inf)
    given = request.parameters.get("from", ""), request.parameters.get("to", "")
    content: dict[str, Any] = {"low": low, "high": high, "from_": given[0], "to": given[1], "part": None, "wrong": None}
    chosen = None
    if all(given):
        try:
            start, stop = (read_number(text, name) for text, name in zip(given, ("from", "to"), strict=True))
            content |= {"part": answer.fraction(start, stop), "number": answer.count(start, stop)}
            chosen = start, stop
        except ThresherError as error:
            content["wrong"] = error
    chart = charts.distribution_svg(*found.band, title=_title(answer), chosen=chosen)
    return {**content, "chart": chart}


def _verified(request: PageRequest, found: Answered) -> dict[str, Any]:
    """Recompute the delta that p and τ give, and check every released row."""
    with request.heavy_work():
        try:
            guarantee = found.answer.verify()
            reached = found.answer.plan.verify()
        except ThresherError as error:
            return {"holds": False, "detail": str(error)}
    return {
        "holds": True,
        "guarantee": guarantee,
        "reached": reached,
        "rounds": found.answer.rounds_asked,
        "rows": sum(len(release) for release in found.answer.releases),
    }

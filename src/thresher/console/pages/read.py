"""An answer: pictures, table, tree, calculator, files, the Python line and the certificate."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from thresher.console import ask_form as asking
from thresher.console import pictures
from thresher.console.answer_tables import Page, Reading, bars, branches, reading
from thresher.console.downloads import KINDS, download
from thresher.console.pages.queries import page_number
from thresher.console.python_line import python_line
from thresher.console.requests import Visit, is_fragment
from thresher.errors import InvalidSetting, ThresherError
from thresher.protocol.analyst_messages import QueryStatus
from thresher.verbs.heavy_hitters import HeavyHitters
from thresher.verbs.histogram import Histogram
from thresher.verbs.quantiles import Quantiles
from thresher.verbs.queries import Query, query_from_dict
from thresher.verbs.ranges import Ranges

_KEPT = 8
_TREE, _WHOLE_TREE = 300, 3000


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """A query that is done, with its answer and its table."""

    status: QueryStatus
    query: Query
    answer: Any
    table: Reading

    @property
    def releases(self) -> list[Any]:
        """The rounds' releases, in order."""
        return [self.answer.release] if isinstance(self.answer, Histogram) else list(self.answer.releases)


def show(visit: Visit) -> Response:
    """The whole page; the address says how the table is searched and sorted, so that it can be shared."""
    status = visit.office.desk.standing(visit.query)
    if status.state != "done":
        return visit.go(f"/queries/{status.id}?watch=1")
    found = _answered(visit, status)
    answer = found.answer
    return visit.page(
        "read.html",
        query=status,
        plan=answer.plan,
        table=found.table,
        page=_table_page(visit, found.table),
        empty=not found.table.rows if not isinstance(answer, Quantiles) else all(math.isnan(q.value) for q in answer),
        released=len(found.table.rows),
        shape=_shape(visit, found),
        rate=_rate(found),
        line=python_line(found.query, str(visit.request.base_url).rstrip("/"), status.settings),
        certificates=[release.certificate() for release in found.releases],
        guarantees=None if status.guarantees is None else status.guarantees.values,
        downloads=list(KINDS),
        verified=_verified(visit, found) if "verify" in visit.asked else None,
        private=answer.private,
        stands_for=answer.stands_for,
        closed_early=any(each.target is not None and each.completed >= each.target for each in status.rounds),
        most=max((each.completed for each in status.rounds), default=0),
    )


def table(visit: Visit) -> Response:
    """The table alone, for the script that searches and sorts."""
    if not is_fragment(visit.request):
        return visit.go(f"/queries/{visit.query}/answer")
    found = _answered(visit)
    return visit.page("table.html", query=found.status, table=found.table, page=_table_page(visit, found.table))


def calculate(visit: Visit) -> Response:
    """The range calculator's answer."""
    if not is_fragment(visit.request):
        return show(visit)
    found = _answered(visit)
    return visit.page("range.html", query=found.status, **_calculation(visit, found.answer))


def verify(visit: Visit) -> Response:
    """Recompute the guarantee and check every row."""
    if not is_fragment(visit.request):
        return visit.go(f"/queries/{visit.query}/answer?verify=1#certificate")
    return visit.page("verified.html", verified=_verified(visit, _answered(visit)))


def save(visit: Visit) -> Response:
    """The answer as a file."""
    kind = str(visit.request.path_params["kind"])
    found = _answered(visit)
    with visit.hard_at_work():
        content = download(found.answer, kind)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", found.status.what).strip("-") or found.status.id
    headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
    return Response(content, headers=headers, media_type=KINDS[kind])


def _answered(visit: Visit, status: QueryStatus | None = None) -> Answered:
    """The answer; replayed from the releases once and kept, since a release never changes."""
    status = status or visit.office.desk.standing(visit.query)
    if status.state != "done":
        raise InvalidSetting("query", "has no answer yet", hint="Watch it until it is done.")
    kept = visit.office.answers
    found: Answered | None = kept.get(status.id)
    if found is None:
        query = query_from_dict(visit.office.desk.status(status.id).query)
        answer = visit.office.desk.answer(status.id)
        found = Answered(status, query, answer, reading(answer, query))
        while len(kept) >= _KEPT:
            kept.pop(next(iter(kept)), None)
        kept[status.id] = found
    return found


def _table_page(visit: Visit, whole: Reading) -> Page:
    asked = visit.asked
    direction = {"up": False, "down": True}.get(asked.get("direction", ""))
    return whole.page(
        search=asked.get("search", "")[:200],
        sort=asked.get("sort", ""),
        descending=direction,
        number=page_number(asked.get("page", "1")),
    )


def _shape(visit: Visit, found: Answered) -> dict[str, Any]:
    """What each verb shows above its table."""
    answer, plan = found.answer, found.answer.plan
    if isinstance(answer, Histogram | HeavyHitters):
        shown, threshold = bars(answer, found.query), plan.threshold / _rate(found)
        most = max([threshold * 1.15, *(bar.upper for bar in shown)])
        drawn = [(bar, pictures.bar(bar.estimate, bar.lower, bar.upper, threshold, most)) for bar in shown]
        content: dict[str, Any] = {"kind": "bars", "bars": drawn, "threshold": threshold}
        if isinstance(answer, HeavyHitters):
            nodes = _WHOLE_TREE if visit.asked.get("tree") == "whole" else _TREE
            tree = branches(answer.trie, nodes)
            whole = len(answer.trie.without_chains())
            content |= {"kind": "tree", "tree": tree, "hidden": whole - len(tree), "meter": pictures.meter}
        return content
    if isinstance(answer, Quantiles):
        return {"kind": "quantiles", "found": list(answer), "chart": _quantiles_chart(answer)}
    return {"kind": "ranges", **_calculation(visit, answer)}


def _rate(found: Answered) -> float:
    """The part of the devices that the first round sampled, of all that checked in."""
    return float(getattr(found.releases[0], "rate", found.answer.plan.sampling_rate))


def _quantiles_chart(answer: Quantiles) -> Markup:
    marks = [(each.probability, each.value, *each.interval) for each in answer]
    return pictures.distribution(*answer.band(), title=f"Distribution of {answer.column}", marks=marks)


def _calculation(visit: Visit, answer: Any) -> dict[str, Any]:
    """What the calculator shows: the range in the address, or the middle half of the bounds."""
    if not isinstance(answer, Ranges):
        raise InvalidSetting("query", "is not about ranges")
    low, high = answer.hierarchy.lower, answer.hierarchy.upper
    given = visit.asked.get("from", ""), visit.asked.get("to", "")
    content: dict[str, Any] = {"low": low, "high": high, "from_": given[0], "to": given[1], "part": None, "wrong": None}
    chosen = None
    if all(given):
        try:
            start, stop = (asking.as_number(text, name) for text, name in zip(given, ("from", "to"), strict=True))
            content |= {"part": answer.fraction(start, stop), "number": answer.count(start, stop)}
            chosen = start, stop
        except ThresherError as error:
            content["wrong"] = error
    chart = pictures.distribution(*answer.band(), title=f"Distribution of {answer.column}", chosen=chosen)
    return {**content, "chart": chart}


def _verified(visit: Visit, found: Answered) -> dict[str, Any]:
    """What verification found: the delta that p and τ give, recomputed now."""
    with visit.hard_at_work():
        try:
            guarantee = found.answer.verify()
            reached = found.answer.plan.verify()
        except ThresherError as error:
            return {"holds": False, "detail": str(error)}
    return {
        "holds": True,
        "guarantee": guarantee,
        "reached": reached,
        "rounds": len(found.releases),
        "rows": sum(len(release) for release in found.releases),
    }

"""Numbers for the operator, as Prometheus text. No label and no number comes from a value or a token.

Why not prometheus-client: docs/decisions/017-libraries-weighed.md.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import accumulate, groupby
from typing import Literal

SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Upper edges of the group-commit histogram, in items a commit."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_REQUESTS = "thresher_requests_total"

Label = tuple[tuple[str, str], ...]
Reading = Callable[[], float]
Readings = Callable[[], Iterable[tuple[Label, float]]]
Kind = Literal["counter", "gauge"]


class Metrics:
    """Counters, histograms of sizes, and gauges that are read when the page is asked for.

    Guarantee: labels are route templates, methods, statuses and fixed words of this package. The code gives all of
    them, a request none; only the numbers for analysts have ids as labels, those of series and of rules. Numbers for
    analysts and numbers for operators are on no other page.
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self._counters: Counter[tuple[str, Label]] = Counter()
        self._sizes: dict[str, tuple[list[int], list[int]]] = {}
        self._gauges: dict[str, tuple[str, Reading, bool]] = {}
        self._for_analysts: dict[str, tuple[Kind, str, Readings]] = {}
        self._lock = threading.Lock()

    def request(self, method: str, route: str, status: int) -> None:
        """Count one answered request. Only called in the event loop, so it takes no lock."""
        self.requests[method, route, status] += 1

    def count(self, name: str, number: int = 1, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            self._counters[name, tuple(sorted(labels.items()))] += number

    def size(self, kind: str, number: int) -> None:
        """One group commit of `number` items."""
        with self._lock:
            buckets, total = self._sizes.setdefault(kind, ([0] * (len(SIZES) + 1), [0]))
            buckets[bisect_left(SIZES, number)] += 1
            total[0] += number

    def gauge(self, name: str, words: str, reading: Reading, *, operators: bool = False) -> None:
        """A number that is read whenever the metrics are asked for; with `operators`, by an operator only."""
        self._gauges[name] = (words, reading, operators)

    def for_analysts(self, name: str, kind: Kind, words: str, readings: Readings) -> None:
        """Numbers by label that are read whenever an analyst or an operator asks for the metrics."""
        self._for_analysts[name] = (kind, words, readings)

    def text(self, *, analyst: bool = False, operator: bool = False) -> bytes:
        """The page that everybody sees, or the one of an analyst, or the one of an operator, who sees all."""
        with self._lock:
            counters = [
                *((_REQUESTS, (("method", method), ("route", route), ("status", str(status))), number)
                  for (method, route, status), number in sorted(self.requests.items())),
                *((name, labels, number) for (name, labels), number in sorted(self._counters.items())),
            ]  # fmt: skip
            sizes = {kind: (list(buckets), total[0]) for kind, (buckets, total) in sorted(self._sizes.items())}
        lines = [*_counters(counters), *_histograms(sizes)]
        for name, (words, reading, operators) in sorted(self._gauges.items()):
            if operators and not operator:
                continue
            try:
                value = reading()
            except Exception:  # noqa: S112 - a role that is down has no number; the page must not go down with it
                continue
            lines += [*_head(name, "gauge", words), _line(name, (), value)]
        for name, (kind, words, readings) in sorted(self._for_analysts.items()) if analyst or operator else ():
            try:
                found = [_line(name, labels, number) for labels, number in readings()]
            except Exception:  # noqa: S112 - as above
                continue
            lines += [*_head(name, kind, words), *found]
        return ("\n".join(lines) + "\n").encode()


def _counters(counters: list[tuple[str, Label, int]]) -> list[str]:
    lines = []
    for name, group in groupby(counters, key=lambda counter: counter[0]):
        lines += _head(name, "counter", _WORDS[name])
        lines += [_line(*counter) for counter in group]
    return lines


def _histograms(sizes: dict[str, tuple[list[int], int]]) -> list[str]:
    name = "thresher_group_commit_items"
    lines = _head(name, "histogram", "Items that shared one durable commit.") if sizes else []
    for kind, (buckets, total) in sizes.items():
        label = ("kind", kind)
        below = [*accumulate(buckets)]
        for edge, number in zip([*map(str, SIZES), "+Inf"], below, strict=True):
            lines.append(_line(f"{name}_bucket", (label, ("le", edge)), number))
        lines += [_line(f"{name}_sum", (label,), total), _line(f"{name}_count", (label,), below[-1])]
    return lines


def _head(name: str, kind: str, words: str) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]


def _line(name: str, labels: Label, number: float) -> str:
    inside = ",".join(f'{key}="{value}"' for key, value in labels)
    return f"{name}{{{inside}}} {number:.17g}" if inside else f"{name} {number:.17g}"


_WORDS = {
    _REQUESTS: "Requests answered, by route and status.",
    "thresher_reports_total": "Reports handed in, by outcome.",
    "thresher_step_errors_total": "Steps of the coordinator that ended in an error.",
    "thresher_enrolled_total": "Devices enrolled since the start.",
    "thresher_enrolments_refused_total": "Enrolments refused: too many in an hour, with one key or from one address.",
    "thresher_plans_refused_total": "Plans not computed: all processes were busy, or it took too long.",
    "thresher_connections_closed_total": "Connections closed because they met a limit, by limit.",
}

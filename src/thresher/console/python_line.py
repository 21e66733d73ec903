"""From a query to the Python line that asks it again."""

from __future__ import annotations

from typing import Any

from thresher.console.ask_form import planned
from thresher.privacy.plans import Plan
from thresher.protocol.analyst_messages import RoundSettings
from thresher.protocol.rates import SAMPLED_BY
from thresher.questions import Bins, Dates, Joint
from thresher.verbs.queries import HeavyHittersQuery, HistogramQuery, QuantilesQuery, Query

_ROUNDS_TO_REPLAN = 10


def python_line(query: Query, address: str, rounds: RoundSettings | None = None) -> str:
    """The line that asks the same again, from Python. It costs again.

    Of `rounds` it has what the guarantee depends on; how long rounds are open stays the server's choice.
    """
    plan = query.plan
    settings: dict[str, Any] = {"epsilon": plan.epsilon, "delta": plan.delta}
    if not _is_best(plan):
        settings = {"plan": _Written(_plan_line(plan))}
    if isinstance(query, HistogramQuery):
        column, extra = _histogram_settings(query)
        settings |= extra
        positional = [column]
    elif isinstance(query, HeavyHittersQuery):
        positional = [query.column]
        if query.method == "trie":
            settings |= {"method": "trie", "levels": plan.rounds, "step": query.step}
    elif isinstance(query, QuantilesQuery):
        positional = [query.column, list(query.probabilities)]
        settings |= {"lower": query.lower, "upper": query.upper, "method": query.method}
        if query.method == "search":
            settings["steps"] = plan.rounds // len(query.probabilities)
        else:
            settings |= {"levels": plan.rounds, "branching": query.branching}
    else:
        positional = [query.column]
        settings |= {
            "lower": query.lower,
            "upper": query.upper,
            "branching": query.branching,
            "levels": plan.rounds,
        }
    written = [repr(value) for value in positional] + [f"{name}={value!r}" for name, value in settings.items()]
    return f"th.{query.verb}({_fleet_line(address, rounds)}, {', '.join(written)})"


class _Written(str):
    """Python that is already written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _is_best(plan: Plan) -> bool:
    """Whether naming epsilon and delta makes this plan again; not looked into where planning takes long."""
    return plan.rounds <= _ROUNDS_TO_REPLAN and plan == planned(plan.epsilon, plan.delta, plan.rounds)


def _plan_line(plan: Plan) -> str:
    settings: dict[str, Any] = {
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "sampling_rate": plan.sampling_rate,
        "threshold": plan.threshold,
    }
    settings |= {"rounds": plan.rounds} if plan.rounds > 1 else {}
    return f"th.plan({', '.join(f'{name}={value!r}' for name, value in settings.items())})"


def _fleet_line(address: str, rounds: RoundSettings | None) -> str:
    fleet = f"th.Fleet({address!r}, key=token)"
    settings: dict[str, Any] = {}
    if rounds is not None and rounds.contact_rate not in (None, 1.0):
        settings["contact_rate"] = rounds.contact_rate
    if rounds is not None and rounds.sampled_by not in (None, SAMPLED_BY):
        settings["sampled_by"] = rounds.sampled_by
    if not settings:
        return fleet
    return f"{fleet}.with_rounds({', '.join(f'{name}={value!r}' for name, value in settings.items())})"


def _edges(edges: list[float]) -> Any:
    """Bin edges as they are; many even ones as the formula that makes exactly these."""
    low, span, number = edges[0], edges[-1] - edges[0], len(edges) - 1
    if number > 20 and edges == [low + span * i / number for i in range(number + 1)]:
        return _Written(f"[{low!r} + {span!r} * i / {number} for i in range({number + 1})]")
    return edges


def _histogram_settings(query: HistogramQuery) -> tuple[Any, dict[str, Any]]:
    parts = query.question.parts if isinstance(query.question, Joint) else (query.question,)
    columns = query.question.columns
    bins = {part.column: list(part.edges) for part in parts if isinstance(part, Bins)}
    dates = {part.column: part.every for part in parts if isinstance(part, Dates)}
    settings: dict[str, Any] = {}
    if len(columns) == 1:
        settings |= {"bins": _edges(next(iter(bins.values())))} if bins else {}
        settings |= {"dates": next(iter(dates.values()))} if dates else {}
    else:
        settings |= {"bins": bins} if bins else {}
        settings |= {"dates": dates} if dates else {}
    if query.domain is not None:
        settings["domain"] = list(query.domain)
    return (columns[0] if len(columns) == 1 else list(columns)), settings

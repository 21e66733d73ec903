"""From a query or a series to the Python line that asks it again."""

from __future__ import annotations

from typing import Any

from thresher.console.ask_form import planned
from thresher.console.series_form import planned_series
from thresher.errors import ThresherError
from thresher.privacy.plans import Plan
from thresher.protocol.analyst_messages import RoundSettings
from thresher.protocol.rates import SAMPLED_BY, share
from thresher.protocol.series_messages import SeriesStatus
from thresher.roles.computing import Compute, here
from thresher.verbs.asking import function_of
from thresher.verbs.query import Query
from thresher.verbs.settings import settings_of

_ROUNDS_TO_REPLAN, _ROUNDS_OF_SERIES_TO_REPLAN = 10, 400


def python_line(query: Query, address: str, rounds: RoundSettings | None = None) -> str:
    """The line that asks the same again, from Python. It costs again.

    Of `rounds` it has what the guarantee depends on; how long rounds are open stays the server's choice.
    """
    plan = query.plan
    target: dict[str, Any] = {"epsilon": plan.epsilon, "delta": plan.delta}
    if not _is_best(plan):
        target = {"plan": _Written(_plan_line(plan))}
    return f"th.{query.verb}({_fleet_line(address, rounds)}, {_arguments(query, target)})"


def series_line(query: Query, series: SeriesStatus, address: str, compute: Compute = here) -> str:
    """The line that asks for the same series again, from now on. It costs again. `compute` makes its plan."""
    total, schedule = series.total.analyst, series.schedule
    target: dict[str, Any] = {"every": schedule.every, "releases": schedule.releases}
    if schedule.time_zone != "UTC":
        target["time_zone"] = schedule.time_zone
    if schedule.missed != "skip":
        target["missed"] = schedule.missed
    if _is_best_of_series(query.plan, series, compute):
        target |= {"epsilon": total.epsilon, "delta": total.delta}
    else:
        target |= {"plan": _Written(_plan_line(query.plan)), "delta": total.delta}
    return f"{_fleet_line(address, series.settings)}.series({query.verb!r}, {_arguments(query, target)})"


def following_line(series: str, address: str) -> str:
    """The line that reads a series over time. It costs nothing."""
    return f"{_fleet_line(address, None)}.series_by_id({series!r}).to_pandas()"


def _arguments(query: Query, target: dict[str, Any]) -> str:
    """The settings of a verb as Python writes them, and what else is asked for."""
    described, settings = settings_of(function_of(query.verb)), query.arguments()
    positional = [name for name in settings if described[name].positional]
    named = {name: value for name, value in settings.items() if name not in positional and value is not None}
    if isinstance(named.get("bins"), list):
        named["bins"] = _edges(named["bins"])
    written = [repr(settings[name]) for name in positional]
    return ", ".join(written + [f"{name}={value!r}" for name, value in (target | named).items()])


class _Written(str):
    """Python that is already written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _is_best(plan: Plan) -> bool:
    """Whether naming epsilon and delta makes this plan again; not looked into where planning takes long."""
    if plan.rounds * plan.contributions > _ROUNDS_TO_REPLAN:
        return False
    return plan == planned(plan.epsilon, plan.delta, plan.rounds, plan.contributions)


def _is_best_of_series(plan: Plan, series: SeriesStatus, compute: Compute) -> bool:
    """Whether naming the total of all releases makes this plan of one again, as the server shares its rate out."""
    total, releases = series.total.analyst, series.schedule.releases
    if releases * plan.rounds > _ROUNDS_OF_SERIES_TO_REPLAN:
        return False
    try:
        best = planned_series(total.epsilon, total.delta, releases, plan.rounds, plan.contributions, compute).release
        rounds = series.settings
        return share(best, rounds.contact_rate or 1.0, rounds.sampled_by or SAMPLED_BY)[1] == plan
    except ThresherError:
        return False


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

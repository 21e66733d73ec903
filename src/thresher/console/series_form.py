"""From the fields of the ask form to a series: a query, its schedule, and one plan for all releases together."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from thresher.clock import Clock
from thresher.console import ask_form as asking
from thresher.console.schedule_form import to_schedule
from thresher.privacy.plans import Plan
from thresher.privacy.series import SeriesPlan, plan_series
from thresher.protocol.series_messages import SeriesRequest
from thresher.roles.computing import Compute, here


def to_series(fields: Mapping[str, str], clock: Clock, compute: Compute = here) -> SeriesRequest:
    """The request that these fields make. `InvalidSetting` names what is wrong. `compute` makes the plan.

    Guarantee: epsilon and delta are those of all releases together.
    """
    schedule = to_schedule(fields, clock)
    made: dict[Plan, SeriesPlan] = {}

    def planner(epsilon: float, delta: float, *, rounds: int, contributions: int, adjacency: str) -> Plan:
        found = planned_series(epsilon, delta, schedule.releases, rounds, contributions, compute)
        made[found.release] = found
        return found.release

    query = asking.to_query(fields, planner)
    total = made[query.plan].total
    return SeriesRequest(
        name=fields["name"] or asking.new_name(),
        query=query.to_dict(),
        epsilon=total.epsilon,
        delta=total.delta,
        schedule=schedule,
        settings=asking.to_settings(fields, query),
    )


@functools.lru_cache(maxsize=1024)
def planned_series(
    epsilon: float, delta: float, releases: int, rounds: int, contributions: int = 1, compute: Compute = here
) -> SeriesPlan:
    """The plan of a series; it takes a second or more, and sliders pass over the same targets again and again."""
    plan: SeriesPlan = compute(
        functools.partial(plan_series, epsilon, delta, releases=releases, rounds=rounds, contributions=contributions)
    )
    return plan


def series_agreement(fields: Mapping[str, str], request: SeriesRequest) -> str:
    """Says which settings a series was shown for, the number of releases included.

    A last date can leave another number of releases a minute later, and with it another plan.
    """
    return asking.agreement({**fields, "releases": str(request.schedule.releases)})

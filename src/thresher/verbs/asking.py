"""The four verbs, on whatever holds the data: a table becomes a population, targets become a plan, a ledger is charged.

`data` is a data frame of any kind that narwhals knows, a path or glob, an array or a list (see `thresher.tables`),
a `Population`, or a fleet, to which the whole query is submitted; both are recognised by type. Without
`unit=`, each row is a unit. On a fleet, `wait=False` returns a handle at once in place of the answer.

The ledger, if there is one, says before the data is opened whether the query's cost fits. Nothing is drawn before the
request has been checked and the ledger has been charged durably for all rounds of the query. A request that is refused
costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from typing import Any

from thresher.errors import InvalidSetting
from thresher.ledger import Ledger, charge_plan
from thresher.privacy import Adjacency, Plan
from thresher.privacy import plan as make_plan
from thresher.privacy.settings import check_count, check_rounds
from thresher.privacy.units import Unit
from thresher.questions import MOST_BINS, Bins, Dates, Every, Joint, Values
from thresher.questions.population import Population, Progress, QueryTaker, unit_of
from thresher.tables import Table
from thresher.tables.time_zones import UTC
from thresher.verbs.charged import Charged
from thresher.verbs.heavy_hitters import HeavyHitters
from thresher.verbs.heavy_hitters import Method as HeavyHittersMethod
from thresher.verbs.histogram import Histogram
from thresher.verbs.quantile import check_bounds
from thresher.verbs.quantiles import Method as QuantilesMethod
from thresher.verbs.quantiles import Quantiles
from thresher.verbs.queries import HeavyHittersQuery, HistogramQuery, QuantilesQuery, Query, RangesQuery
from thresher.verbs.ranges import Ranges

LEVELS = 10
STEPS = 10
HIERARCHY_LEVELS = 6
BRANCHING = 4


def histogram(
    data: Any,
    column: str | Sequence[str],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    plan: Plan | None = None,
    unit: str | None = None,
    types: Mapping[str, str] | None = None,
    adjacency: Adjacency = "replace",
    bins: Sequence[float] | int | Mapping[str, Sequence[float]] | None = None,
    bin_width: float | None = None,
    lower: float | None = None,
    upper: float | None = None,
    dates: Every | Mapping[str, Every] | None = None,
    time_zone: str | None = None,
    domain: Iterable[Any] | None = None,
    ledger: Ledger | None = None,
    progress: Progress | None = None,
    wait: bool = True,
) -> Histogram:
    """How many units are counted under each value of a column, or of several columns together.

    Without `unit=`, each row is a unit. With it, a unit counts for one of its values, chosen at random: an estimate is
    how many units are counted under a value, which is less than how many hold it where units hold several.
    `types` declares what text says, as `{"age": "whole numbers"}`: columns of CSV and JSON lines, lists and Python
    objects are text otherwise, whatever their rows hold (see `look`).
    `bins` are the edges of half-open intervals, or how many equal ones between the public `lower` and `upper`
    (`bin_width` gives their width instead); `dates` cuts dates to "day", "week" or "month". With several columns, give
    mappings from a column to its edges or cut. `domain` is a public list of buckets to show even if not released.
    Times with a zone are counted on the wall clock of `time_zone`, by default UTC, whatever zone their column or
    session has; times without one as they stand.

    Guarantee: (epsilon, delta)-differential privacy for one unit, one round; or the given plan's.
    """
    question = histogram_question(column, bins, bin_width, lower, upper, dates)
    chosen = _plan(plan, epsilon, delta, adjacency, 1)
    query = HistogramQuery(question, chosen, _listed(domain))
    answer: Histogram = _answer(query, data, unit, types, ledger, progress, wait, time_zone)
    return answer


def heavy_hitters(
    data: Any,
    column: str,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    plan: Plan | None = None,
    unit: str | None = None,
    types: Mapping[str, str] | None = None,
    adjacency: Adjacency = "replace",
    method: HeavyHittersMethod = "one-shot",
    levels: int | None = None,
    step: int = 1,
    ledger: Ledger | None = None,
    progress: Progress | None = None,
    wait: bool = True,
) -> HeavyHitters:
    """The common values of a text column, by how many units are counted under each.

    Without `unit=`, each row is a unit. With it, a unit counts for one of its values, chosen at random.
    "one-shot" finds the most. "trie" (TrieHH++) asks level by level, `levels` of `step` characters each, so that an
    aggregator only ever sees extensions of what is popular.

    Guarantee: the total over all levels is (epsilon, delta); it is charged whole, also if levels stop early.
    """
    rounds = 1 if method == "one-shot" else check_rounds(_rounds(plan, levels, LEVELS, "levels"), setting="levels")
    chosen = _plan(plan, epsilon, delta, adjacency, rounds)
    query = HeavyHittersQuery(column, chosen, method, step)
    answer: HeavyHitters = _answer(query, data, unit, types, ledger, progress, wait)
    return answer


def quantiles(
    data: Any,
    column: str,
    probabilities: float | Sequence[float],
    *,
    lower: float,
    upper: float,
    epsilon: float | None = None,
    delta: float | None = None,
    plan: Plan | None = None,
    unit: str | None = None,
    types: Mapping[str, str] | None = None,
    adjacency: Adjacency = "replace",
    method: QuantilesMethod = "search",
    steps: int | None = None,
    levels: int | None = None,
    branching: int = BRANCHING,
    ledger: Ledger | None = None,
    progress: Progress | None = None,
    wait: bool = True,
) -> Quantiles:
    """Quantiles: for each probability q, the value that a fraction q of all units lies below, between public bounds.

    Without `unit=`, each row is a unit. With it, a unit counts for one of its values, chosen at random. Text of a file
    or of Python objects is read value by value; what is not a number is no value.
    "search" takes `steps` rounds of binary search for each quantile; "hierarchy" takes `levels` rounds for any number
    of them. Numbers outside the bounds count as at the nearest one.

    Guarantee: the total over all rounds is (epsilon, delta).
    """
    wanted = list(probabilities) if isinstance(probabilities, Iterable) else [probabilities]
    if method == "search":
        needed = check_rounds(_rounds(None, steps, STEPS, "steps"), setting="steps") * max(1, len(wanted))
    else:
        needed = check_rounds(_rounds(None, levels, HIERARCHY_LEVELS, "levels"), setting="levels")
    chosen = _plan(plan, epsilon, delta, adjacency, needed)
    query = QuantilesQuery(column, tuple(wanted), chosen, lower, upper, method, branching)
    answer: Quantiles = _answer(query, data, unit, types, ledger, progress, wait)
    return answer


def ranges(
    data: Any,
    column: str,
    *,
    lower: float,
    upper: float,
    epsilon: float | None = None,
    delta: float | None = None,
    plan: Plan | None = None,
    unit: str | None = None,
    types: Mapping[str, str] | None = None,
    adjacency: Adjacency = "replace",
    branching: int = BRANCHING,
    levels: int | None = None,
    ledger: Ledger | None = None,
    progress: Progress | None = None,
    wait: bool = True,
) -> Ranges:
    """How many units lie in any range between public bounds: ask once, then `count(lo, hi)`, `quantile(q)`, `cdf(x)`.

    Without `unit=`, each row is a unit. With it, a unit counts for one of its values, chosen at random. Text of a file
    or of Python objects is read value by value; what is not a number is no value. `levels` rounds of cells, `branching`
    times finer each.

    Guarantee: the total over all levels is (epsilon, delta); what is read off afterwards costs nothing more.
    """
    rounds = check_rounds(_rounds(plan, levels, HIERARCHY_LEVELS, "levels"), setting="levels")
    chosen = _plan(plan, epsilon, delta, adjacency, rounds)
    query = RangesQuery(column, chosen, lower, upper, branching)
    answer: Ranges = _answer(query, data, unit, types, ledger, progress, wait)
    return answer


def histogram_question(
    column: str | Sequence[str],
    bins: Sequence[float] | int | Mapping[str, Sequence[float]] | None = None,
    bin_width: float | None = None,
    lower: float | None = None,
    upper: float | None = None,
    dates: Every | Mapping[str, Every] | None = None,
) -> Values | Bins | Dates | Joint:
    """The question of a histogram from the verb's settings."""
    columns = Values(_names(column)).columns
    for setting, given in (("bins", bins), ("bin_width", bin_width), ("dates", dates)):
        if len(columns) > 1 and not isinstance(given, Mapping | None):
            raise InvalidSetting(
                setting,
                "must say which of the columns it is for",
                hint="Give a mapping, for example bins={'age': [0, 18, 65, 130]}.",
            )
    edges = bins if isinstance(bins, Mapping) else {columns[0]: _edges(bins, bin_width, lower, upper)}
    cuts = dates if isinstance(dates, Mapping) else {columns[0]: dates}
    named: dict[str, Mapping[str, Any]] = {"bins": edges, "dates": cuts}
    for setting, mapping in named.items():
        if unknown := set(mapping) - set(columns):
            raise InvalidSetting(setting, f"names a column that is not asked for: {', '.join(sorted(unknown))}")
    parts = tuple(_part(name, edges.get(name), cuts.get(name)) for name in columns)
    if all(isinstance(part, Values) for part in parts):
        return Values(columns)
    return parts[0] if len(parts) == 1 else Joint(parts)


def _names(column: Any) -> tuple[Any, ...]:
    """One name or several, as they are; the question checks them."""
    return tuple(column) if isinstance(column, Iterable) and not isinstance(column, str) else (column,)


def _part(column: str, edges: Sequence[float] | None, cut: Every | None) -> Values | Bins | Dates:
    if edges is not None and cut is not None:
        raise InvalidSetting("bins", "and dates cannot both be given for one column")
    if edges is not None:
        return Bins(column, tuple(edges))
    return Dates(column, cut) if cut is not None else Values((column,))


def _edges(
    bins: Sequence[float] | int | None, width: Any, lower: float | None, upper: float | None
) -> Sequence[float] | None:
    """Edges from edges, a number of bins, or a width."""
    if bins is None and width is None:
        if lower is not None or upper is not None:
            raise InvalidSetting("lower", "and upper need bins or bin_width", hint="For example bins=20.")
        return None
    if bins is not None and width is not None:
        raise InvalidSetting("bin_width", "and bins cannot both be given")
    if isinstance(bins, Iterable):
        return tuple(bins)
    if lower is None or upper is None:
        raise InvalidSetting("lower", "and upper are missing", hint="They are public: choose them without the data.")
    low, high = check_bounds(lower, upper)
    if bins is not None:
        number = check_count(bins, setting="bins", example=20)
        if not 1 <= number <= MOST_BINS:
            raise InvalidSetting("bins", f"must be from 1 to {MOST_BINS:,}")
        return tuple(low + (high - low) * index / number for index in range(number + 1))
    if isinstance(width, bool) or not isinstance(width, Real):
        raise InvalidSetting("bin_width", f"must be a number, not {type(width).__name__}")
    size = float(width)
    if not 0 < size < math.inf or (high - low) / size > MOST_BINS:
        raise InvalidSetting("bin_width", f"must be above 0 and give at most {MOST_BINS:,} bins")
    number = math.ceil((high - low) / size - 1e-9)
    return (*(low + size * index for index in range(number)), max(high, low + size * number))


def _rounds(plan: Plan | None, given: int | None, default: int, setting: str) -> int:
    if plan is not None:
        _check_plan(plan)
        if given is not None and given != plan.rounds:
            raise InvalidSetting(setting, f"is {given}, and the plan has {plan.rounds} rounds", hint="Leave it out.")
        return plan.rounds
    return default if given is None else given


def _plan(plan: Plan | None, epsilon: float | None, delta: float | None, adjacency: Adjacency, rounds: int) -> Plan:
    if plan is None:
        return make_plan(epsilon, delta, rounds=rounds, adjacency=adjacency)
    _check_plan(plan)
    if epsilon is not None or delta is not None:
        raise InvalidSetting("plan", "and epsilon or delta cannot both be given", hint="A plan states its own.")
    plan.verify()
    return plan


def _check_plan(plan: Any) -> None:
    if not isinstance(plan, Plan):
        raise InvalidSetting("plan", f"must be a plan, not {type(plan).__name__}", hint="Make one with thresher.plan.")


def _listed(domain: Iterable[Any] | None) -> Any:
    """The domain once and for all; a single text is left for the histogram's own check to refuse."""
    if domain is None or isinstance(domain, str):
        return domain
    if not isinstance(domain, Iterable):
        raise InvalidSetting("domain", f"must be a list of buckets, not {type(domain).__name__}")
    return tuple(domain)


def _answer(
    query: Query,
    data: Any,
    unit: str | None,
    types: Mapping[str, str] | None,
    ledger: Ledger | None,
    progress: Progress | None,
    wait: bool,
    time_zone: str | None = None,
) -> Any:
    """Submit the query to a fleet, or run it here on whatever holds the data."""
    if isinstance(data, QueryTaker):
        for setting, given in (("unit", unit), ("types", types), ("ledger", ledger), ("time_zone", time_zone)):
            if given is not None:
                raise InvalidSetting(setting, "is for tables; a fleet keeps its own", hint="Leave it out.")
        return data.submit(query, wait=wait, progress=progress)
    if not wait:
        raise InvalidSetting("wait", "is for fleets; a table answers at once", hint="Leave it out.")
    with _population(data, unit, types, query, ledger, progress, time_zone) as population:
        if isinstance(population, Table):
            population.check(query.first_question)
            if isinstance(query, HistogramQuery) and isinstance(query.domain, tuple):
                query = replace(query, domain=population.read_domain(query.question, query.domain))
        return query.run(population, progress)


@contextmanager
def _population(
    data: Any,
    unit: str | None,
    types: Mapping[str, str] | None,
    query: Query,
    ledger: Ledger | None,
    progress: Progress | None,
    time_zone: str | None,
) -> Iterator[Population]:
    """The data as a population whose first draw is preceded by the ledger's charge.

    The ledger says first, before the data is opened, whether the charge fits: whether a query fails for its cost must
    not depend on what the data holds.

    A table that is opened here is closed again, whatever happens; one that the caller opened stays open.
    """
    if ledger is not None and not isinstance(ledger, Ledger):
        raise InvalidSetting(
            "ledger", f"must be a ledger, not {type(ledger).__name__}", hint="Open it: thresher.Ledger('privacy.db')."
        )

    whose = unit_of(data) if isinstance(data, Population) else Unit.of_table(unit)

    def charge() -> None:
        if ledger is not None:
            charge_plan(ledger, query.plan, query.describe(), whose)

    if ledger is not None:
        ledger.check(query.plan, whose)
    if isinstance(data, Population):
        if unit is not None:
            raise InvalidSetting("unit", "is for tables; here every member is a unit already", hint="Leave it out.")
        for setting, given in (("types", types), ("time_zone", time_zone)):
            if given is not None:
                raise InvalidSetting(setting, "is for data that is opened here", hint="Give it to the table itself.")
        yield data.charged(charge) if isinstance(data, Table) else Charged(data, charge)
        return
    zone = UTC if time_zone is None else time_zone
    with Table(data, unit, types=types, time_zone=zone, before_draw=charge, progress=progress) as table:
        yield table

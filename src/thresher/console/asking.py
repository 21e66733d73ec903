"""From the fields of the ask form to a query, and from a query to the Python line that asks it again."""

from __future__ import annotations

import functools
import itertools
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

from thresher.analytics.queries import (
    HeavyHittersQuery,
    HistogramQuery,
    QuantilesQuery,
    Query,
    RangesQuery,
)
from thresher.errors import InvalidSetting
from thresher.fleet.messages import QueryRequest, RoundSettings
from thresher.fleet.rates import SampledBy
from thresher.privacy import plan as make_plan
from thresher.privacy.plans import Plan
from thresher.questions import Bins, Dates, Every, Joint, Values

DEFAULTS: dict[str, str] = {
    "verb": "histogram",
    "attribute": "",
    "buckets": "values",
    "bins_lower": "0",
    "bins_upper": "100",
    "bins_number": "10",
    "every": "week",
    "domain": "",
    "hitters_method": "one-shot",
    "hitters_levels": "10",
    "hitters_step": "1",
    "probabilities": "0.25, 0.5, 0.75, 0.95",
    "quantiles_lower": "0",
    "quantiles_upper": "1000",
    "quantiles_method": "hierarchy",
    "quantiles_steps": "10",
    "quantiles_levels": "6",
    "ranges_lower": "0",
    "ranges_upper": "1000",
    "ranges_levels": "6",
    "ranges_branching": "4",
    "epsilon": "1",
    "delta": "1e-8",
    "contact": "100",
    "sampled_by": "device",
    "minutes": "",
    "completions": "",
    "bucket_size": "",
    "name": "",
}
_MOST_BINS = 10_000
_MOST_SESSIONS = 1000


class Planning:
    """Plans are made one at a time, and of those that a session waits for only the latest."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self._numbers = itertools.count(1)
        self._latest: OrderedDict[str, int] = OrderedDict()

    def draw(self, session: str) -> int:
        """A number; a later one of the same session takes its place."""
        number = next(self._numbers)
        self._latest[session] = number
        self._latest.move_to_end(session)
        while len(self._latest) > _MOST_SESSIONS:
            self._latest.popitem(last=False)
        return number

    def is_latest(self, session: str, number: int) -> bool:
        """Whether the session still waits for this one."""
        return self._latest.get(session) == number


def filled(given: Mapping[str, str]) -> dict[str, str]:
    """Every field of the form: what was given, and the defaults for the rest."""
    return {name: given.get(name, default).strip() for name, default in DEFAULTS.items()}


def new_name() -> str:
    """A name for a query that is being thought about: sending its form twice asks once."""
    return f"console-{secrets.token_hex(6)}"


def to_request(fields: Mapping[str, str]) -> QueryRequest:
    """The request that these fields make. `InvalidSetting` names the field that is wrong.

    Guarantee: plans for the total epsilon and delta over all rounds, against replacing one value.
    """
    name = fields["name"] or new_name()
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}", name):
        raise InvalidSetting("name", "must be letters, digits and . _ : - only, at most 100")
    return QueryRequest(name=name, query=to_query(fields).to_dict(), settings=_settings(fields))


def to_query(fields: Mapping[str, str]) -> Query:
    """The query with its plan."""
    verb = fields["verb"]
    makers = {"histogram": _histogram, "heavy_hitters": _heavy_hitters, "quantiles": _quantiles, "ranges": _ranges}
    if verb not in makers:
        raise InvalidSetting("verb", "must be histogram, heavy hitters, quantiles or ranges")
    if not fields["attribute"]:
        raise InvalidSetting("attribute", "is missing", hint="Name what devices should answer about.")
    if len(fields["attribute"]) > 200:
        raise InvalidSetting("attribute", "must have at most 200 characters")
    query = makers[verb](fields)
    _ = query.first_question  # what cannot be asked is refused here, before it is shown as a plan
    return query


def _histogram(fields: Mapping[str, str]) -> Query:
    columns = tuple(part.strip() for part in fields["attribute"].split(",") if part.strip())
    kind = _choice(fields, "buckets", ("values", "bins", "dates"))
    question: Values | Bins | Dates = Values(columns)
    if kind != "values" and len(columns) > 1:
        raise InvalidSetting("attribute", "must be one for bins and dates", hint="Several are counted as whole values.")
    if kind == "bins":
        low, high = _number(fields, "bins_lower", "from"), _number(fields, "bins_upper", "to")
        number = whole(fields, "bins_number", "number of bins")
        if not 1 <= number <= _MOST_BINS:
            raise InvalidSetting("number of bins", f"must be from 1 to {_MOST_BINS:,}")
        question = Bins(columns[0], tuple(low + (high - low) * index / number for index in range(number + 1)))
    if kind == "dates":
        question = Dates(columns[0], cast(Every, _choice(fields, "every", get_args(Every))))
    domain = None
    if fields["domain"] and kind == "values" and len(columns) == 1:
        domain = tuple(dict.fromkeys(line.strip() for line in fields["domain"].splitlines() if line.strip()))
    return HistogramQuery(question, _plan(fields, 1), domain)


def _heavy_hitters(fields: Mapping[str, str]) -> Query:
    method = cast(Literal["one-shot", "trie"], _choice(fields, "hitters_method", ("one-shot", "trie")))
    if method == "one-shot":
        return HeavyHittersQuery(fields["attribute"], _plan(fields, 1))
    levels, step = whole(fields, "hitters_levels", "levels"), whole(fields, "hitters_step", "characters a level")
    return HeavyHittersQuery(fields["attribute"], _plan(fields, levels), method, step)


def _quantiles(fields: Mapping[str, str]) -> Query:
    method = cast(Literal["search", "hierarchy"], _choice(fields, "quantiles_method", ("search", "hierarchy")))
    wanted = tuple(as_number(part, "quantiles") for part in re.split(r"[,;\s]+", fields["probabilities"]) if part)
    if not 1 <= len(wanted) <= 50:
        raise InvalidSetting("quantiles", "must be from 1 to 50 numbers between 0 and 1", hint="For example 0.5, 0.95.")
    rounds = (
        whole(fields, "quantiles_steps", "steps") * len(wanted)
        if method == "search"
        else whole(fields, "quantiles_levels", "levels")
    )
    low, high = _number(fields, "quantiles_lower", "from"), _number(fields, "quantiles_upper", "to")
    return QuantilesQuery(fields["attribute"], wanted, _plan(fields, rounds), low, high, method)


def _ranges(fields: Mapping[str, str]) -> Query:
    low, high = _number(fields, "ranges_lower", "from"), _number(fields, "ranges_upper", "to")
    levels, branching = whole(fields, "ranges_levels", "levels"), whole(fields, "ranges_branching", "branching")
    return RangesQuery(fields["attribute"], _plan(fields, levels), low, high, branching)


def _settings(fields: Mapping[str, str]) -> RoundSettings:
    contact = _number(fields, "contact", "devices contacted") / 100
    if not 0 < contact <= 1:
        raise InvalidSetting("devices contacted", "must be above 0 % and at most 100 %")
    minutes = _number(fields, "minutes", "minutes") if fields["minutes"] else None
    completions = whole(fields, "completions", "enough answers") if fields["completions"] else None
    size = whole(fields, "bucket_size", "longest answer") if fields["bucket_size"] else None
    for setting, value, least, most in (
        ("minutes", minutes, 1 / 60, 366 * 1440),
        ("enough answers", completions, 1, 1 << 40),
        ("longest answer", size, 32, 4096),
    ):
        if value is not None and not least <= value <= most:
            raise InvalidSetting(setting, f"must be from {least:.3g} to {most:,}")
    return RoundSettings(
        contact_rate=None if contact == 1 else contact,
        sampled_by=cast(SampledBy, _choice(fields, "sampled_by", get_args(SampledBy))),
        bucket_size=size,
        seconds=None if minutes is None else 60 * minutes,
        completions=completions,
    )


def _plan(fields: Mapping[str, str], rounds: int) -> Plan:
    if not 1 <= rounds <= 500:
        raise InvalidSetting("rounds", "must be from 1 to 500 in all")
    return _planned(_number(fields, "epsilon", "epsilon"), _number(fields, "delta", "delta"), rounds)


@functools.lru_cache(maxsize=4096)
def _planned(epsilon: float, delta: float, rounds: int) -> Plan:
    """Sliders pass over the same targets again and again; a plan takes a fifth of a second."""
    return make_plan(epsilon, delta, rounds=rounds)


def _choice(fields: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    if fields[name] not in choices:
        raise InvalidSetting(name, f"must be one of {', '.join(choices)}")
    return fields[name]


def _number(fields: Mapping[str, str], name: str, setting: str) -> float:
    return as_number(fields[name], setting)


def as_number(text: str, setting: str) -> float:
    """A finite number from a field; `setting` is what an error calls it."""
    try:
        number = float(text)
    except ValueError:
        raise InvalidSetting(setting, "must be a number") from None
    if not -1e300 < number < 1e300:
        raise InvalidSetting(setting, "must be a finite number")
    return number


def whole(fields: Mapping[str, str], name: str, setting: str) -> int:
    """A whole number from a field."""
    number = _number(fields, name, setting)
    if number != int(number):
        raise InvalidSetting(setting, "must be a whole number")
    return int(number)


def python_line(query: Query, address: str) -> str:
    """The line that asks the same again, from Python. It costs again."""
    plan = query.plan
    settings: dict[str, Any] = {"epsilon": plan.epsilon, "delta": plan.delta}
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
    return f"th.{query.verb}(th.Fleet({address!r}, key=token), {', '.join(written)})"


def _histogram_settings(query: HistogramQuery) -> tuple[Any, dict[str, Any]]:
    parts = query.question.parts if isinstance(query.question, Joint) else (query.question,)
    columns = query.question.columns
    bins = {part.column: list(part.edges) for part in parts if isinstance(part, Bins)}
    dates = {part.column: part.every for part in parts if isinstance(part, Dates)}
    settings: dict[str, Any] = {}
    if len(columns) == 1:
        settings |= {"bins": next(iter(bins.values()))} if bins else {}
        settings |= {"dates": next(iter(dates.values()))} if dates else {}
    else:
        settings |= {"bins": bins} if bins else {}
        settings |= {"dates": dates} if dates else {}
    if query.domain is not None:
        settings["domain"] = list(query.domain)
    return (columns[0] if len(columns) == 1 else list(columns)), settings

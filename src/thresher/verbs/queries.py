"""The four verbs as frozen values: what is asked, with its plan, before anybody is asked.

A query can be checked, described, sent to a fleet's coordinator and run on any population. Its answer is a
deterministic function of its rounds' releases: run again on the same releases, it asks the same questions and gives the
same answer.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, NoReturn, TypeAlias

from thresher import questions
from thresher.errors import InvalidFormat, InvalidSetting, ThresherError
from thresher.privacy.plans import Plan
from thresher.questions import Bins, Dates, Joint, Question, Values
from thresher.questions.population import Population, Progress
from thresher.verbs.heavy_hitters import HeavyHitters, heavy_hitters
from thresher.verbs.heavy_hitters import Method as HeavyHittersMethod
from thresher.verbs.histogram import Histogram, histogram
from thresher.verbs.quantiles import Method as QuantilesMethod
from thresher.verbs.quantiles import Quantiles, quantiles
from thresher.verbs.ranges import Ranges, ranges

Verb = Literal["histogram", "heavy_hitters", "quantiles", "ranges"]


@dataclass(frozen=True, slots=True)
class _Query:
    """What every query has."""

    verb: ClassVar[Verb]

    def run(self, population: Population, progress: Progress | None = None) -> Any:
        """Ask round by round, and put the answer together."""
        raise NotImplementedError

    @property
    def first_question(self) -> Question:
        """What the first round asks.

        Guarantee: all settings have been checked; what is wrong with them raises as it would when run.
        """
        try:
            self.run(_Probe())
        except _Asked as asked:
            return asked.question
        raise InvalidSetting("query", "asks nothing with these settings")

    def describe(self) -> str:
        """Verb, columns and method in a few words: for a ledger, a list, a title."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` and any JSON library read back exactly."""
        content: dict[str, Any] = {"verb": self.verb}
        for field in fields(self):
            content[field.name] = _plain(getattr(self, field.name))
        return content


@dataclass(frozen=True, slots=True)
class HistogramQuery(_Query):
    """How many units hold each bucket; see `analytics.histogram`."""

    question: Values | Bins | Dates | Joint
    plan: Plan
    domain: tuple[Any, ...] | None = None
    verb: ClassVar[Verb] = "histogram"

    def __post_init__(self) -> None:
        if not isinstance(self.question, Values | Bins | Dates | Joint):
            raise InvalidSetting("question", "must ask for values, bins, dates or several of them")
        if self.domain is not None and not isinstance(self.domain, str):
            object.__setattr__(self, "domain", tuple(self.domain))

    def run(self, population: Population, progress: Progress | None = None) -> Histogram:
        """Ask once."""
        return histogram(population, self.question, self.plan, domain=self.domain, progress=progress)

    def describe(self) -> str:
        """For example "histogram of country"."""
        return f"histogram of {', '.join(self.question.columns)}"


@dataclass(frozen=True, slots=True)
class HeavyHittersQuery(_Query):
    """The common values of a column; see `analytics.heavy_hitters`."""

    column: str
    plan: Plan
    method: HeavyHittersMethod = "one-shot"
    step: int = 1
    verb: ClassVar[Verb] = "heavy_hitters"

    def run(self, population: Population, progress: Progress | None = None) -> HeavyHitters:
        """Ask once, or level by level."""
        return heavy_hitters(population, self.column, self.plan, method=self.method, step=self.step, progress=progress)

    def describe(self) -> str:
        """For example "heavy_hitters of word, trie"."""
        return f"heavy_hitters of {self.column}, {self.method}"


@dataclass(frozen=True, slots=True)
class QuantilesQuery(_Query):
    """The numbers that given parts of all units are below; see `analytics.quantiles`."""

    column: str
    probabilities: tuple[float, ...]
    plan: Plan
    lower: float
    upper: float
    method: QuantilesMethod = "search"
    branching: int = 4
    verb: ClassVar[Verb] = "quantiles"

    def __post_init__(self) -> None:
        object.__setattr__(self, "probabilities", tuple(self.probabilities))

    def run(self, population: Population, progress: Progress | None = None) -> Quantiles:
        """Ask split by split, or level by level."""
        return quantiles(
            population,
            self.column,
            self.probabilities,
            self.plan,
            lower=self.lower,
            upper=self.upper,
            method=self.method,
            branching=self.branching,
            progress=progress,
        )

    def describe(self) -> str:
        """For example "quantiles of latency, search"."""
        return f"quantiles of {self.column}, {self.method}"


@dataclass(frozen=True, slots=True)
class RangesQuery(_Query):
    """How many units lie in any range; see `analytics.ranges`."""

    column: str
    plan: Plan
    lower: float
    upper: float
    branching: int = 4
    verb: ClassVar[Verb] = "ranges"

    def run(self, population: Population, progress: Progress | None = None) -> Ranges:
        """Ask level by level."""
        return ranges(
            population,
            self.column,
            self.plan,
            lower=self.lower,
            upper=self.upper,
            branching=self.branching,
            progress=progress,
        )

    def describe(self) -> str:
        """For example "ranges of age"."""
        return f"ranges of {self.column}"


Query: TypeAlias = HistogramQuery | HeavyHittersQuery | QuantilesQuery | RangesQuery
QUERIES: dict[str, type[Query]] = {
    kind.verb: kind for kind in (HistogramQuery, HeavyHittersQuery, QuantilesQuery, RangesQuery)
}


def with_plan(query: Query, plan: Plan) -> Query:
    """The same query with another plan."""
    return replace(query, plan=plan)


def query_from_dict(content: Mapping[str, Any]) -> Query:
    """Read what `to_dict` wrote, and check every setting.

    Guarantee: what is returned asks a first question without an error. Anything unknown, missing, of the wrong kind or
    out of range raises `InvalidFormat` or `InvalidSetting`; neither quotes a value of the domain.
    """
    kind = QUERIES.get(str(content.get("verb")))
    if kind is None:
        raise InvalidFormat("This is not a query that this Thresher knows.", hint="Upgrade Thresher.")
    settings = {name: value for name, value in content.items() if name != "verb"}
    if set(settings) != {field.name for field in fields(kind)}:
        raise InvalidFormat("This query has missing or unknown fields.")
    try:
        for name, value in settings.items():
            settings[name] = _read(name, value)
        query: Query = kind(**settings)
        _ = query.first_question
        return query
    except ThresherError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        raise InvalidFormat("This query has a field of the wrong kind.") from None


class _Asked(Exception):
    """Carries the first question out of a probe; not an error."""

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question


class _Probe(Population):
    """Stops at the first round, after every check of a query."""

    def ask(self, question: Question, plan: Plan) -> NoReturn:
        raise _Asked(question)


_KINDS: dict[str, tuple[type, ...]] = {
    "column": (str,),
    "method": (str,),
    "step": (int,),
    "branching": (int,),
    "lower": (int, float),
    "upper": (int, float),
}


def _plain(value: Any) -> Any:
    if isinstance(value, Plan):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if type(value) in (str, int, float, bool, type(None)):
        return value
    if isinstance(value, dt.date | dt.datetime):
        return {"time" if isinstance(value, dt.datetime) else "date": value.isoformat()}
    if hasattr(value, "item"):  # a NumPy number
        return value.item()
    if type(value) in questions.KINDS.values():
        return questions.to_dict(value)
    raise InvalidSetting("domain", "has buckets of a type that cannot be sent", hint="Use text, numbers or dates.")


def _read(name: str, value: Any) -> Any:
    if name == "plan":
        return Plan.from_dict(value)
    if name == "question":
        return questions.from_dict(value)
    if name == "domain":
        return None if value is None else tuple(_read_bucket(bucket) for bucket in _list(value))
    if name == "probabilities":
        return tuple(_list(value))
    if type(value) not in _KINDS[name]:
        raise InvalidFormat(f"This query's {name} is of the wrong kind.")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidFormat("This query has a field that must be a list.")
    return value


def _read_bucket(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_read_bucket(part) for part in value)
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        return {"date": dt.date, "time": dt.datetime}[kind].fromisoformat(text)
    return value

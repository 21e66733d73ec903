"""A query: a verb with its settings and its plan, before anybody is asked.

A verb is a generator (`Query.rounds`): it yields the questions of its next rounds, several at once where they do not
depend on one another, receives their releases, and returns its answer. The answer is a deterministic function of the
releases. `drivers` runs the generator on a population, replays it from stored releases, steps it for a fleet, or asks
only for its first questions.

A verb is one file. Its query registers itself under its `verb` when the class is made, its public function with
`asking.verb`; no other module tests for a verb.
"""

from __future__ import annotations

import datetime as dt
import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from thresher import questions
from thresher.errors import InvalidFormat, InvalidSetting, ThresherError
from thresher.mechanism.release import Release
from thresher.privacy.plans import Plan
from thresher.questions import Filtered, Question, Where
from thresher.questions.question import import_all
from thresher.questions.where_text import in_words, to_python
from thresher.verbs import drivers

if TYPE_CHECKING:
    from thresher.questions.population import Population, Progress
    from thresher.verbs.asking import Target

Rounds: TypeAlias = Generator[Sequence[Question], Sequence[Release], Any]
"""Yields questions, receives as many releases, returns the answer."""


@dataclass(frozen=True, slots=True)
class Query(ABC):
    """What every query has. Subclasses are frozen dataclasses whose fields are the query's form on the wire.

    Verbs know nothing of the filter `where`: the drivers put it around every question that a verb yields.

    Guarantee: a query that was made can be asked. All settings are checked when it is made.
    """

    where: Where | None = field(default=None, kw_only=True)
    """Which units are asked; None for all."""

    verb: ClassVar[str]
    place: ClassVar[int] = 100
    """Where lists of verbs have it."""
    counts_several: ClassVar[bool] = False
    """Whether several values of a unit may count in a round, as its plan's contributions say."""
    about: ClassVar[str] = ""
    """What it tells of a fleet, in a few words."""
    bucket: ClassVar[str] = "a value held by {}"
    """What is released or dropped, in words, with a place for how many units."""
    before: ClassVar[Mapping[str, Any]] = {}
    """Fields that came with later versions of the verb, with the values that stand for what was asked before.

    They are left out of the wire form while they have these values, so that it is as before.
    """

    if TYPE_CHECKING:  # an annotation would be the first field of every query

        @property
        def plan(self) -> Plan:
            """What it may cost."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super(Query, cls).__init_subclass__(**settings)  # not `super()`: a dataclass with slots is made twice
        if "verb" in cls.__dict__:
            _QUERIES[cls.verb] = cls

    @classmethod
    @abstractmethod
    def make(cls, target: Target, **settings: Any) -> Self:
        """The query from the settings of its public function; `target` makes the plan."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The verb's own settings, from which `make` makes this query again, without its plan."""

    def arguments(self) -> dict[str, Any]:
        """The settings of its public function that ask this again, without its plan: the verb's own and the filter."""
        return self.settings() | ({} if self.where is None else {"where": to_python(self.where)})

    @abstractmethod
    def rounds(self) -> Rounds:
        """Ask round by round, and put the answer together."""

    @abstractmethod
    def describe(self) -> str:
        """Verb, columns and method in a few words, without the filter; see `what`."""

    @property
    def what(self) -> str:
        """What is asked, and of whom, in a few words: for a ledger, a list, a title."""
        return self.describe() if self.where is None else f"{self.describe()} where {in_words(self.where)}"

    def asked(self, question: Question) -> Question:
        """A question of the verb as it is asked: with the filter, if there is one."""
        return question if self.where is None else Filtered(question, self.where)

    @property
    def clipping(self) -> str:
        """What it does with values outside of public bounds, as a sentence; empty where it counts none of them."""
        return ""

    def check_range(self, lower: float, upper: float) -> None:
        """Refuse a range that cannot be read off the answer; see `Answer.reads_ranges`. It costs nothing."""
        raise InvalidSetting("range", f"cannot be read off an answer of {self.verb}", hint="Ask for ranges.")

    def bucket_of(self, units: str) -> str:
        """What is released or dropped, with how many units, as "106 rows"."""
        return self.bucket.format(units)

    @property
    def several(self) -> int | None:
        """How many values of a unit count in a round, where they are several; None for one."""
        return self.plan.contributions if self.plan.contributions > 1 else None

    @property
    def several_in_words(self) -> str:
        """The same at the end of a description."""
        return "" if self.several is None else f", up to {self.several} values a unit"

    def check_contributions(self) -> None:
        """Refuse a plan under which several values of a unit count, where a unit has one."""
        if self.several is not None and not self.counts_several:
            raise InvalidSetting("contributions", f"must be 1 for {self.verb}: here a unit has one value")

    @property
    def first_question(self) -> Question:
        """What the first round asks."""
        return drivers.first_questions(self)[0]

    @property
    def steps(self) -> int:
        """How many times a fleet's answer is waited for: the rounds of one step are open at the same time."""
        return self.plan.rounds

    @property
    def longest_question(self) -> Question:
        """The question with the longest buckets, as far as it is known before anything is asked."""
        return self.first_question

    def run(self, population: Population, progress: Progress | None = None) -> Any:
        """Ask a population; see `drivers.run`."""
        return drivers.run(self, population, progress)

    def with_plan(self, plan: Plan) -> Self:
        """The same query with another plan."""
        return replace(self, plan=plan)  # type: ignore[call-arg]

    def with_where(self, where: Where | None) -> Self:
        """The same query with another filter."""
        return replace(self, where=where)

    def checked_by(self, check: Callable[[Question], None]) -> None:
        """Have a population check what is asked; an error about a column names the setting that it came from."""
        check(self.first_question)

    def with_domain(self, read: Any) -> Self:
        """The same query with its public domain, if it has one, as `read(question, domain)` gives it."""
        return self

    def with_kinds(self, whole: Callable[[str], bool]) -> Self:
        """The same query on a table; `whole(column)` says whether a column is, by its public type, of whole numbers."""
        return self

    def too_long(self, bytes_needed: int, most: int) -> InvalidSetting | None:
        """The error for a fleet whose reports hold at most so many bytes, if a setting of the verb is to blame."""
        return None

    def too_large(self, fits: Callable[[Query], bool], most: str) -> InvalidSetting:
        """The error for a query that is too large to be sent. `fits(query)` says whether another would fit `most`."""
        return InvalidSetting("query", "is too long for a fleet", hint="Ask for less at a time.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `query_from_dict` and any JSON library read back exactly."""
        content: dict[str, Any] = {"verb": self.verb}
        for own in _own_fields(type(self)):
            value = getattr(self, own.name)
            if own.name not in self.before or value != self.before[own.name]:
                content[own.name] = _plain(value)
        # Left out where there is none: so it was before there were filters.
        return content if self.where is None else content | {"where": self.where.to_list()}


_QUERIES: dict[str, type[Query]] = {}


def queries() -> dict[str, type[Query]]:
    """The query class of every verb."""
    import_all(__package__, tuple(importlib.import_module(__package__).__path__))
    return _QUERIES


def query_from_dict(content: Mapping[str, Any]) -> Query:
    """Read what `Query.to_dict` wrote, and check every setting.

    Guarantee: anything unknown, missing, of the wrong kind or out of range raises `InvalidFormat` or `InvalidSetting`;
    neither quotes a value of the domain.
    """
    kind = queries().get(str(content.get("verb")))
    if kind is None:
        raise InvalidFormat("This is not a query that this Thresher knows.", hint="Upgrade Thresher.")
    given = {name: value for name, value in content.items() if name != "verb"}
    types = {
        field.name: field.type if isinstance(field.type, str) else field.type.__name__ for field in _own_fields(kind)
    }
    where = Where.read(given.pop("where")) if "where" in given else None
    if not set(types) - set(kind.before) <= set(given) <= set(types):
        raise InvalidFormat("This query has missing or unknown fields.")
    try:
        read = {name: _read(name, types[name], value) for name, value in given.items()}
        query = kind(**{**kind.before, **read}, where=where)
        query.check_contributions()
        return query
    except ThresherError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        raise InvalidFormat("This query has a field of the wrong kind.") from None


def _own_fields(kind: type[Query]) -> list[Field[Any]]:
    """The fields of a verb's query, without the filter, which all have."""
    return [field for field in fields(kind) if field.name != "where"]


def _plain(value: Any) -> Any:
    if isinstance(value, Plan | Question):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and math.isinf(value):
        return {"number": repr(float(value))}  # JSON has no such number
    if type(value) in (str, int, float, bool, type(None)):
        return value
    if isinstance(value, dt.date | dt.datetime):
        return {"time" if isinstance(value, dt.datetime) else "date": value.isoformat()}
    if hasattr(value, "item"):  # a NumPy number
        return value.item()
    raise InvalidSetting("domain", "has buckets of a type that cannot be sent", hint="Use text, numbers or dates.")


_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "Method": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "int | None": (int, type(None)),
    "bool | None": (bool, type(None)),
}


def _read(name: str, declared: str, value: Any) -> Any:
    """A field from its plain value, by the type that the class declares."""
    if declared == "Plan":
        return Plan.from_dict(value)
    if declared.startswith("tuple"):
        if value is None and declared.endswith("None"):
            return None
        if not isinstance(value, list):
            raise InvalidFormat("This query has a field that must be a list.")
        return tuple(_read_bucket(part) for part in value)
    if declared in _TYPES:
        if type(value) not in _TYPES[declared]:
            raise InvalidFormat(f"This query's {name} is of the wrong kind.")
        return value
    if declared == "Question":
        return questions.from_dict(value)
    raise NotImplementedError(f"fields of type {declared} have no form on the wire")


_WRITTEN: dict[str, Callable[[str], Any]] = {
    "date": dt.date.fromisoformat,
    "time": dt.datetime.fromisoformat,
    "number": {"inf": math.inf, "-inf": -math.inf}.__getitem__,
}


def _read_bucket(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_read_bucket(part) for part in value)
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        return _WRITTEN[kind](text)
    return value

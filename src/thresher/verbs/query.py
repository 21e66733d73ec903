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
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from thresher import questions
from thresher.errors import InvalidFormat, InvalidSetting, ThresherError
from thresher.mechanism.release import Release
from thresher.privacy.plans import Plan
from thresher.questions import Question
from thresher.questions.question import import_all
from thresher.verbs import drivers

if TYPE_CHECKING:
    from thresher.questions.population import Population, Progress
    from thresher.verbs.asking import Target

Rounds: TypeAlias = Generator[Sequence[Question], Sequence[Release], Any]
"""Yields questions, receives as many releases, returns the answer."""


class Query(ABC):
    """What every query has. Subclasses are frozen dataclasses whose fields are the query's form on the wire.

    Guarantee: a query that was made can be asked. All settings are checked when it is made.
    """

    __slots__ = ()

    verb: ClassVar[str]
    place: ClassVar[int] = 100
    """Where lists of verbs have it."""
    about: ClassVar[str] = ""
    """What it tells of a fleet, in a few words."""
    before: ClassVar[Mapping[str, Any]] = {}
    """Fields that were added later, with their values for queries that were written before: those are asked as then."""
    plan: Plan

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "verb" in cls.__dict__:
            _QUERIES[cls.verb] = cls

    @classmethod
    @abstractmethod
    def make(cls, target: Target, **settings: Any) -> Self:
        """The query from the settings of its public function; `target` makes the plan."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings from which `make` makes this query again, without its plan."""

    @abstractmethod
    def rounds(self) -> Rounds:
        """Ask round by round, and put the answer together."""

    @abstractmethod
    def describe(self) -> str:
        """Verb, columns and method in a few words: for a ledger, a list, a title."""

    @property
    def first_question(self) -> Question:
        """What the first round asks."""
        return drivers.first_questions(self)[0]

    @property
    def longest_question(self) -> Question:
        """The question with the longest buckets, as far as it is known before anything is asked."""
        return self.first_question

    def run(self, population: Population, progress: Progress | None = None) -> Any:
        """Ask a population; see `drivers.run`."""
        return drivers.run(self, population, progress)

    def with_plan(self, plan: Plan) -> Self:
        """The same query with another plan."""
        return replace(self, plan=plan)  # type: ignore[type-var]

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
        for field in fields(self):  # type: ignore[arg-type]
            content[field.name] = _plain(getattr(self, field.name))
        return content


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
    given = {**kind.before, **{name: value for name, value in content.items() if name != "verb"}}
    types = {
        field.name: field.type if isinstance(field.type, str) else field.type.__name__
        for field in fields(kind)  # type: ignore[arg-type]
    }
    if set(given) != set(types):
        raise InvalidFormat("This query has missing or unknown fields.")
    try:
        return kind(**{name: _read(name, types[name], value) for name, value in given.items()})
    except ThresherError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        raise InvalidFormat("This query has a field of the wrong kind.") from None


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

"""The verbs in Python, on whatever holds the data: a table is opened, targets become a plan, a ledger is charged.

`data` is a data frame of any kind that narwhals knows, a path or glob, an array or a list, a database (see
`thresher.tables`), a `Population`, or a fleet, to which the whole query is submitted; both are recognised by type.

The ledger, if there is one, says before the data is opened whether the query's cost fits. Nothing is drawn before the
request has been checked and the ledger has reserved all rounds of the query; each round is charged durably before it is
drawn, and what was never drawn is given back. A request that is refused costs nothing.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path, PurePath
from types import UnionType
from typing import Annotated, Any, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints

from thresher.errors import Hint, InvalidSetting
from thresher.ledger import Booking, Ledger
from thresher.privacy import Adjacency, Plan
from thresher.privacy.planner import make_plan
from thresher.privacy.settings import check_adjacency, check_contributions, check_flag, check_rounds
from thresher.privacy.units import Unit
from thresher.privacy.weak_guarantees import warn_if_weak
from thresher.questions.population import Population, Progress, unit_of
from thresher.tables import Table
from thresher.tables.database_url import database_url
from thresher.verbs.answer import Answer
from thresher.verbs.drivers import run
from thresher.verbs.query import Query, queries
from thresher.verbs.settings import Conditions, settings_of

F = TypeVar("F", bound=Callable[..., Any])


class Asking(TypedDict, total=False):
    """Arguments that every verb takes.

    Args:
        epsilon, delta: the guarantee, over all rounds of the query together.
        plan: a plan in place of epsilon and delta; `thresher.plan` makes one.
        adjacency: "replace" (the default) hides what one unit holds; "add-remove" also hides that it takes part.
        unit: the column that names the person; without it each row is a unit. A unit counts for one of its values,
            chosen at random (for several with `contributions=`, where a verb has it): an estimate is how many units
            are *counted* under a value, which is less than how many hold it where units hold more. It is none of the
            columns that are asked about or grouped by. Tables only.
        where: only units that satisfy these conditions are counted: `{"country": "fr", "version": ["1.2", "1.3"],
            "age": (18, 65)}` are equality, membership and a half-open range of numbers or dates, of which an end may be
            None; or a list of texts, as `["country = fr", "age >= 18"]`. Estimates stand for those units. The filter is
            public: choose it without looking at the data. A column is read as its type says, or as text.
        types: what text says, as `{"age": "whole numbers"}`: columns of CSV and JSON lines, lists and Python objects
            are text otherwise, whatever their rows hold (see `thresher.look`). Tables only.
        sql, table: which rows of a database, if `data` is its address or a connection to it: one SELECT, or a name as
            "visits" or "schema.visits". Give one of them.
        time_zone: on whose wall clock times with a zone are counted, as "Europe/Paris"; UTC by default. Tables only.
        format: what a file is whose name does not say it: "csv", "tsv", "jsonl" or "parquet". Tables only.
        show_data_errors: with `show_data_errors=True` the verb answers nothing. It returns which lines and columns
            cannot be read, and what to do: a `DataErrors`, which is false if there are none. Nothing is drawn or
            charged. It is not private, but for whoever holds the data: single people's rows decide what it says.
            Files and frames in memory only.
        ledger: a `thresher.Ledger` that is charged before each round is drawn. Tables only; a fleet has its own.
        progress: a function that is called after each round with how many are done, how many there are at most, and
            what was asked; and while a file is read.
        wait: with `wait=False` a fleet returns a handle at once in place of the answer.
    """

    epsilon: float | None
    delta: float | None
    plan: Plan | None
    adjacency: Adjacency
    unit: str | None
    where: Annotated[
        Mapping[str, Any] | Iterable[str] | None,
        Conditions(
            "Count only units that satisfy a condition: country = fr, version in 1.2, 1.3, age >= 18, age < 65.",
            label="Only where",
        ),
    ]
    types: Mapping[str, str] | None
    sql: str | None
    table: str | None
    time_zone: str | None
    format: str | None
    show_data_errors: bool
    ledger: Ledger | None
    progress: Progress | None
    wait: bool


_OPENING = ("types", "sql", "table", "time_zone", "format")
"""Settings that say how data is opened."""
_DEFAULTS: dict[str, Any] = {"adjacency": "replace", "show_data_errors": False, "wait": True}
_FUNCTIONS: dict[str, Callable[..., Any]] = {}


class QueryTaker(ABC):
    """What takes a whole query in place of single questions: a fleet, which runs the rounds itself."""

    __slots__ = ()

    @abstractmethod
    def submit(self, query: Any, *, wait: bool, progress: Progress | None) -> Any:
        """Take the query; returns its answer, or with `wait=False` a handle at once."""
        ...


class Target:
    """What a query may cost, from which its plan is made once its number of rounds is known."""

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        plan: Plan | None = None,
        adjacency: Adjacency = "replace",
        planner: Callable[..., Plan] | None = None,
    ) -> None:
        self._epsilon, self._delta, self._plan = epsilon, delta, plan
        self._adjacency = check_adjacency(adjacency)
        self._planner = planner
        if plan is not None and not isinstance(plan, Plan):
            raise InvalidSetting(
                "plan",
                f"must be a plan, not {type(plan).__name__}",
                hint=Hint("Make one first.", python="Make one with thresher.plan."),
            )
        if plan is not None and self._adjacency not in (_DEFAULTS["adjacency"], plan.adjacency):
            raise InvalidSetting(
                "adjacency", f"is {self._adjacency}, and the plan's is {plan.adjacency}", hint="Leave it out."
            )

    def rounds(self, given: int | None, usual: int, setting: str, times: int = 1) -> int:
        """A number of rounds that a setting gives, `times` over; without it, that of the plan, or the usual one."""
        if self._plan is None:
            return check_rounds(usual if given is None else given, setting=setting) * times
        if given is not None and given != self._plan.rounds // times:
            each = "" if times == 1 else f" for {times}"
            raise InvalidSetting(
                setting, f"is {given}, and the plan has {self._plan.rounds} rounds{each}", hint="Leave it out."
            )
        return self._plan.rounds

    def contributions(self, given: int | None) -> int:
        """How many values of a unit count in a round: as a setting says; without it, as the plan says, or one."""
        if self._plan is None:
            return 1 if given is None else check_contributions(given)
        if given is not None and given != self._plan.contributions:
            raise InvalidSetting(
                "contributions", f"is {given}, and the plan has {self._plan.contributions}", hint="Leave it out."
            )
        return self._plan.contributions

    def plan(self, rounds: int, contributions: int = 1) -> Plan:
        """The plan that was given, or the best one for so many rounds of so many contributions."""
        if self._plan is None:
            planner = self._planner or make_plan
            return planner(
                self._epsilon, self._delta, rounds=rounds, contributions=contributions, adjacency=self._adjacency
            )
        if self._plan.contributions != contributions:
            raise InvalidSetting(
                "contributions",
                f"of the plan are {self._plan.contributions}, and here a unit has one value",
                hint="Plan with `contributions=1`, or use a histogram or heavy hitters.",
            )
        if self._epsilon is not None or self._delta is not None:
            raise InvalidSetting(
                "plan", "and `epsilon` or `delta` cannot be given together", hint="A plan states its own."
            )
        _ = self._plan.guarantee  # recomputed, or refused
        return self._plan


def verb(function: F) -> F:
    """Make a function the public one of the verb that it is named after.

    Its signature describes the verb's settings (see `settings`). `inspect.signature` shows those of `Asking` too, and
    `help` explains them: they stand in place of the line that begins with `asking:` in the function's documentation.
    """
    signature = inspect.signature(function)
    own = [
        each.replace(annotation=_plain_type(each.annotation))
        for each in signature.parameters.values()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    common = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_DEFAULTS.get(name),
            annotation=_plain_type(hint.__forward_arg__),
        )
        for name, hint in Asking.__annotations__.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *common])  # type: ignore[attr-defined]
    _, _, explained = (Asking.__doc__ or "").partition("    Args:\n")
    if function.__doc__:
        function.__doc__ = re.sub(r" +asking: .*\n", lambda _: explained.rstrip() + "\n", function.__doc__, count=1)
    _FUNCTIONS[function.__name__] = function
    return function


def _plain_type(annotation: Any) -> Any:
    """The type in an annotation without its description, for people who read a signature."""
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0]
    tree = ast.parse(annotation, mode="eval").body if isinstance(annotation, str) else None
    if isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Tuple) and ast.unparse(tree.value) == "Annotated":
        return ast.unparse(tree.slice.elts[0])
    return annotation


def functions() -> dict[str, Callable[..., Any]]:
    """The public function of every verb, in the order in which lists have them."""
    known = queries()
    return {name: _FUNCTIONS[name] for name in sorted(_FUNCTIONS, key=lambda name: (known[name].place, name))}


def function_of(name: str) -> Callable[..., Any]:
    """The public function of a verb; `InvalidSetting` for an unknown one."""
    known = functions()
    if name not in known:
        raise InvalidSetting("verb", f"must be one of {', '.join(known)}")
    return known[name]


def answer_of(name: str) -> type[Answer]:
    """The class of a verb's answers, without groups."""
    returned = get_type_hints(function_of(name))["return"]
    kind: type[Answer] = get_args(returned)[0] if get_origin(returned) in (Union, UnionType) else returned
    return kind


def make(name: str, target: Target, settings: Mapping[str, Any]) -> Query:
    """The query of a verb from its settings, each checked by its description; those left out have their defaults."""
    given: dict[str, Any] = {}
    for setting in settings_of(function_of(name)).values():
        if setting.required and setting.name not in settings:
            raise InvalidSetting(setting.name, "is missing", hint=setting.help)
        value = settings.get(setting.name, setting.default)
        setting.check_needed(value, given)
        given[setting.name] = setting.check(value) if setting.matters(given) else setting.default
    where = given.pop("where", None)
    query = queries()[name].make(target, **given)
    return query if where is None else query.with_where(where)


def check_needed(query: Query) -> None:
    """Refuse a query that somebody else made with a setting that would do nothing; stored ones may have such."""
    given = {each.name: getattr(query, each.name) for each in fields(query)}
    for name, setting in settings_of(function_of(query.verb)).items():
        if name in given:
            setting.check_needed(given[name], given)


def ask(name: str, data: Any, given: Asking, **settings: Any) -> Any:
    """Make the query, then submit it to a fleet, or run it here on whatever holds the data."""
    if unknown := set(given) - set(Asking.__annotations__):
        raise TypeError(f"{name}() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    unit = given.get("unit")
    show = check_flag(given.get("show_data_errors", False), setting="show_data_errors")
    opening = {setting: value for setting in _OPENING if (value := given.get(setting)) is not None}
    ledger, progress = given.get("ledger"), given.get("progress")
    wait = check_flag(given.get("wait", True), setting="wait")
    target = Target(given.get("epsilon"), given.get("delta"), given.get("plan"), given.get("adjacency", "replace"))
    query = make(name, target, settings | {"where": given.get("where")})
    if progress is not None and not callable(progress):
        raise InvalidSetting("progress", f"must be a function, not {type(progress).__name__}")
    if isinstance(data, QueryTaker):
        _refuse(unit=unit, ledger=ledger, show_data_errors=show or None, **opening)
        return data.submit(query, wait=wait, progress=progress)
    if not wait:
        raise InvalidSetting("wait", "is for fleets; a table answers at once", hint="Leave it out.")
    warn_if_weak(query.plan.epsilon, query.plan.delta)  # a fleet says it in its preview, with all else against a query
    whose = unit_of(data) if isinstance(data, Population) else Unit.of_table(unit)
    if whose.column is not None and whose.column in query.first_question.columns:
        raise InvalidSetting(
            "unit",
            "must be another column than those that are counted or grouped by",
            hint="Otherwise each of their values is one unit, and nothing can be released.",
        )
    with _charging(ledger, query, whose, _name_of(data, given.get("table"))) as charge:
        if not isinstance(data, Population):
            with Table(data, unit, **opening, before_draw=charge, progress=progress) as table:  # type: ignore[arg-type]
                return _run_on_table(query, table, progress, show)
        if unit is not None:
            raise InvalidSetting("unit", "is for tables; here every member is a unit already", hint="Leave it out.")
        for setting in opening:
            raise InvalidSetting(setting, "is for data that is opened here", hint="Give it to the table itself.")
        if isinstance(data, Table):
            with data.charged(charge) as table:
                return _run_on_table(query, table, progress, show)
        if show:
            raise InvalidSetting("show_data_errors", "is for tables", hint="Leave it out.")
        return run(query, data, progress, charge)


def _run_on_table(query: Query, table: Table, progress: Progress | None, show_data_errors: bool) -> Any:
    """The answer; with `show_data_errors`, what cannot be read, after the same checks and in place of any answer."""
    table.check_plan(query.plan)
    query.checked_by(table.check)
    if show_data_errors:
        return table.data_errors(query.first_question)
    return run(query.with_domain(table.read_domain).with_kinds(table.holds_whole_numbers), table, progress)


@contextmanager
def _charging(ledger: Any, query: Query, whose: Unit, data: str | None) -> Iterator[Callable[[], object]]:
    """What charges the ledger before each round; at the end of the block what was never drawn is given back.

    The ledger says first whether the query fits, before the data is opened: whether a query fails for its cost must not
    depend on what the data holds.
    """
    if ledger is None:
        yield lambda: None
        return
    if not isinstance(ledger, Ledger):
        raise InvalidSetting(
            "ledger",
            f"must be a ledger, not {type(ledger).__name__}",
            hint=Hint("Open it first.", python="Open it: thresher.Ledger('privacy.db')."),
        )
    ledger.check(query.plan, whose)
    booking = Booking(ledger, query.plan, query.what, whose, data)
    try:
        yield booking.draw
    finally:
        booking.end()


def _name_of(data: Any, table: str | None) -> str | None:
    """What a ledger calls the data: a file's or glob's name, or a database and its table; of paths without the folder.

    Edge cases: None for anything else, and of an address nothing that may be secret. A directory without a name of its
    own, as ".", has that of the directory that it stands for.
    """
    text = str(os.fspath(data)) if isinstance(data, str | os.PathLike) else ""
    url = database_url(text)
    if url is None:
        path = Path(text)
        name = path.resolve().name or str(path) if text and path.name in ("", "..") else path.name
        return name or table
    name = PurePath(url.place).name if url.place.startswith("/") else str(url)
    return name if table is None else f"{table} in {name}"


def _refuse(**given: Any) -> None:
    for setting, value in given.items():
        if value is not None:
            raise InvalidSetting(setting, "is for tables; a fleet keeps its own", hint="Leave it out.")

"""From the fields of the ask form to a query, and what to say where they make none."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import math
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Literal, TypeVar, cast, get_args
from weakref import WeakValueDictionary

from thresher.errors import InvalidSetting, ThresherError
from thresher.privacy import plan as make_plan
from thresher.privacy.plans import Plan
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.protocol.limits import limits
from thresher.protocol.rates import MOST_ROUNDS, SAMPLED_BY, SampledBy
from thresher.questions import MOST_BINS, Bins, Dates, Every, Values
from thresher.roles.computing import Compute, here
from thresher.roles.coordinator.admission import check_columns
from thresher.server.limits import Shares
from thresher.server.problem import Refused
from thresher.verbs.queries import HeavyHittersQuery, HistogramQuery, QuantilesQuery, Query, RangesQuery

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
    "sampled_by": SAMPLED_BY,
    "minutes": "",
    "completions": "",
    "bucket_size": "",
    "name": "",
}
_CHOSEN_FREELY = ("name", "attribute")
"""Fields that change neither a plan nor its cost."""
_LABELS = {
    "column": "attribute",
    "lower": "from",
    "upper": "to",
    "bins": "bins",
    "probabilities": "quantiles",
    "branching": "cells split into",
    "bucket_size": "longest answer",
    "step": "characters a level",
    "every": "cut to the",
}
"""What the form calls what the library calls otherwise."""
_FIELDS = {
    "devices contacted": "contact",
    "enough answers": "completions",
    "longest answer": "bucket_size",
    "quantiles": "probabilities",
    "steps": "quantiles_steps",
    "characters a level": "hitters_step",
    "cells split into": "ranges_branching",
    "number of bins": "bins_number",
    "bins": "bins_upper",
}
_PARTS = {"from": "lower", "to": "upper", "levels": "levels"}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_MOST_WAITING = 16
_WAITING_EACH = 4
_MOST_SESSIONS = 1000


class _Turn:
    """Of one caller; forgotten when nobody waits for it."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


def _too_many_plans() -> Refused:
    return Refused(429, "planner-busy", "A newer plan was asked for, or too many are.", retry_after=1)


class Planning:
    """Plans of one token are made one at a time, and of those that a session waits for only the latest."""

    def __init__(self) -> None:
        self.room = Shares(_MOST_WAITING, _WAITING_EACH, _too_many_plans)
        """Held by those that wait for their turn: each of them holds a thread."""
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[bytes, _Turn] = WeakValueDictionary()
        self._numbers = itertools.count(1)
        self._latest: OrderedDict[str, int] = OrderedDict()

    @contextlib.contextmanager
    def turn(self, caller: bytes) -> Iterator[None]:
        """Wait until no other plan of the caller is made."""
        with self._lock:
            turn = self._turns.setdefault(caller, _Turn())
        with turn.lock:
            yield

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
    return {name: given.get(name, default).replace("\r\n", "\n").strip() for name, default in DEFAULTS.items()}


def agreement(fields: Mapping[str, str]) -> str:
    """Says which settings a plan was shown for, so that no other plan is run than the one that was agreed to."""
    settings = {name: value for name, value in fields.items() if name not in _CHOSEN_FREELY}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:32]


def as_on_the_form(error: ThresherError) -> ThresherError:
    """The error, with what is wrong named as the form names it."""
    if isinstance(error, InvalidSetting) and error.setting in _LABELS:
        problem = error.message.removeprefix(error.setting).strip().removesuffix(".")
        return InvalidSetting(_LABELS[error.setting], problem, hint=error.hint)
    return error


def field_of(error: ThresherError, fields: Mapping[str, str]) -> str:
    """The field that an error is about; empty if it is about none or several."""
    setting = getattr(error, "setting", "")
    if setting in _PARTS:
        verb = {"histogram": "bins", "heavy_hitters": "hitters"}.get(fields["verb"], fields["verb"])
        setting = f"{verb}_{_PARTS[setting]}"
    name = _FIELDS.get(setting, setting)
    return name if name in DEFAULTS else ""


def new_name() -> str:
    """A name for a query that is being thought about: sending its form twice asks once."""
    return f"console-{secrets.token_hex(6)}"


def to_request(fields: Mapping[str, str], compute: Compute = here) -> QueryRequest:
    """The request that these fields make. `InvalidSetting` names the field that is wrong. `compute` makes the plan.

    Guarantee: plans for the total epsilon and delta over all rounds, against replacing one value.
    """
    name = fields["name"] or new_name()
    query, settings = to_query(fields, compute), _settings(fields)
    least, contacted = query.plan.sampling_rate, settings.contact_rate
    if contacted is not None and contacted < least:
        raise InvalidSetting(
            "devices contacted",
            f"must be at least {math.ceil(1e4 * least) / 100:g} %, the part that is sampled",
            hint="Contact more devices, or spend less: a smaller epsilon samples fewer.",
        )
    return QueryRequest(name=name, query=query.to_dict(), settings=settings)


def to_query(fields: Mapping[str, str], compute: Compute = here) -> Query:
    """The query with its plan."""
    verb = fields["verb"]
    makers = {"histogram": _histogram, "heavy_hitters": _heavy_hitters, "quantiles": _quantiles, "ranges": _ranges}
    if verb not in makers:
        raise InvalidSetting("verb", "must be histogram, heavy hitters, quantiles or ranges")
    if not fields["attribute"]:
        raise InvalidSetting("attribute", "is missing", hint="Name what devices should answer about.")
    query = makers[verb](fields, compute)
    check_columns(query.first_question.columns)  # what cannot be asked is refused here, before it is shown as a plan
    return query


def _histogram(fields: Mapping[str, str], compute: Compute) -> Query:
    columns = tuple(part.strip() for part in fields["attribute"].split(",") if part.strip())
    kind = _choice(fields, "buckets", ("values", "bins", "dates"))
    question: Values | Bins | Dates = Values(columns)
    if kind != "values" and len(columns) > 1:
        raise InvalidSetting("attribute", "must be one for bins and dates", hint="Several are counted as whole values.")
    if kind == "bins":
        low, high = _number(fields, "bins_lower", "from"), _number(fields, "bins_upper", "to")
        number = whole(fields, "bins_number", "number of bins")
        if not 1 <= number <= MOST_BINS:
            raise InvalidSetting("number of bins", f"must be from 1 to {MOST_BINS:,}")
        question = Bins(columns[0], tuple(low + (high - low) * index / number for index in range(number + 1)))
    if kind == "dates":
        question = Dates(columns[0], cast(Every, _choice(fields, "every", get_args(Every))))
    domain = None
    if fields["domain"] and kind == "values" and len(columns) == 1:
        domain = tuple(dict.fromkeys(line.strip() for line in fields["domain"].splitlines() if line.strip()))
    return HistogramQuery(question, _plan(fields, 1, compute), domain)


def _heavy_hitters(fields: Mapping[str, str], compute: Compute) -> Query:
    method = cast(Literal["one-shot", "trie"], _choice(fields, "hitters_method", ("one-shot", "trie")))
    if method == "one-shot":
        return HeavyHittersQuery(fields["attribute"], _plan(fields, 1, compute))
    levels, step = whole(fields, "hitters_levels", "levels"), whole(fields, "hitters_step", "characters a level")
    return HeavyHittersQuery(fields["attribute"], _plan(fields, levels, compute), method, step)


def _quantiles(fields: Mapping[str, str], compute: Compute) -> Query:
    method = cast(Literal["search", "hierarchy"], _choice(fields, "quantiles_method", ("search", "hierarchy")))
    wanted = tuple(as_number(part, "quantiles") for part in re.split(r"[,;\s]+", fields["probabilities"]) if part)
    if not wanted:
        raise InvalidSetting("quantiles", "must be at least one number between 0 and 1", hint="For example 0.5, 0.95.")
    rounds = (
        whole(fields, "quantiles_steps", "steps") * len(wanted)
        if method == "search"
        else whole(fields, "quantiles_levels", "levels")
    )
    low, high = _number(fields, "quantiles_lower", "from"), _number(fields, "quantiles_upper", "to")
    return QuantilesQuery(fields["attribute"], wanted, _plan(fields, rounds, compute), low, high, method)


def _ranges(fields: Mapping[str, str], compute: Compute) -> Query:
    low, high = _number(fields, "ranges_lower", "from"), _number(fields, "ranges_upper", "to")
    levels, branching = whole(fields, "ranges_levels", "levels"), whole(fields, "ranges_branching", "branching")
    return RangesQuery(fields["attribute"], _plan(fields, levels, compute), low, high, branching)


def _settings(fields: Mapping[str, str]) -> RoundSettings:
    """What is allowed is what the wire allows, in the units of the form."""
    contact = _allowed(_number(fields, "contact", "devices contacted"), "contact_rate", "devices contacted", 100) / 100
    minutes = completions = size = None
    if fields["minutes"]:
        minutes = _allowed(_number(fields, "minutes", "minutes"), "seconds", "minutes", 1 / 60)
    if fields["completions"]:
        completions = _allowed(whole(fields, "completions", "enough answers"), "completions", "enough answers")
    if fields["bucket_size"]:
        size = _allowed(whole(fields, "bucket_size", "longest answer"), "bucket_size", "longest answer")
    return RoundSettings(
        contact_rate=None if contact == 1 else contact,
        sampled_by=cast(SampledBy, _choice(fields, "sampled_by", get_args(SampledBy))),
        bucket_size=size,
        seconds=None if minutes is None else 60 * minutes,
        completions=completions,
    )


N = TypeVar("N", int, float)


def _allowed(value: N, field: str, setting: str, factor: float = 1) -> N:
    """A number that a round's setting may be; `factor` turns the wire's unit into the form's."""
    within = limits(RoundSettings, field)
    if not (within if factor == 1 else within.times(factor)).allow(value):
        raise InvalidSetting(setting, str(within if factor == 1 else within.times(factor)))
    return value


def _plan(fields: Mapping[str, str], rounds: int, compute: Compute) -> Plan:
    if not 1 <= rounds <= MOST_ROUNDS:
        raise InvalidSetting("rounds", f"must be from 1 to {MOST_ROUNDS:,} in all")
    return planned(_number(fields, "epsilon", "epsilon"), _number(fields, "delta", "delta"), rounds, compute)


@functools.lru_cache(maxsize=4096)
def planned(epsilon: float, delta: float, rounds: int, compute: Compute = here) -> Plan:
    """Sliders pass over the same targets again and again; a plan takes a fifth of a second, or many."""
    plan: Plan = compute(functools.partial(make_plan, epsilon, delta, rounds=rounds))
    return plan


def _choice(fields: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    if fields[name] not in choices:
        raise InvalidSetting(name, f"must be one of {', '.join(choices)}")
    return fields[name]


def _number(fields: Mapping[str, str], name: str, setting: str) -> float:
    return as_number(fields[name], setting)


def as_number(text: str, setting: str) -> float:
    """A finite number from a field, as people write one; `setting` is what an error calls it."""
    if not _NUMBER.fullmatch(text):
        hint = "Write 0.5 or 1e-8: a point, no comma, no space." if "," in text or " " in text else ""
        raise InvalidSetting(setting, "must be a number", hint=hint)
    number = float(text)
    if not -1e300 < number < 1e300:
        raise InvalidSetting(setting, "must be a finite number")
    return number


def whole(fields: Mapping[str, str], name: str, setting: str) -> int:
    """A whole number from a field."""
    number = _number(fields, name, setting)
    if number != int(number):
        raise InvalidSetting(setting, "must be a whole number")
    return int(number)

"""From the fields of the ask form to a query, and what to say where they make none.

The fields of a verb are made from its settings: the field of setting `levels` of verb `ranges` is `ranges_levels`. A
verb whose settings come in groups, of which one is used, has a field `VERB_group` too.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import json
import math
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast, get_args

from thresher.console import schedule_form
from thresher.errors import InvalidSetting, ThresherError
from thresher.privacy.planner import make_plan
from thresher.privacy.plans import Plan
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.protocol.limits import limits
from thresher.protocol.rates import SAMPLED_BY, SampledBy
from thresher.protocol.readable import MOST_ROUNDS
from thresher.roles.computing import Compute, here
from thresher.roles.coordinator.admission import check_columns
from thresher.verbs.asking import Target, function_of, functions, make
from thresher.verbs.query import Query, queries
from thresher.verbs.settings import Setting, read_number, read_whole, settings_of

COMMON: dict[str, str] = {
    "verb": "histogram",
    "attribute": "",
    "epsilon": "1",
    "delta": "1e-8",
    "contact": "100",
    "sampled_by": SAMPLED_BY,
    "minutes": "",
    "completions": "",
    "until_all": "",
    "bucket_size": "",
    "name": "",
}
"""The fields that every verb has."""
_CHOSEN_FREELY = ("name", "attribute")
"""Fields that change neither a plan nor its cost."""
_LABELS = {
    "column": "attribute",
    "bucket_size": "longest answer",
    "seconds": "minutes a round is open",
    "time_zone": "time zone",
    "apart": "every how many",
}
"""What the form calls what the library calls otherwise, besides the titles of settings."""
_FIELDS = {
    "devices contacted": "contact",
    "enough answers": "completions",
    "longest answer": "bucket_size",
    "seconds": "minutes",
}


@dataclass(frozen=True, slots=True)
class VerbForm:
    """A verb on the form: its settings by the group that they belong to; "" are those that always count."""

    name: str
    title: str
    about: str
    groups: dict[str, list[Setting]]

    @property
    def alternatives(self) -> list[str]:
        """The groups of which one is used; settings of the others are left out."""
        return [group for group in self.groups if group]

    def field(self, setting: str) -> str:
        """The name of a setting's field."""
        return f"{self.name}_{setting}"

    def settings(self) -> Iterator[Setting]:
        """All settings that have a field."""
        return itertools.chain.from_iterable(self.groups.values())


@functools.cache
def verb_form(verb: str) -> VerbForm:
    """The form of a verb; `InvalidSetting` for an unknown one."""
    function = function_of(verb)
    groups: dict[str, list[Setting]] = {}
    for setting in settings_of(function).values():
        if setting.on_form and setting.name != "column":
            groups.setdefault(setting.group, []).append(setting)
    about = queries()[verb].about or (inspect.getdoc(function) or "").partition("\n")[0].rstrip(".")
    return VerbForm(verb, verb.replace("_", " ").capitalize(), about, groups)


def verb_forms() -> list[VerbForm]:
    """The forms of all verbs."""
    return [verb_form(verb) for verb in functions()]


def defaults() -> dict[str, str]:
    """Every field of the form, with what it is filled with at first."""
    found = COMMON | schedule_form.FIELDS
    for form in verb_forms():
        if form.alternatives:
            found[form.field("group")] = form.alternatives[0]
        for setting in form.settings():
            usual = setting.example() or ("" if setting.required or setting.default is None else str(setting.default))
            found[form.field(setting.name)] = usual
    return found


def filled(given: Mapping[str, str]) -> dict[str, str]:
    """Every field of the form: what was given, and the defaults for the rest."""
    return {name: given.get(name, default).replace("\r\n", "\n").strip() for name, default in defaults().items()}


def agreement(fields: Mapping[str, str]) -> str:
    """Says which settings a plan was shown for, so that no other plan is run than the one that was agreed to."""
    settings = {name: value for name, value in fields.items() if name not in _CHOSEN_FREELY}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:32]


def as_on_the_form(error: ThresherError, fields: Mapping[str, str]) -> ThresherError:
    """The error, with what is wrong named as the form names it."""
    if not isinstance(error, InvalidSetting) or fields["verb"] not in functions():
        return error
    titles = {setting.name: setting.title.lower() for setting in verb_form(fields["verb"]).settings()} | _LABELS
    if error.setting not in titles:
        return error
    problem = error.message.removeprefix(error.setting).strip().removesuffix(".")
    for name, title in titles.items():
        problem = re.sub(rf"\b{name}\b", f"“{title}”", problem)
    return InvalidSetting(titles[error.setting], problem, hint=error.marked_hint)


def field_of(error: ThresherError, fields: Mapping[str, str]) -> str:
    """The field that an error of `to_request` is about; empty if it is about none or several."""
    setting = getattr(error, "setting", "")
    if setting == "column":
        return "attribute"
    name = _FIELDS.get(setting, setting)
    return next((each for each in (f"{fields['verb']}_{name}", name) if each in defaults()), "")


def new_name() -> str:
    """A name for a query that is being thought about: sending its form twice asks once."""
    return f"console-{secrets.token_hex(6)}"


def to_request(fields: Mapping[str, str], compute: Compute = here) -> QueryRequest:
    """The request that these fields make. `InvalidSetting` names what is wrong. `compute` makes the plan.

    Guarantee: plans for the total epsilon and delta over all rounds, against replacing one value.
    """
    query = to_query(fields, functools.partial(_plan, compute))
    return QueryRequest(name=fields["name"] or new_name(), query=query.to_dict(), settings=to_settings(fields, query))


def to_settings(fields: Mapping[str, str], query: Query) -> RoundSettings:
    """How the rounds of a query are run; `InvalidSetting` if its plan samples more devices than are contacted."""
    settings = _settings(fields)
    least, contacted = query.plan.sampling_rate, settings.contact_rate
    if contacted is not None and contacted < least:
        raise InvalidSetting(
            "devices contacted",
            f"must be at least {math.ceil(1e4 * least) / 100:g} %, the part that is sampled",
            hint="Contact more devices, or spend less: a smaller epsilon samples fewer.",
        )
    return settings


def to_query(fields: Mapping[str, str], planner: Callable[..., Plan] | None = None) -> Query:
    """The query with its plan, which `planner` makes for epsilon and delta; by default the best plan for one query."""
    form = verb_form(fields["verb"])
    if not fields["attribute"]:
        raise InvalidSetting("attribute", "is missing", hint="Name what devices should answer about.")
    column = settings_of(function_of(form.name))["column"]
    settings: dict[str, Any] = {"column": column.read(fields["attribute"])}
    chosen = fields.get(form.field("group"), "")
    if form.alternatives and chosen not in form.alternatives:
        raise InvalidSetting("counted as", f"must be one of {', '.join(form.alternatives)}")
    for setting in form.groups.get("", []) + (form.groups[chosen] if chosen else []):
        text = fields[form.field(setting.name)]
        if setting.needed and isinstance(settings["column"], list):
            raise InvalidSetting("column", f"must be one for {chosen}", hint="Several are counted as whole values.")
        if setting.needed and not text:
            raise InvalidSetting(setting.name, "is missing", hint=setting.help)
        if text and setting.matters(settings):
            settings[setting.name] = setting.read(text)
    epsilon, delta = _number(fields, "epsilon", "epsilon"), _number(fields, "delta", "delta")
    query = make(form.name, Target(epsilon, delta, planner=planner or functools.partial(_plan, here)), settings)
    first = query.first_question
    check_columns(first.columns, first.filters)  # what cannot be asked is refused here, before it is shown as a plan
    return query


def _settings(fields: Mapping[str, str]) -> RoundSettings:
    """What is allowed is what the wire allows, in the units of the form."""
    contact = _allowed(_number(fields, "contact", "devices contacted"), "contact_rate", "devices contacted", 100) / 100
    minutes = completions = size = None
    if fields["minutes"]:
        minutes = _allowed(_number(fields, "minutes", "minutes"), "seconds", "minutes", 1 / 60)
    if fields["completions"]:
        completions = _allowed(read_whole(fields["completions"], "enough answers"), "completions", "enough answers")
    if fields["bucket_size"]:
        size = _allowed(read_whole(fields["bucket_size"], "longest answer"), "bucket_size", "longest answer")
    return RoundSettings(
        contact_rate=None if contact == 1 else contact,
        sampled_by=cast(SampledBy, _choice(fields, "sampled_by", get_args(SampledBy))),
        bucket_size=size,
        seconds=None if minutes is None else 60 * minutes,
        completions=completions,
        until_all=True if _choice(fields, "until_all", ("", "yes")) else None,
    )


N = TypeVar("N", int, float)


def _allowed(value: N, field: str, setting: str, factor: float = 1) -> N:
    """A number that a round's setting may be; `factor` turns the wire's unit into the form's."""
    within = limits(RoundSettings, field)
    if not (within if factor == 1 else within.times(factor)).allow(value):
        raise InvalidSetting(setting, str(within if factor == 1 else within.times(factor)))
    return value


def _plan(compute: Compute, epsilon: float, delta: float, *, rounds: int, contributions: int, adjacency: str) -> Plan:
    if not 1 <= rounds <= MOST_ROUNDS:
        raise InvalidSetting("rounds", f"must be from 1 to {MOST_ROUNDS:,} in all")
    return planned(epsilon, delta, rounds, contributions, compute)


@functools.lru_cache(maxsize=4096)
def planned(epsilon: float, delta: float, rounds: int, contributions: int = 1, compute: Compute = here) -> Plan:
    """Sliders pass over the same targets again and again; a plan takes a fifth of a second, or many."""
    plan: Plan = compute(functools.partial(make_plan, epsilon, delta, rounds=rounds, contributions=contributions))
    return plan


def _choice(fields: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    if fields[name] not in choices:
        raise InvalidSetting(name, f"must be one of {', '.join(choices)}")
    return fields[name]


def _number(fields: Mapping[str, str], name: str, setting: str) -> float:
    return read_number(fields[name], setting)

"""What is checked before a query is taken: nothing is stored or charged for one that cannot be run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import msgspec

from thresher.errors import InvalidSetting
from thresher.mechanism.release_table import NUMBERS
from thresher.privacy.plans import Plan
from thresher.privacy.rates import Rates
from thresher.protocol import sealing
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.protocol.configurations import Guarantees, RoundConfiguration
from thresher.protocol.lasting import time_in_words
from thresher.protocol.messages import LARGEST_CONFIGURATION, canonical, decode
from thresher.protocol.pieces import check_report_size
from thresher.protocol.rates import SAMPLED_BY, SampledBy, share
from thresher.protocol.readable import LARGEST_BUCKET
from thresher.questions import Question
from thresher.verbs.asking import check_needed
from thresher.verbs.query import Query, query_from_dict

DEFAULTS = RoundSettings(contact_rate=1.0, sampled_by=SAMPLED_BY, bucket_size=64, seconds=3600.0, until_all=False)
MOST_TOGETHER = 32
"""Rounds of a query that are open at the same time. A step of more questions takes several turns."""
MOST_COLUMNS = 32
LONGEST_COLUMN = 200
_LENGTH_AND_BRACKETS = 4
_NAMES = 1024  # more than names, a key's id and a time take in a configuration


@dataclass(frozen=True, slots=True)
class Admitted:
    """A query that can be run, with the very plan that its rounds will have and every setting filled in."""

    name: str
    query: Query
    rates: Rates
    settings: RoundSettings
    guarantees: Guarantees
    request_hash: str

    @property
    def plan(self) -> Plan:
        """The plan whose rate is the product of the rates."""
        return self.query.plan

    @property
    def steps(self) -> int:
        """How many times its rounds are waited for, one after another."""
        steps = self.query.steps
        together = -(-self.plan.rounds // steps)
        return steps * -(-together // MOST_TOGETHER)

    @property
    def lasting(self) -> float:
        """How many seconds it takes in all, unless rounds close early."""
        return self.steps * (self.settings.seconds or 0.0)

    @property
    def in_all(self) -> str:
        """How long it takes in all, in a sentence."""
        seconds, early = self.settings.seconds or 0.0, self.settings.closes_early
        return time_in_words(self.steps, self.plan.rounds, seconds, early=early)


def admit(request: QueryRequest | bytes, defaults: RoundSettings = DEFAULTS) -> Admitted:
    """Check a request, and share its plan's rate out. A request in bytes, as it was sent, is read first.

    Guarantee: the plan's total has been recomputed and holds; every setting of the verb and of the rounds is in range;
    the first round's configuration can be made.
    """
    if isinstance(request, bytes):
        request = decode(QueryRequest, request)
    query = query_from_dict(request.query)
    check_needed(query)
    plan = query.plan
    if plan.adjacency != "replace":
        raise InvalidSetting(
            "adjacency",
            "must be 'replace' in a fleet",
            hint="How many devices complete a round is public, which only replace-one allows.",
        )
    settings = filled(request.settings, defaults)
    check_columns(query.first_question.columns, query.first_question.filters)
    check_bucket_size(query, settings.bucket_size or 0)
    rates, exact = share(plan, settings.contact_rate or 1.0, sampled_by(settings))
    _ = exact.guarantee  # recomputed, or refused
    query = _read_back(query.with_plan(exact).with_domain(_domain_of_fleet))
    _first_round(query, rates, settings)  # which can be made
    return Admitted(
        name=request.name,
        query=query,
        rates=rates,
        settings=settings,
        guarantees=Guarantees.of(exact, rates),
        request_hash=hashlib.sha256(canonical(request)).hexdigest(),
    )


def _read_back(query: Query) -> Query:
    """The query as the store will give it back: what is charged for is what can be read."""
    return query_from_dict(json.loads(canonical(query.to_dict())))


def _first_round(query: Query, rates: Rates, settings: RoundSettings) -> RoundConfiguration:
    """The first round's configuration, but for names, time and key: it can be made, and is not too large."""
    first = RoundConfiguration.of(
        fleet="fleet",
        query="query",
        index=0,
        round="round",
        question=query.first_question,
        plan=query.plan,
        rates=rates,
        bucket_size=settings.bucket_size or 0,
        deadline=settings.seconds or 0.0,
        key_id="key",
        public_key=bytes(sealing.KEY_BYTES),
    )
    if not len(first.content) <= LARGEST_CONFIGURATION - _NAMES:
        raise _too_large(query)
    return first


def _too_large(query: Query) -> InvalidSetting:
    """The error for a query that cannot be sent: its filter is to blame, or a setting of its verb."""
    most = f"{LARGEST_CONFIGURATION // 2 >> 20} MiB"
    if query.where is not None and _fits(query.with_where(None)):
        return InvalidSetting("where", f"is too long for a fleet, which takes {most}", hint="Name fewer values.")
    return query.too_large(_fits, most)


def filled(settings: RoundSettings, defaults: RoundSettings) -> RoundSettings:
    """The settings with the server's defaults for what was left out."""
    given = {name: value for name, value in msgspec.structs.asdict(settings).items() if value is not None}
    return msgspec.structs.replace(defaults, **given)


def sampled_by(settings: RoundSettings) -> SampledBy:
    """Who tosses the coins."""
    return settings.sampled_by or SAMPLED_BY


def rates_of(plan: Plan, settings: RoundSettings) -> Rates:
    """The rates of a stored query: sharing out an exact product gives its factors back."""
    rates, exact = share(plan, settings.contact_rate or 1.0, sampled_by(settings))
    if exact != plan:
        raise InvalidSetting("sampling_rate", "is not the product of this query's rates")
    return rates


def check_bucket_size(query: Query, size: int) -> None:
    """Refuse a size in which answers of the query could not be sent, where their length is known."""
    question = query.longest_question
    needed = _LENGTH_AND_BRACKETS + sum(part.longest for part in question.parts) + len(question.parts) - 1
    if needed > LARGEST_BUCKET and (error := query.too_long(needed, LARGEST_BUCKET)):
        raise error
    check_report_size(query.plan, size)
    if not needed <= size:
        raise InvalidSetting(
            "bucket_size",
            f"must be at least {needed} bytes for this question",
            hint="Answers that do not fit are not counted.",
        )
    if not _fits(query):
        raise _too_large(query)


def _fits(query: Query) -> bool:
    return len(canonical(query.to_dict())) <= LARGEST_CONFIGURATION // 2


def _domain_of_fleet(question: Question, domain: Any) -> tuple[Any, ...]:
    """A public domain as a fleet counts it: whole values as text; bins and dates are read from text."""
    if len(question.parts) == 1:
        counted = tuple(question.parts[0].listed(bucket) for bucket in domain)
    else:
        counted = tuple(
            tuple(part.listed(each) for part, each in zip(question.parts, bucket, strict=True)) for bucket in domain
        )
    question.check_domain(counted)
    return counted


def check_columns(columns: tuple[str, ...], filters: tuple[str, ...] = ()) -> None:
    """Refuse attributes that no round can ask for, or filter by."""
    for setting, names in (("column", columns), ("where", filters)):
        if len(names) > MOST_COLUMNS:
            raise InvalidSetting(setting, f"must name at most {MOST_COLUMNS} columns")
        if not all(len(name) <= LONGEST_COLUMN and name.isprintable() for name in names):
            raise InvalidSetting(setting, f"must be printable, of at most {LONGEST_COLUMN} characters")
    if not set(columns).isdisjoint(NUMBERS):
        raise InvalidSetting(
            "column", f"must not be called {', '.join(NUMBERS)}", hint="Every release has columns of these names."
        )

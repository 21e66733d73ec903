"""Checks a rule against the query of its series, and judges releases by it. Post-processing, which costs nothing."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.mechanism.release import Release
from thresher.privacy.plans import Plan
from thresher.privacy.units import DEVICE
from thresher.protocol.alert_messages import FindingStated, RuleRequest
from thresher.protocol.messages import canonical, decode
from thresher.protocol.plaintext import to_columns
from thresher.questions import Question
from thresher.questions.population import Population
from thresher.verbs.accuracy import CONFIDENCE
from thresher.verbs.alert_rules import Alert, Finding, Rule
from thresher.verbs.answer import Answer
from thresher.verbs.drivers import run
from thresher.verbs.over_time import OverTime
from thresher.verbs.query import Query, query_from_dict

MOST_FINDINGS = 10
"""How many findings an alert keeps."""
MOST_NUMBERS = {"changed": 5_000, "above": 20_000, "below": 20_000}
"""A rule of each kind judges releases of at most so many numbers, which takes about half a second. Rounds wait
meanwhile. A change is the slowest, because it reads both releases at several confidences, whole."""
_NUMBERS_OF_GROUP = 50
"""Reading the numbers of one group takes as long as so many other numbers."""
_LONGEST_RULE = 4_000
_LISTED = 16


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """A rule that makes sense for its series. `content` is its JSON in canonical form."""

    rule: Rule
    content: str
    webhook: str | None


def check_rule(request: RuleRequest | bytes, query: str) -> CheckedRule:
    """Check a rule for a series with this query. A request in bytes, as it was sent, is read first.

    The rule is tried on answers in which no bucket was released. That finds a bucket which is none of the quantiles or
    ranges that the query asks for, and a verb that has no numbers to follow.
    """
    if isinstance(request, bytes):
        request = decode(RuleRequest, request)
    rule = Rule.from_dict(request.rule)
    try:
        content = canonical(rule.to_dict()).decode()
    except (ValueError, UnicodeEncodeError):
        raise InvalidFormat("This rule has a bucket that cannot be stored.") from None
    if len(content) > _LONGEST_RULE:
        raise InvalidSetting("rule", f"must have at most {_LONGEST_RULE:,} characters")
    nothing: Answer = run(_read(query), _Nobody())
    over_time = _over_time(rule, [(dt.datetime(2000, 1, day, tzinfo=dt.UTC), nothing) for day in (1, 2)])
    readings = over_time.read(nothing, CONFIDENCE)
    if rule.bucket is not None and readings.fixed and not any(row.is_of(rule.bucket) for row in readings.rows):
        raise InvalidSetting(
            "bucket",
            "is none of the numbers of this series",
            hint=f"It has {', '.join(row.label for row in readings.rows[:_LISTED])}.",
        )
    rule.judge(over_time)
    return CheckedRule(rule, content, request.webhook)


def judged(rule: Rule, points: Sequence[tuple[dt.datetime, Answer]]) -> Alert | None:
    """The alert that the last of these releases gives, or None.

    Raises `InvalidSetting` where the rule does not fit the answers, or where they have too many numbers.
    """
    for _, answer in points:
        if isinstance(answer, Sized):  # before its numbers are read, which takes long if there are many
            _check_size(rule, len(answer) * (_NUMBERS_OF_GROUP if answer.grouped else 1))
    over_time = _over_time(rule, points)
    _check_size(rule, len(over_time.buckets))
    return rule.judge(over_time)


def _check_size(rule: Rule, numbers: int) -> None:
    most = MOST_NUMBERS[rule.kind]
    if numbers > most:
        raise InvalidSetting(
            "rule", f"of the kind {rule.kind} cannot be judged where releases have more than {most:,} numbers"
        )


def stated(findings: Sequence[Finding]) -> list[FindingStated]:
    """The first findings as they are stored and sent. A number that is not known is None."""
    return [
        FindingStated(
            bucket=each.bucket,
            estimate=_known(each.estimate),
            lower=_known(each.lower),
            upper=_known(each.upper),
            text=each.text,
        )
        for each in findings[:MOST_FINDINGS]
    ]


def _read(query: str) -> Query:
    try:
        return query_from_dict(json.loads(query))
    except (json.JSONDecodeError, RecursionError):
        raise InvalidFormat("This stored series cannot be read.") from None


def _over_time(rule: Rule, points: Sequence[tuple[dt.datetime, Answer]]) -> OverTime:
    """The releases as a rule sees them: a rule for a range, or for a group and a range, reads that range off them."""
    ends = rule.bucket[-2:] if isinstance(rule.bucket, tuple) else ()
    pair = len(ends) == 2 and all(isinstance(end, int | float) for end in ends)
    ranges: list[Any] = [ends] if pair and points[-1][1].reads_ranges else []
    return OverTime(points, ranges)


def _known(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else float(number)


class _Nobody(Population):
    """A population that holds nothing, so that its releases are empty."""

    unit = DEVICE

    def ask(self, question: Question, plan: Plan) -> Release:
        import pyarrow as pa

        nothing = pa.table(to_columns([], question), names=list(question.columns))
        return Release.of(nothing, np.array([], dtype=np.int64), plan, private=True, columns=question.columns)

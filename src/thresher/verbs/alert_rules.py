"""Rules on a series, and the alerts they give. A rule looks at released numbers only, so judging it costs nothing."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, Literal, get_args

from thresher.charts.numbers import amount, count, percent, printable
from thresher.errors import InvalidFormat, InvalidSetting
from thresher.privacy.differences import HIGHEST
from thresher.privacy.settings import check_probability
from thresher.verbs.accuracy import CONFIDENCE
from thresher.verbs.changes import OneSided
from thresher.verbs.over_time import OverTime
from thresher.verbs.readings import Reading

Kind = Literal["above", "below", "changed"]
JudgedBy = Literal["interval", "estimate"]

_LONGEST_BUCKET = 1_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One number that a rule speaks of. `estimate` is None for a bucket that the last release does not have."""

    bucket: str
    estimate: float | None
    lower: float | None
    upper: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Alert:
    """What a rule has found in the last release of a series, or between the last two. It has released numbers only."""

    rule: Rule
    date: dt.datetime
    """The date of the release. An alert with the same rule and date is the same alert."""
    findings: tuple[Finding, ...]

    @property
    def text(self) -> str:
        """The alert in words, one sentence for each finding."""
        return " ".join(finding.text for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "rule": self.rule.to_dict(),
            "date": self.date.isoformat(),
            "text": self.text,
            "findings": [
                {field.name: getattr(finding, field.name) for field in fields(finding)} for finding in self.findings
            ],
        }


@dataclass(frozen=True, slots=True)
class Rule:
    """When a series should alert somebody.

    Args:
        kind: "above" or "below" a bound, judged on the last release; "changed", judged on the last two.
        bound: the number for "above" and "below".
        bucket: which number, as its value, as a tuple of values, or as its label: "fr", 0.5 for the median,
            "0 to under 18" for a range. None: any.
        judged_by: "interval": the whole interval must lie beyond the bound, so that chance alone seldom alerts.
            "estimate": the estimate alone must; then chance alerts whenever the truth is close to the bound.
        confidence: of the interval. Where any bucket may alert, what is left to chance, 1 − confidence, is shared
            equally among all of them.

    Guarantee: for a bucket that is not above (or below) its bound, or that did not change, the probability that one
    release makes an alert is at most 1 − confidence. Each release is judged anew: over many releases false alerts add
    up, and a higher confidence keeps them rare.
    Edge cases: a bucket that was not released is below a bound if a bucket of that size would have been released with
    the stated confidence. It has changed if chance does not explain that it appeared or vanished (`OneSided.certain`).
    """

    kind: Kind
    bound: float | None = None
    bucket: Any = None
    judged_by: JudgedBy = "interval"
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidSetting("kind", f"must be one of {', '.join(get_args(Kind))}")
        if self.kind == "changed":
            if self.bound is not None:
                raise InvalidSetting("bound", "is for the kinds above and below only")
            if self.judged_by != "interval":
                raise InvalidSetting("judged_by", "must be 'interval' for the kind changed")
        else:
            object.__setattr__(self, "bound", _finite(self.bound))
        if self.judged_by not in get_args(JudgedBy):
            raise InvalidSetting("judged_by", "must be 'interval' or 'estimate'")
        if not check_probability(self.confidence, setting="confidence") <= 1 - 1e-6:
            raise InvalidSetting("confidence", "must be at most 0.999999", hint="For example `confidence=0.999`.")
        object.__setattr__(self, "bucket", _plain_bucket(self.bucket))

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` and any JSON library read back exactly."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        return content | {"bucket": list(self.bucket) if isinstance(self.bucket, tuple) else self.bucket}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Rule:
        """Read what `to_dict` wrote, and check it. All but `kind` may be left out. Anything unknown is an error."""
        if not isinstance(content, Mapping) or "kind" not in content:  # type: ignore[redundant-expr]
            raise InvalidFormat("This is not a rule of a series.")
        if set(content) - {field.name for field in fields(cls)}:
            raise InvalidFormat("This rule has unknown fields.")
        try:
            return cls(**content)
        except TypeError:
            raise InvalidFormat("This rule has a field of the wrong kind.") from None

    def describe(self) -> str:
        """The rule in a few words, for a list."""
        what = "any number" if self.bucket is None else written(self.bucket)
        if self.kind == "changed":
            return f"{what} has changed by more than its {percent(self.confidence)} interval"
        how = f"{percent(self.confidence)} interval" if self.judged_by == "interval" else "estimate"
        return f"{what} is {self.kind} {amount(self.bound)}, by its {how}"

    def judge(self, over_time: OverTime) -> Alert | None:
        """The alert that the last release gives, or None.

        Raises `InvalidSetting` where the rule is judged by intervals and the verb states none, and where its bucket is
        none of the quantiles or ranges that the series asks for.
        Edge cases: None without a release; "changed" also with a single one. A missed release changes nothing: the last
        one that was made is judged again, and gives the same alert, with the same date.
        """
        if len(over_time.released) < (2 if self.kind == "changed" else 1):
            return None
        found = tuple(self._changed(over_time) if self.kind == "changed" else self._beyond(over_time))
        return Alert(self, over_time.released[-1][0], found) if found else None

    def _beyond(self, over_time: OverTime) -> Iterator[Finding]:
        """The numbers above or below the bound."""
        watched = {key: label for key, label in over_time.buckets.items() if self._watches(key, label)}
        confidence = self._shared(len(watched))
        readings = over_time.read(over_time.released[-1][1], confidence)
        if not watched and self.bucket is not None and readings.fixed:
            raise InvalidSetting("bucket", "is none of the numbers of this series", hint="Give one that was asked for.")
        now, write, sure = readings.by_key(), count if readings.counts else amount, percent(confidence)
        for key, label in watched.items():
            if key in now:
                yield from self._reading_beyond(now[key], write, sure)
            else:
                yield from self._unseen(label, readings.unseen_upper, sure)
        if not watched and self.bucket is not None:
            yield from self._unseen(written(self.bucket), readings.unseen_upper, sure)

    def _reading_beyond(self, reading: Reading, write: Callable[[float | None], str], sure: str) -> Iterator[Finding]:
        """One number, if it lies beyond the bound. `sure` is the confidence of its interval."""
        assert self.bound is not None
        if self.judged_by == "estimate":
            low = high = reading.estimate
            known = ""
        elif reading.lower is None or reading.upper is None:
            raise _no_intervals()
        else:
            low, high = reading.lower, reading.upper
            known = f" ({sure}: {write(low)} to {write(high)})"
        if low > self.bound if self.kind == "above" else high < self.bound:
            estimate = reading.estimate if reading.known else None
            name = printable(reading.label)
            text = f"{name} is {self.kind} {write(self.bound)}: {write(estimate)}{known}."
            yield Finding(name, estimate, reading.lower, reading.upper, text)

    def _unseen(self, label: str, most: int | None, sure: str) -> Iterator[Finding]:
        """A bucket that the last release does not have."""
        assert self.bound is not None
        if self.kind == "below" and most is not None and most < self.bound:
            name = printable(label)
            why = f"it was not released, so it has at most {count(most)} ({sure})"
            text = f"{name} is below {count(self.bound)}: {why}."
            yield Finding(name, None, None, most, text)

    def _changed(self, over_time: OverTime) -> Iterator[Finding]:
        """The numbers that changed between the last two releases, and those that surely appeared or vanished."""
        last_two = over_time.readings[-2:]
        compared = {row.key for readings in last_two for row in readings.rows if self._watches_row(row)}
        changes = over_time.changes(confidence=self._shared(len(compared)))
        for row in changes:
            if row.changed is None:
                raise _no_intervals()
            if row.changed and self._watches_row(row.after):
                name = printable(row.after.label)
                estimate = row.after.estimate if row.after.known else None
                text = f"{name} has changed: {changes.change_in_words(row)}."
                yield Finding(name, estimate, row.after.lower, row.after.upper, text)
        for words, found in (("appeared", changes.appeared), ("vanished", changes.vanished)):
            for each in found:
                if each.certain and self._watches_row(each.reading):
                    yield _one_sided(words, each)

    def _watches(self, key: tuple[Any, ...], label: str) -> bool:
        return self._watches_row(Reading(key, label, math.nan, None, None))

    def _watches_row(self, row: Reading) -> bool:
        return self.bucket is None or row.is_of(self.bucket)

    def _shared(self, numbers: int) -> float:
        """The confidence for each of so many numbers."""
        return min(1 - (1 - self.confidence) / max(1, numbers), HIGHEST)


def _one_sided(words: str, each: OneSided) -> Finding:
    name, now = printable(each.reading.label), words == "appeared"
    most = count(each.unseen_upper)
    estimate = count(each.reading.estimate)
    text = (
        f"{name} appeared: {estimate}, and at most {most} before."
        if now
        else f"{name} vanished: at most {most}, and {estimate} before."
    )
    if now:
        return Finding(name, each.reading.estimate, each.reading.lower, each.reading.upper, text)
    return Finding(name, None, None, each.unseen_upper, text)


def _no_intervals() -> InvalidSetting:
    return InvalidSetting(
        "judged_by", "needs a verb that states intervals", hint="Use `judged_by='estimate'` with above or below."
    )


def _finite(bound: object) -> float:
    if isinstance(bound, bool) or not isinstance(bound, Real) or not _is_finite(bound):
        raise InvalidSetting("bound", "must be a finite number", hint="For example `bound=1000`.")
    return float(bound)


def _is_finite(number: Real | float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that no float holds
        return False


def _plain_bucket(bucket: Any) -> Any:
    """A bucket that JSON can hold: one value, a tuple of them, or None."""
    if bucket is None:
        return None
    several = isinstance(bucket, list | tuple)
    parts = tuple(bucket) if several else (bucket,)
    if not parts or not all(isinstance(part, str) or _is_number(part) for part in parts):
        raise InvalidSetting("bucket", "must be a text or a number, or a tuple of them", hint="Or give its label.")
    if not all(0 < len(part) <= _LONGEST_BUCKET for part in parts if isinstance(part, str)):
        raise InvalidSetting("bucket", f"must have from 1 to {_LONGEST_BUCKET:,} characters")
    return parts if several else bucket


def _is_number(part: object) -> bool:
    return isinstance(part, int | float) and _is_finite(part)


def written(bucket: Any) -> str:
    """The bucket of a rule as texts show it."""
    return printable(" · ".join(map(str, bucket)) if isinstance(bucket, list | tuple) else bucket)

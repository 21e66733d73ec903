"""How many units hold each bucket: one round, and an honest line for all that was dropped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thresher.errors import InvalidSetting
from thresher.mechanism.release import Release, ReleasedBucket
from thresher.mechanism.release_table import NUMBERS, bucket_columns
from thresher.mechanism.tabular import Tabular
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan
from thresher.privacy.units import Unit
from thresher.questions import Question, normal
from thresher.questions.population import Population, Progress
from thresher.verbs.rounds import Rounds

if TYPE_CHECKING:
    import pyarrow as pa

STATUS = "status"
RELEASED, BELOW = "released", "below threshold"
OTHER = "everything below the threshold"


def histogram(
    population: Population,
    question: Question,
    plan: Plan,
    *,
    domain: Iterable[Any] | None = None,
    progress: Progress | None = None,
) -> Histogram:
    """Ask one question once.

    `domain` is a public list of the buckets that matter. The answer is restricted to them, and those that were not
    released are shown as "below threshold". Both are post-processing: nothing more is learned, nothing more is spent.

    Guarantee: the plan's.
    Edge cases: nothing reaching the threshold is a valid, empty answer. A domain must be chosen without looking at the
    data; taken from the data, it would itself be a release.
    """
    if plan.rounds != 1:
        raise InvalidSetting(
            "rounds", f"must be 1 for a histogram, the plan has {plan.rounds}", hint="Plan with rounds=1."
        )
    if domain is not None and STATUS in question.columns:
        raise InvalidSetting("column", f"must not be called {STATUS} with a domain", hint="Rename the column.")
    public = None if domain is None else _checked_domain(domain, question.columns)
    release = Rounds(population, plan, progress).ask(question, "histogram of " + ", ".join(question.columns))
    return Histogram(release if public is None else _restricted(release, public), public)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Histogram(Tabular):
    """A release, restricted to a public domain where one was given; it reads like a `Release`."""

    release: Release
    domain: tuple[Any, ...] | None = None

    @property
    def plan(self) -> Plan:
        """The plan it was drawn with."""
        return self.release.plan

    @property
    def private(self) -> bool:
        """Whether a secure source drew it."""
        return self.release.private

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed; raises where a seeded source drew it."""
        return self.release.guarantee

    @property
    def unit(self) -> Unit | None:
        """Whom the guarantee protects; None where nobody said it."""
        return self.release.unit

    def promise(self) -> str:
        """The guarantee in one line, for a title or a footer."""
        return self.release.promise()

    @property
    def stands_for(self) -> str | None:
        """For whom estimates and intervals stand, in words: the devices that checked in; None for a table."""
        return self.release.stands_for

    @property
    def below_threshold(self) -> list[Any]:
        """The buckets of the domain that were not released, in the domain's order."""
        released = set(self.release.buckets)
        return [bucket for bucket in self.domain or () if bucket not in released]

    def verify(self) -> Guarantee:
        """Recompute the guarantee and check every row, as `Release.verify` does."""
        return self.release.verify()

    def __len__(self) -> int:
        return len(self.release)

    def __iter__(self) -> Iterator[ReleasedBucket]:
        return iter(self.release)

    def __contains__(self, bucket: object) -> bool:
        return bucket in self.release

    def __getitem__(self, bucket: Any) -> ReleasedBucket:
        return self.release[bucket]

    def to_arrow(self) -> pa.Table:
        """The released rows; with a domain also its other buckets, without numbers, and a column `status`."""
        table = self.release.table
        if self.domain is None:
            return table
        import pyarrow as pa

        missing = self.below_threshold
        keys = bucket_columns(missing, self.release.columns) if missing else []
        names = self.release.columns
        types = {
            name: _common_type(table.schema.field(name).type, keys[index].type if keys else None, len(table))
            for index, name in enumerate(names)
        }
        columns = [
            pa.chunked_array(
                [*table[name].cast(types[name]).chunks, *([keys[index].cast(types[name])] if keys else [])],
                type=types[name],
            )
            for index, name in enumerate(names)
        ]
        for name in NUMBERS:
            kind = table.schema.field(name).type
            columns.append(pa.chunked_array([*table[name].chunks, pa.nulls(len(missing), kind)], type=kind))
        columns.append(pa.array([RELEASED] * len(table) + [BELOW] * len(missing)))
        return pa.table(columns, names=[*names, *NUMBERS, STATUS]).combine_chunks()

    def to_dict(self) -> dict[Any, float]:
        """Released bucket to estimate."""
        return self.release.to_dict()

    def to_json(self) -> str:
        """The release, with its plan and certificate, as `Release.from_json` reads it."""
        return self.release.to_json()

    def save(self, path: str | Path) -> None:
        """Write the release to a file that `Release.load` reads."""
        self.release.save(path)

    def plot(self, path: str | Path | None = None, *, most: int = 40) -> Any:
        """A picture of the largest buckets with their intervals and the threshold."""
        return self.release.plot(path, most=most)

    def __str__(self) -> str:
        shown = 20
        lines = [
            f"{_label(row.bucket):<32} {row.estimate:>14,.0f}   {row.interval[0]:,} to {row.interval[1]:,}"
            for row, _ in zip(self, range(shown), strict=False)
        ]
        if len(self) > shown:
            lines.append(f"… {len(self) - shown:,} more buckets")
        lines += [f"{_label(bucket):<32} {BELOW:>14}" for bucket in self.below_threshold[:shown]]
        return "\n".join([*lines, f"other: {OTHER}"])

    def __repr__(self) -> str:
        return repr(self.release).replace("Release", "Histogram", 1)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(_label(bucket))}</td><td>{BELOW}</td></tr>" for bucket in self.below_threshold[:20]
        )
        below = f"<table><tbody>{rows}</tbody></table>" if rows else ""
        return f"{self.release._repr_html_()}{below}<p>other: {OTHER}</p>"


def _checked_domain(domain: Iterable[Any], columns: tuple[str, ...]) -> tuple[Any, ...]:
    """The domain without repetitions, each bucket in the form in which it is counted."""
    if isinstance(domain, str):
        raise InvalidSetting("domain", "must be a list of buckets, not one text")
    try:
        buckets = tuple(dict.fromkeys(_normal_bucket(bucket, len(columns)) for bucket in domain))
    except TypeError:
        raise InvalidSetting(
            "domain", "must be a list of values, or of tuples where there are several columns"
        ) from None
    if not buckets or None in buckets:
        raise InvalidSetting("domain", "must name at least one bucket, and none that is missing")
    try:  # what could not be shown is refused before anything is asked
        bucket_columns(buckets, columns)
    except InvalidSetting as error:
        raise InvalidSetting("domain", "has buckets of another type, or of several", hint=error.hint) from None
    return buckets


def _normal_bucket(bucket: Any, parts: int) -> Any:
    if parts == 1:
        return normal(bucket)
    values = () if isinstance(bucket, str) else tuple(normal(part) for part in bucket)
    if len(values) != parts or None in values:
        raise InvalidSetting("domain", f"must have {parts} values a bucket, one for each column")
    return values


def _restricted(release: Release, domain: tuple[Any, ...]) -> Release:
    """The release's rows whose bucket is in the domain."""
    import pyarrow as pa

    wanted = set(domain)
    mask = pa.array([bucket in wanted for bucket in release.buckets], pa.bool_())
    return replace(release, table=release.table.filter(mask).combine_chunks())


def _common_type(released: Any, listed: Any | None, rows: int) -> Any:
    """The type of a bucket column that holds both; an empty release has none of its own to insist on."""
    import pyarrow as pa

    if listed is None or released == listed:
        return released
    if not rows:
        return listed
    if pa.types.is_integer(released) and pa.types.is_floating(listed):
        return listed
    if pa.types.is_floating(released) and pa.types.is_integer(listed):
        return released
    raise InvalidSetting("domain", "has buckets of another type than the question's")


def _label(bucket: Any) -> str:
    return " · ".join(map(str, bucket)) if isinstance(bucket, tuple) else str(bucket)

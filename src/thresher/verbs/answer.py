"""What all answers have in common: their query, their releases, what these guarantee, and how they are shown."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from thresher.errors import InvalidFormat, InvalidSetting, ThresherError, VerificationFailed
from thresher.files import write_whole
from thresher.mechanism.release import Release, guarantee_of, promise_of
from thresher.mechanism.release_format import ANSWER, read_text
from thresher.mechanism.response import stands_for
from thresher.mechanism.tabular import Tabular
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan
from thresher.privacy.units import Unit
from thresher.questions import Where
from thresher.questions.where_text import in_words, to_lines
from thresher.verbs.accuracy import CONFIDENCE
from thresher.verbs.drivers import questions_of, replay
from thresher.verbs.printed import PRINTED, reading_line, readings_html
from thresher.verbs.query import query_from_dict
from thresher.verbs.readings import Reading, Readings, of_table

if TYPE_CHECKING:
    import pyarrow as pa

    from thresher.verbs.other import Other
    from thresher.verbs.trie import Trie
    from thresher.verbs.windows import Window

VERSION = 1


class Field(NamedTuple):
    """A column of the table that a page shows of an answer.

    `kind` is "label", "count", "amount" (a measured value) or "percent". `about` explains the title.
    """

    name: str
    title: str
    kind: str = "count"
    about: str = ""


class Shown(NamedTuple):
    """An answer as a table: its columns, its rows, and the column that it is sorted by at first.

    A row's first cell is a pair: its label, and what it is sorted by (None: by the label). None in another cell means
    that the number is not known.
    """

    fields: tuple[Field, ...]
    rows: Sequence[tuple[Any, ...]]
    sort: str
    descending: bool = False


class Bar(NamedTuple):
    """One bar of a chart, or the place of one that was below the threshold: it has no numbers."""

    label: str
    estimate: float | None
    lower: float | None = None
    upper: float | None = None


class Listing(NamedTuple):
    """An answer as the rows that a terminal shows, how many more rows there are, and what to know about these."""

    table: pa.Table
    hidden: int
    note: str = ""


class Line(NamedTuple):
    """One released number, its 95 % interval, and the truth."""

    what: str
    estimate: float
    lower: float
    upper: float
    truth: float

    @property
    def inside(self) -> bool:
        """Whether the truth lies in the interval."""
        return self.lower <= self.truth <= self.upper


class Truth(Protocol):
    """What people really hold, where somebody knows it, as in a simulation."""

    def counts(self) -> Mapping[str, int]:
        """How many hold each value, as text."""
        ...

    def numbers(self) -> Any:
        """All values as an array of numbers."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Answer(Tabular):
    """The query and each round's release. All the rest follows from the two.

    Guarantee: `guarantee` covers all rounds of the plan together, also where fewer were needed: what has been charged
    is not given back, since when to stop was decided by looking at releases.
    """

    query: Any
    releases: tuple[Release, ...]

    counted: ClassVar[bool] = False
    """Whether each row is a bucket with an estimate, to be drawn as a bar."""
    rows_called: ClassVar[str] = "buckets"
    """What such rows are called on a page."""
    reads_ranges: ClassVar[bool] = False
    """Whether `count(low, high)` and `fraction(low, high)` read ranges off it."""
    grouped: ClassVar[bool] = False
    """Whether it has an answer for each group, in place of one for all units."""
    pairs: ClassVar[Mapping[str, tuple[str, str]]] = {"95 % interval": ("lower", "upper")}
    """Columns of `to_arrow` that a narrow table shows as one, "low – high", each two under a name."""
    details: ClassVar[frozenset[str]] = frozenset()
    """Columns of `to_arrow` that a narrow table leaves out."""

    @property
    def plan(self) -> Plan:
        """The plan that all rounds were drawn with."""
        plan: Plan = self.query.plan
        return plan

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that were asked about."""
        columns: tuple[str, ...] = self.query.first_question.columns
        return columns

    @property
    def measured(self) -> str:
        """What the numbers of `readings` measure, where they do not count units."""
        return ", ".join(self.columns)

    @property
    def private(self) -> bool:
        """Whether a secure source drew every round."""
        return all(release.private for release in self.releases)

    @property
    def guarantee(self) -> Guarantee:
        """What all rounds together guarantee; raises where a seeded source, or another plan, drew one of them."""
        self._check_plans()
        return guarantee_of("answer", self.plan, private=self.private, unit=self.unit)

    def _check_plans(self) -> None:
        if any(release.plan != self.plan for release in self.releases):
            raise VerificationFailed("A round was drawn with another plan than the answer states.")

    @property
    def unit(self) -> Unit | None:
        """Whom the guarantee protects; None where nobody said it, or where rounds say different things."""
        units = {release.unit for release in self.releases}
        return units.pop() if len(units) == 1 else None

    @property
    def stands_for(self) -> str | None:
        """For whom estimates and intervals stand, in words: the devices that checked in; None for a table.

        With a filter, they stand for those of them that satisfy it; see `asked_of`.
        """
        return stands_for(release.response for release in self.releases)

    @property
    def asked_of(self) -> str | None:
        """Whom the filter left, in words: "only where country = fr". None without a filter."""
        where: Where | None = self.query.where
        return None if where is None else f"only where {in_words(where)}"

    @property
    def rounds_asked(self) -> int:
        """How many rounds were asked; at most `plan.rounds`."""
        return len(self.releases)

    @property
    def empty(self) -> bool:
        """Whether no round released anything."""
        return not any(len(release) for release in self.releases)

    def nothing_in_words(self) -> str:
        """Where nothing was released: what size would have been seen, as the plan says; empty where something was."""
        if not self.empty:
            return ""
        units = {"row": "rows", "device": "devices"}.get("" if self.unit is None else self.unit.kind, "units")
        rounds = " in each round" if self.plan.rounds > 1 else ""
        seen = self.query.bucket_of(f"{self.plan.smallest_visible():,} {units}")
        return (
            f"Nothing was released. {seen.capitalize()} would have been seen with a probability of 95 %{rounds}, one "
            f"of {self.plan.smallest_visible(0.5):,} with 50 %."
        )

    def verify(self) -> Guarantee:
        """Recompute the guarantee, check every round's release and that each has this plan's rate and threshold."""
        self._check_plans()
        for release in self.releases:
            release.verify()
        if len({release.unit for release in self.releases if release.unit is not None}) > 1:
            raise VerificationFailed("Rounds were drawn for different units, whose guarantees do not add up.")
        return self.guarantee

    def promise(self) -> str:
        """The guarantee in one line, for a title or a footer."""
        return promise_of(self.plan, private=self.private, unit=self.unit)

    def footing(self) -> str:
        """Whom it was asked of, where that is not everybody, and the promise: in one line, below a title or a repr."""
        return self.promise() if self.asked_of is None else f"{self.asked_of}; {self.promise()}"

    def more(self) -> dict[str, Any]:
        """What the verb has to say besides its rows, for JSON."""
        return {}

    def closing(self) -> str:
        """What a repr ends with: the footing, and what would have been seen where nothing was released."""
        if not self.empty:
            return self.footing()
        table = self.unit is not None and self.unit.kind in ("row", "column")
        more = " show_data_errors=True says what could not be read, if anything." if table else ""
        return f"{self.footing()}. {self.nothing_in_words()}{more}"

    def __str__(self) -> str:
        rows, hidden = self.summary(PRINTED)
        if not rows:
            return repr(self)
        more = [f"… {hidden:,} more rows"] if hidden else []
        clipping = [self.query.clipping] if self.query.clipping else []
        return "\n".join([self.query.describe(), *map(reading_line, rows), *more, *clipping, self.closing()])

    def _repr_html_(self) -> str:
        rows, hidden = self.summary(PRINTED)
        said = f"{self.query.clipping} {self.closing()}".lstrip()
        return readings_html(self.query.describe(), rows, hidden, said=said, whom=self.stands_for)

    def document(self) -> dict[str, Any]:
        """The answer as plain values for JSON: the same keys for every verb, with and without groups.

        `rows` are those of `to_arrow`, each with the names of its columns. What only one verb has is in `more`. A
        number that is not known is null, an infinite one and a date are text. docs/tables.md says what each key is.
        """
        by, rest, unit = tuple(self.query.by if self.grouped else ()), self.left_out, self.unit
        return {
            "verb": self.query.verb,
            "columns": list(self.columns[len(by) :]),
            "by": list(by),
            "settings": json_value(self.query.settings()),
            "where": [] if self.query.where is None else to_lines(self.query.where),
            "unit": None if unit is None else str(unit),
            "counting": None if unit is None else unit.counting(self.plan.contributions),
            "private": self.private,
            "promise": self.promise(),
            "guarantee": self.guarantee.to_dict() if self.private else None,
            "plan": self.plan.to_dict(),
            "rounds_asked": self.rounds_asked,
            "confidence": CONFIDENCE,
            "rows": json_value(self.to_arrow().to_pylist()),
            "other": None if rest is None else rest.to_dict(),
            "more": json_value(self.more()),
        }

    def to_json(self) -> str:
        """What `document` says, as JSON. To read an answer back, use `save` and `thresher.load`."""
        return json.dumps(self.document(), ensure_ascii=False, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Write the query and its releases to a file, whole or not at all; `thresher.load` reads it."""
        write_whole(Path(path), json.dumps(self.saved(), ensure_ascii=False, allow_nan=False) + "\n")

    def saved(self, beside: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The content of such a file; with `beside`, plain values that other programs may read in it.

        `thresher.load` does not read what is beside, but finds a change of it.
        """
        asked = questions_of(self.query, self.releases)
        content: dict[str, Any] = {
            **(beside or {}),
            "format": ANSWER,
            "version": VERSION,
            "query": self.query.to_dict(),
            "rounds": [
                {"question": question.to_dict(), "release": json.loads(release.to_json())}
                for question, release in zip(asked, self.releases, strict=True)
            ],
        }
        content["digest"] = _digest(content)
        return content

    @property
    def has_picture(self) -> bool:
        """Whether `plot` draws one."""
        return type(self).plot is not Answer.plot

    def plot(self, path: str | Path | None = None) -> Any:
        """A picture, shown in notebooks or saved. `path` ends in .png, .svg or .html; needs the extra `plot`."""
        raise InvalidSetting("plot", f"is not there for {self.query.verb}")

    def shown(self) -> Shown:
        """The answer as a table for a page. By default all rows of `to_arrow`; the first column labels them."""
        import pyarrow as pa

        table = self.to_arrow()
        first, *others = table.schema
        kinds = [
            Field(field.name, field.name, "count" if pa.types.is_integer(field.type) else "amount") for field in others
        ]
        rows = [((str(row[0]), None), *row[1:]) for row in zip(*table.to_pydict().values(), strict=True)]
        return Shown((Field(first.name, first.name, "label"), *kinds), rows, first.name)

    def listing(self, most: int) -> Listing:
        """At most so many rows as people read them in a terminal. By default the first of `to_arrow`."""
        table = self.to_arrow()
        return Listing(table.slice(0, most), max(len(table) - most, 0))

    def range_ends(self, lower: float, upper: float) -> tuple[float, float]:
        """The ends that a range is read with, where `reads_ranges` says that ranges can be read off."""
        self.query.check_range(lower, upper)
        return lower, upper

    def readings(self, confidence: float = CONFIDENCE, ranges: Sequence[tuple[float, float]] = ()) -> Readings:
        """The numbers to follow in a series of such answers, with intervals at this confidence.

        `ranges` are to be read off where `reads_ranges` says that they can be; others have no use for them.
        By default the rows of `to_arrow` that have a column `estimate` or `value`; the columns before the numbers are
        the key. A verb that knows its intervals at any confidence overrides this, and then a series states how much a
        number has changed, with an interval (`OverTime.changes`).
        """
        return of_table(self.to_arrow(), confidence, counts=self.counted, verb=self.query.verb)

    def summary(self, most: int) -> tuple[Sequence[Reading], int]:
        """At most so many numbers that `print` and a notebook show, and how many more there are."""
        try:
            rows = self.readings().rows
        except InvalidSetting:  # a verb that has no such numbers
            return (), 0
        return rows[:most], max(len(rows) - most, 0)

    @property
    def headline(self) -> tuple[str, str] | None:
        """The one number that the answer is about and a few words beside it, for the top of a page; None for many."""
        return None

    @property
    def explained(self) -> str:
        """What the numbers of `shown` mean, in a sentence or two; empty where the usual words for counts are right."""
        return ""

    @property
    def left_out(self) -> Other | None:
        """How many units are in none of the rows; None where that is not known."""
        return None

    def bars(self, most: int) -> list[Bar]:
        """At most so many bars of a chart; none where rows are no buckets."""
        return []

    @property
    def trie(self) -> Trie | None:
        """The tree of found beginnings; None for verbs that have none."""
        return None

    def window(self) -> Window | None:
        """Which part of the public range a picture of the distribution shows; None for verbs that find none."""
        return None

    def band(self, within: Window | None = None) -> tuple[list[float], list[float], list[float], list[float]] | None:
        """The distribution in a window, by default its own: values, ranks and the 95 % bounds of the ranks.

        None for verbs that find none.
        """
        return None

    def marks(self) -> list[tuple[float, float, float, float]]:
        """Quantiles to mark on the distribution: probability, value and the ends of its interval."""
        return []

    def compared(self, truth: Truth, ranges: Sequence[tuple[float, float]] = ()) -> list[Line]:
        """What was released beside the truth; `ranges` are to be read off where an answer has no rows of its own."""
        raise InvalidSetting("verb", f"{self.query.verb!r} cannot be compared with the truth")


def load(path: str | Path) -> Answer | Release:
    """Read what an answer's `save` wrote; also a release, as `Release.save` and Thresher 0.1.0 write them.

    Args:
        path: the file.

    Returns the answer, replayed from its releases, or the release.
    Raises `InvalidFormat` for any other file, `VerificationFailed` where something was changed since it was written.

        >>> h.save("answer.json")
        >>> th.load("answer.json")
        <Histogram of 1 buckets, (1, 1e-08)-differential privacy, replace, over one round, for one row>
    """
    text = read_text(Path(path))
    try:
        content = json.loads(text)
        if not isinstance(content, dict) or content.get("format") != ANSWER:
            return Release.from_json(text)
        if content["version"] != VERSION:
            raise InvalidFormat("This answer has a version that this Thresher does not read.", hint="Upgrade Thresher.")
        if content.pop("digest") != _digest(content):
            raise VerificationFailed("This answer was changed after it was saved.", hint="Use the original file.")
        rounds = content["rounds"]
        releases = [Release.from_json(json.dumps(each["release"], ensure_ascii=False)) for each in rounds]
        answer: Answer = replay(query_from_dict(content["query"]), releases, [each["question"] for each in rounds])
        return answer
    except ThresherError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InvalidFormat("This is not a Thresher answer.", hint="Give what an answer's save wrote.") from None


def _digest(content: dict[str, Any]) -> str:
    """Finds accidental change. It is not a signature: whoever can rewrite the file can recompute it."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def json_value(value: Any) -> Any:
    """A value as JSON has it: a number that is not one is null; an infinite one, a date and the like are text."""
    if isinstance(value, Mapping):
        return {str(name): json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else repr(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return value if isinstance(value, str | int | float | None) else str(value)


def counted_table(rows: Sequence[Any], labels: Sequence[Any], kind: pa.DataType, name: str) -> dict[str, pa.Array]:
    """Arrow columns of rows that have a count, an estimate and an interval."""
    import pyarrow as pa

    return {
        name: pa.array(labels, kind),
        "count": pa.array([row.count for row in rows], pa.int64()),
        "estimate": pa.array([row.estimate for row in rows], pa.float64()),
        "lower": pa.array([row.interval[0] for row in rows], pa.int64()),
        "upper": pa.array([row.interval[1] for row in rows], pa.int64()),
    }


COUNTS = (
    Field("estimate", "Estimate", about="devices that checked in"),
    Field("lower", "At least", about="95 %"),
    Field("upper", "At most", about="95 %"),
    Field("count", "In the sample"),
)
"""The columns of rows that have a count, an estimate and an interval."""

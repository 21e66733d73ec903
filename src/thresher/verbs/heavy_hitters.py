"""Heavy hitters: which texts are common. Whole values in one round, or prefix by prefix with TrieHH++."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack

from thresher.charts.numbers import printable
from thresher.errors import InvalidSetting, NotReleased
from thresher.mechanism.common_rates import common_rates, rows_at
from thresher.mechanism.release import Release, ReleasedBucket
from thresher.privacy.plans import Plan
from thresher.privacy.settings import MAX_CONTRIBUTIONS, check_count
from thresher.questions import END, LONGEST_PREFIX, Prefixes, Question, RecountedPrefixes, Values
from thresher.verbs.accuracy import CONFIDENCE
from thresher.verbs.answer import (
    COUNTS,
    Answer,
    Bar,
    Field,
    Line,
    Shown,
    Truth,
    counted_table,
)
from thresher.verbs.asking import Asking, Target, ask, verb
from thresher.verbs.printed import PRINTED, counted_html, counted_line, counts_of
from thresher.verbs.query import Query, Rounds
from thresher.verbs.readings import Reading, Readings
from thresher.verbs.recounts import CountedText, FoundTexts
from thresher.verbs.settings import Choice, Column, Whole
from thresher.verbs.trie import Trie, TrieNode

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.tree import Tree

Method = Literal["one-shot", "trie"]
_TRIE = ("method", "trie")
_BARS, _NODES = 40, 60
"""How many items and nodes pictures have."""
LEVELS, STEP = 4, 6
"""Chosen by what they find (docs/lab.md); a text of up to 23 characters can be finished."""


@verb
def heavy_hitters(
    data: Any,
    column: Annotated[str, Column("The column of texts.")],
    *,
    method: Annotated[
        Method,
        Choice(
            "one-shot asks for whole values in one round and finds the most; trie asks level by level, so that an "
            "aggregator only ever sees extensions of what is popular.",
            options={
                "one-shot": "Whole values, one round: finds the most",
                "trie": "Letter by letter: the aggregator sees only what extends something popular",
            },
        ),
    ] = "one-shot",
    levels: Annotated[
        int | None, Whole("Levels of the trie, one round each.", usual=LEVELS, only=_TRIE, is_rounds=True)
    ] = None,
    step: Annotated[
        int, Whole("Characters a level.", label="Characters a level", usual=STEP, earlier=1, only=_TRIE)
    ] = STEP,
    contributions: Annotated[
        int | None,
        Whole("How many distinct values of a unit count.", label="Values of a unit", usual=1, most=MAX_CONTRIBUTIONS),
    ] = None,
    **asking: Unpack[Asking],
) -> HeavyHitters:
    """The common values of a text column, by how many units are counted under each.

    Guarantee: the total over all levels is (epsilon, delta); it is charged whole, also if levels stop early.

    Args:
        data: a data frame, a path or glob, an array, a list, a `Population` or a `Fleet`.
        column: the column of texts.
        method: "one-shot" asks for whole values in a single round; it finds the most. "trie" (TrieHH++) asks level by
            level, each with a fresh sample. The aggregator then only ever sees extensions of what is popular, at the
            price of a budget shared by all levels. A text that was found is counted again in every later level.
        levels: how many levels the trie has; 4, or as many as the plan has rounds.
        step: how many characters a level adds; 6 by default. Texts of levels × step characters or more are cut: their
            beginnings are found and marked as not complete. Fewer levels with larger steps find more; smaller steps
            show the aggregator less of what is rare.
        contributions: how many distinct values of a unit count, each with its own coin; 1 by default. It costs what so
            many rounds cost. A unit with more is counted under so many of them, chosen at random; how many units that
            concerns is not public.
        asking: what every verb takes; see `thresher.verbs.Asking`.

    Returns `HeavyHitters`. Raises `InvalidSetting` before anything is charged.

        >>> words = ["the"] * 9000 + ["and"] * 6000 + ["rare"]
        >>> found = th.heavy_hitters(words, "value", epsilon=1, delta=1e-8)
        >>> [item.item for item in found.top(2)]
        ['the', 'and']
    """
    return ask(  # type: ignore[no-any-return]
        "heavy_hitters", data, asking, column=column, method=method, levels=levels, step=step,
        contributions=contributions,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class HeavyHittersQuery(Query):
    """Heavy hitters with their plan: one round, or one round a level.

    In level i a unit votes for the first i·step characters of its text if all but the last `step` of them are in the
    trie already. With `recount` a unit whose whole text was found in an earlier level votes for it again, and the
    estimate of the text comes from all these rounds. Queries that 0.1.0 stored go on without it. Levels stop early when
    nothing extends; that returns no budget.

    Edge cases: an empty answer is valid. Texts longer than rounds·step − 1 characters cannot be finished; their
    prefixes are found and marked as not complete.
    Reference: paper, section 4.1; docs/privacy.md, section 6.
    """

    column: str
    plan: Plan
    method: Method = "one-shot"
    step: int = 1
    recount: bool = True
    verb = "heavy_hitters"
    counts_several = True
    before: ClassVar[Mapping[str, Any]] = {"recount": False}
    place = 2
    about = "Which texts are common, and the tree of their beginnings"

    def __post_init__(self) -> None:
        rounds = self.plan.rounds
        if self.method == "one-shot":
            if rounds != 1:
                raise InvalidSetting(
                    "rounds",
                    f"must be 1 for the method 'one-shot', the plan has {rounds}",
                    hint="Plan with `rounds=1`, or use `method='trie'`.",
                )
            Values((self.column,))
            object.__setattr__(self, "recount", False)  # there is no later round
            return
        if self.method != "trie":
            raise InvalidSetting("method", "must be 'one-shot' or 'trie'")
        step = check_count(self.step, setting="step", least=1, example=2)
        if not rounds * step <= LONGEST_PREFIX:
            raise InvalidSetting(
                "step",
                f"must be at most {LONGEST_PREFIX // rounds:,} with {rounds:,} levels",
                hint=f"All levels together look at no more than {LONGEST_PREFIX:,} characters.",
            )
        Prefixes(self.column, rounds * step)

    @classmethod
    def make(cls, target: Target, **settings: Any) -> HeavyHittersQuery:
        """One round, or as many as there are levels."""
        method, levels = settings["method"], settings["levels"]
        contributions = target.contributions(settings["contributions"])
        if method == "one-shot":
            return cls(settings["column"], target.plan(1, contributions))
        plan = target.plan(target.rounds(levels, LEVELS, "levels"), contributions)
        return cls(settings["column"], plan, method, settings["step"])

    def settings(self) -> dict[str, Any]:
        """Levels and step matter to a trie only."""
        trie = {"levels": self.plan.rounds, "step": self.step} if self.method == "trie" else {}
        return {"column": self.column, "method": self.method, **trie, "contributions": self.several}

    @property
    def steps(self) -> int:
        """One, or the trie's levels: what a level asks depends on what the one before released."""
        return 1 if self.method == "one-shot" else self.plan.rounds

    def rounds(self) -> Rounds:
        """Ask once, or level by level."""
        if self.method == "one-shot":
            (release,) = yield (Values((self.column,)),)
            items = tuple(FoundItem.of(row, row.bucket, complete=True) for row in release)
            return HeavyHitters(self, (release,), items, None)
        return (yield from self._levels())

    def _levels(self) -> Rounds:
        releases: list[Release] = []
        texts = FoundTexts(recount=self.recount)
        open_prefixes: frozenset[str] = frozenset()
        for level in range(1, self.plan.rounds + 1):
            (release,) = yield (self._question(level, open_prefixes, texts.again),)
            releases.append(release)
            texts.add(release)
            open_prefixes = frozenset(row.bucket for row in release if not row.bucket.endswith(END))
            if not open_prefixes:
                break
        rows: dict[str, tuple[str | None, ReleasedBucket]] = {}
        for place, (release, rate) in enumerate(zip(releases, common_rates(releases), strict=True)):
            known = place * self.step
            for row in rows_at(release, rate):
                rows.setdefault(row.bucket, (row.bucket[:known] if known else None, row))
        counted = texts.counted()
        nodes: list[TrieNode] = []
        found: list[FoundItem] = []
        for bucket, (parent, row) in rows.items():
            text, complete = bucket.removesuffix(END), bucket.endswith(END)
            numbers = counted[text] if complete else row
            nodes.append(TrieNode(text, numbers.count, numbers.estimate, numbers.interval, complete, parent))
            if complete:
                found.append(FoundItem.of(numbers, text, complete=True, rounds=counted[text].rounds))
            elif bucket in open_prefixes:
                found.append(FoundItem.of(row, text, complete=False))
        found.sort(key=lambda item: (-item.estimate, item.item))
        return HeavyHitters(self, tuple(releases), tuple(found), Trie(tuple(nodes)))

    def _question(self, level: int, open_prefixes: frozenset[str], again: frozenset[str]) -> Prefixes:
        """What a level asks; the first one, and every level where no text is known, asks for prefixes only."""
        asked = (self.column, level * self.step, (level - 1) * self.step, open_prefixes)
        return RecountedPrefixes(*asked, again) if again else Prefixes(*asked)

    def describe(self) -> str:
        """For example "heavy_hitters of word, trie"."""
        return f"heavy_hitters of {self.column}, {self.method}{self.several_in_words}"

    @property
    def longest_question(self) -> Question:
        """Whole values, or the trie's last level."""
        if self.method == "one-shot":
            return Values((self.column,))
        return Prefixes(self.column, self.plan.rounds * self.step)

    def too_long(self, bytes_needed: int, most: int) -> InvalidSetting | None:
        """The step is to blame."""
        rounds = self.plan.rounds
        around = bytes_needed - rounds * self.step
        return InvalidSetting(
            "step",
            f"must be at most {(most - around) // rounds:,} with {rounds:,} levels in a fleet",
            hint=f"A device's answer has at most {most:,} bytes.",
        )


@dataclass(frozen=True, slots=True)
class FoundItem:
    """A common value, with how many units hold it; where not `complete`, a prefix that the last level reached."""

    item: Any
    count: int
    estimate: float
    interval: tuple[int, int]
    complete: bool
    rounds: int = 1
    """How many rounds counted it; `count` is their sum."""

    @classmethod
    def of(cls, row: ReleasedBucket | CountedText, item: Any, *, complete: bool, rounds: int = 1) -> FoundItem:
        """The item of a released row, or of a text that several rounds counted."""
        return cls(item, row.count, row.estimate, row.interval, complete, rounds)

    @property
    def label(self) -> str:
        """The item as text; a prefix that was not finished ends in an ellipsis."""
        return str(self.item) + ("" if self.complete else "…")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeavyHitters(Answer):
    """Found items, largest first; with the method "trie" also the trie of their prefixes.

    `count` is in the samples of the item's `rounds` together. Of an item with one round, the estimate is count ÷ p and
    the interval is that of its release, given that it was released. A text that later levels of a trie counted again
    has an estimate and an interval from all its rounds (`thresher.privacy.recounts`), given that it was found.
    """

    query: HeavyHittersQuery
    items: tuple[FoundItem, ...]
    trie: Trie | None = field()  # required: without this, the property of the base class would be its default
    counted = True
    details = frozenset({"rounds"})
    rows_called = "values"

    @property
    def column(self) -> str:
        """The column that was asked about."""
        return self.query.column

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[FoundItem]:
        return iter(self.items)

    def __contains__(self, item: object) -> bool:
        return any(found.item == item for found in self.items)

    def __getitem__(self, item: Any) -> FoundItem:
        for found in self.items:
            if found.item == item:
                return found
        raise NotReleased("This item was not found.", hint="It was below the threshold, or nobody holds it.")

    @property
    def complete(self) -> tuple[FoundItem, ...]:
        """The whole values that were found."""
        return tuple(item for item in self.items if item.complete)

    @property
    def unfinished(self) -> tuple[FoundItem, ...]:
        """Prefixes of the last level: more rounds, or larger steps, would extend them."""
        return tuple(item for item in self.items if not item.complete)

    def top(self, k: int) -> tuple[FoundItem, ...]:
        """The k largest whole values, or all if there are fewer."""
        return self.complete[: check_count(k, setting="k", example=10)]

    def to_arrow(self) -> pa.Table:
        """Columns item, count, estimate, lower, upper, complete, rounds."""
        import pyarrow as pa

        kind = self.releases[0].table.schema.field(0).type
        columns = counted_table(self.items, [item.item for item in self.items], kind, "item")
        columns["complete"] = pa.array([item.complete for item in self.items], pa.bool_())
        columns["rounds"] = pa.array([item.rounds for item in self.items], pa.int64())
        return pa.table(columns)

    def to_dict(self) -> dict[Any, float]:
        """Whole value to estimate."""
        return {item.item: item.estimate for item in self.complete}

    def more(self) -> dict[str, Any]:
        """The trie, if there is one."""
        if self.trie is None:
            return {}
        return {
            "trie": [
                {
                    "prefix": node.prefix,
                    "parent": node.parent,
                    "count": node.count,
                    "estimate": node.estimate,
                    "complete": node.complete,
                }
                for node in self.trie.nodes
            ]
        }

    def shown(self) -> Shown:
        """One row an item."""
        rows = [((item.label, None), *counts_of(item)) for item in self.items]
        return Shown((Field("item", self.column, "label"), *COUNTS), rows, "estimate", True)

    def bars(self, most: int) -> list[Bar]:
        """The largest items."""
        return [Bar(item.label, item.estimate, *item.interval) for item in self.items[:most]]

    def readings(self, confidence: float = CONFIDENCE, ranges: Sequence[tuple[float, float]] = ()) -> Readings:
        """One reading an item; of a trie, whole values and prefixes are told apart by the key column `complete`.

        An item of a trie is found if it, and each of its prefixes, was released in its own round. Each of them is held
        by at least as many units, so the chance that one of them was missed is at most the sum over the rounds.
        """
        import pyarrow as pa

        trie = self.query.method == "trie"
        rates = common_rates(self.releases)
        ends = {
            row.bucket: row.interval
            for release, rate in zip(self.releases, rates, strict=True)
            for row in rows_at(release, rate, confidence)
        }
        texts = FoundTexts.of(self.releases if trie else (), recount=self.query.recount).counted(confidence)
        rows = []
        for item in self.items:
            key = (item.item, item.complete) if trie else (item.item,)
            interval = texts[item.item].interval if trie and item.complete else ends[item.item]
            rows.append(Reading(key, item.label, item.estimate, *interval))
        columns = [("item", self.releases[0].table.schema.field(0).type), ("complete", pa.bool_())]
        missed = [
            release.unseen_upper(confidence, rounds=self.plan.rounds, rate=rate)
            for release, rate in zip(self.releases, rates, strict=True)
        ]
        known = [bound for bound in missed if bound is not None]
        unseen = max(known) if len(known) == len(missed) else None
        return Readings(tuple(columns if trie else columns[:1]), tuple(rows), unseen_upper=unseen)

    def compared(self, truth: Truth, ranges: Sequence[tuple[float, float]] = ()) -> list[Line]:
        """Each item with the number that truly hold it, or for a prefix, hold what starts with it."""
        counts = truth.counts()
        lines = []
        for item in self.items:
            text = str(item.item)
            true = counts.get(text, 0)
            if not item.complete:
                true = sum(count for value, count in counts.items() if value.startswith(text))
            lines.append(Line(item.label, item.estimate, *item.interval, true))
        return lines

    def tree(self, most: int = 60) -> Tree:
        """The trie's largest nodes for the terminal, chains of prefixes that do not branch drawn as one.

        Raises `InvalidSetting` for the method "one-shot", which asks for whole values and has no trie.
        """
        if self.trie is None:
            raise InvalidSetting("tree", "is not there for the method 'one-shot'", hint="Ask with `method='trie'`.")
        return self.trie.without_chains().tree(f"{self.column}: {self.footing()}", most)

    def plot(self, path: str | Path | None = None, *, most: int | None = None) -> Any:
        """A picture of the largest items as bars with intervals, 40 by default; of a trie, its 60 largest nodes.

        `path` ends in .png, .svg or .html; needs the extra `plot`.
        """
        title = f"Common values of {self.column}"
        if self.trie is None:
            most = _BARS if most is None else most
            return self.releases[0].plot(path, most=most, title=title, about=self.asked_of)
        return self._plot_trie(self.trie.without_chains(), path, title, _NODES if most is None else most)

    def _plot_trie(self, trie: Trie, path: str | Path | None, title: str, most: int) -> Any:
        from thresher import charts

        shown = trie.largest(most)
        places = {node.prefix: place for place, node in enumerate(shown) if not node.complete}
        part = "" if len(shown) == len(trie) else f"the largest {len(shown)} of {len(trie):,} nodes; "
        chart = charts.trie(
            [printable(node.label) for node in shown],
            [None if node.parent is None else places[node.parent] for node in shown],
            [node.estimate for node in shown],
            [node.complete for node in shown],
            title=title,
            subtitle=part + self.footing(),
            whom=self.stands_for,
        )
        return charts.show(chart, path)

    def __str__(self) -> str:
        lines = [counted_line(item.label, item) for item in self.items[:PRINTED]]
        if len(self) > PRINTED:
            lines.append(f"… {len(self) - PRINTED:,} more items")
        return "\n".join([*lines, self.closing()])

    def _repr_html_(self) -> str:
        rows = [(item.label, item) for item in self.items[:PRINTED]]
        hidden = max(len(self) - PRINTED, 0)
        return counted_html(self.column, rows, hidden, said=repr(self)[1:-1], whom=self.stands_for)

    def __repr__(self) -> str:
        return f"<HeavyHitters of {self.column}: {len(self.items):,} items, {self.closing()}>"

"""Which texts are common: whole values in one round, or prefix by prefix with TrieHH++."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from thresher.errors import InvalidSetting, NotReleased
from thresher.mechanism.release import ReleasedBucket
from thresher.privacy.plans import Plan
from thresher.privacy.settings import check_count
from thresher.questions import END, LONGEST_PREFIX, Prefixes, Values
from thresher.questions.population import Population, Progress
from thresher.verbs.rounds import Answer, Rounds
from thresher.verbs.trie import Trie, TrieNode, branching_trie, printable

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.tree import Tree

Method = Literal["one-shot", "trie"]


def heavy_hitters(
    population: Population,
    column: str,
    plan: Plan,
    *,
    method: Method = "one-shot",
    step: int = 1,
    progress: Progress | None = None,
) -> HeavyHitters:
    """The common values of a column.

    "one-shot" asks for whole values in a single round; it finds the most, and its trie is post-processing. "trie"
    (TrieHH++) asks in `plan.rounds` levels, each a fresh sample; in level i a unit votes for the first i·step
    characters of its text if all but the last `step` of them are in the trie already. The aggregator then only ever
    sees extensions of what is popular, at the price of a budget shared by all levels.

    Guarantee: the plan's, over all its rounds. Levels stop early when nothing extends; that returns no budget.
    Edge cases: an empty answer is valid. Texts longer than rounds·step − 1 characters cannot be finished; their
    prefixes are found and marked as not complete.
    Reference: paper, section 4.1; docs/privacy.md, section 6.
    """
    if method == "one-shot":
        return _one_shot(population, column, plan, progress)
    if method == "trie":
        return _by_levels(population, column, plan, check_count(step, setting="step", least=1, example=2), progress)
    raise InvalidSetting("method", "must be 'one-shot' or 'trie'")


def _one_shot(population: Population, column: str, plan: Plan, progress: Progress | None) -> HeavyHitters:
    if plan.rounds != 1:
        raise InvalidSetting(
            "rounds",
            f"must be 1 for the method 'one-shot', the plan has {plan.rounds}",
            hint="Plan with rounds=1, or use method='trie'.",
        )
    rounds = Rounds(population, plan, progress)
    release = rounds.ask(Values((column,)), f"values of {column}")
    items = tuple(FoundItem.of(row, row.bucket, complete=True) for row in release)
    trie = branching_trie((str(item.item), item.count, item.estimate, item.interval) for item in items)
    return HeavyHitters(plan, tuple(rounds.releases), column, items, trie)


def _by_levels(population: Population, column: str, plan: Plan, step: int, progress: Progress | None) -> HeavyHitters:
    if not plan.rounds * step <= LONGEST_PREFIX:
        raise InvalidSetting(
            "step",
            f"must be at most {LONGEST_PREFIX // plan.rounds:,} with {plan.rounds:,} levels",
            hint=f"All levels together look at no more than {LONGEST_PREFIX:,} characters.",
        )
    Prefixes(column, plan.rounds * step)  # refuses a column that cannot be asked
    rounds = Rounds(population, plan, progress)
    nodes: list[TrieNode] = []
    items: list[FoundItem] = []
    open_prefixes: frozenset[str] = frozenset()
    for level in range(1, plan.rounds + 1):
        known = (level - 1) * step
        question = Prefixes(column, level * step, known, open_prefixes)
        release = rounds.ask(question, f"prefixes of {column}, level {level}")
        for row in release:
            text, complete = row.bucket.removesuffix(END), row.bucket.endswith(END)
            parent = row.bucket[:known] if known else None
            nodes.append(TrieNode(text, row.count, row.estimate, row.interval, complete, parent))
            if complete or level == plan.rounds:
                items.append(FoundItem.of(row, text, complete=complete))
        open_prefixes = frozenset(row.bucket for row in release if not row.bucket.endswith(END))
        if not open_prefixes:
            break
    items.sort(key=lambda item: (-item.count, item.item))
    return HeavyHitters(plan, tuple(rounds.releases), column, tuple(items), Trie(tuple(nodes)))


@dataclass(frozen=True, slots=True)
class FoundItem:
    """A common value, with how many units hold it; where not `complete`, a prefix that the last level reached."""

    item: Any
    count: int
    estimate: float
    interval: tuple[int, int]
    complete: bool

    @classmethod
    def of(cls, row: ReleasedBucket, item: Any, *, complete: bool) -> FoundItem:
        """The item of a released row."""
        return cls(item, row.count, row.estimate, row.interval, complete)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeavyHitters(Answer):
    """Found items, largest first, and the trie of their prefixes.

    `count` is in the sample of the round that released the item, `estimate` is count ÷ p, and the interval is that of
    its release, given that it was released.
    """

    column: str
    items: tuple[FoundItem, ...]
    trie: Trie

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
        """Columns item, count, estimate, lower, upper, complete."""
        import pyarrow as pa

        kind = self.releases[0].table.schema.field(0).type
        return pa.table(
            {
                "item": pa.array([item.item for item in self.items], kind),
                "count": pa.array([item.count for item in self.items], pa.int64()),
                "estimate": pa.array([item.estimate for item in self.items], pa.float64()),
                "lower": pa.array([item.interval[0] for item in self.items], pa.int64()),
                "upper": pa.array([item.interval[1] for item in self.items], pa.int64()),
                "complete": pa.array([item.complete for item in self.items], pa.bool_()),
            }
        )

    def to_dict(self) -> dict[Any, float]:
        """Whole value to estimate."""
        return {item.item: item.estimate for item in self.complete}

    def to_json(self) -> str:
        """Items, trie, plan and promise as JSON."""
        content = {
            "column": self.column,
            "promise": self.promise(),
            "private": self.private,
            "plan": self.plan.to_dict(),
            "rounds_asked": self.rounds_asked,
            "items": [_plain(item) for item in self.items],
            "trie": [
                {"prefix": node.prefix, "parent": node.parent, "count": node.count, "complete": node.complete}
                for node in self.trie.nodes
            ],
        }
        return json.dumps(content, ensure_ascii=False, allow_nan=False, default=str)

    def tree(self, most: int = 60) -> Tree:
        """The trie's largest nodes for the terminal, chains of prefixes that do not branch drawn as one."""
        return self.trie.without_chains().tree(f"{self.column}: {self.promise()}", most)

    def plot(self, path: str | Path | None = None, *, most: int = 60) -> Any:
        """A picture of the same. `path` ends in .png, .svg or .html; needs the extra `plot`."""
        from thresher import charts

        trie = self.trie.without_chains()
        shown = trie.largest(most)
        places = {node.prefix: place for place, node in enumerate(shown) if not node.complete}
        part = "" if len(shown) == len(trie) else f"the largest {len(shown)} of {len(trie):,} nodes; "
        chart = charts.trie(
            [printable(node.label) for node in shown],
            [None if node.parent is None else places[node.parent] for node in shown],
            [node.estimate for node in shown],
            [node.complete for node in shown],
            title=f"Common values of {self.column}",
            subtitle=part + self.promise(),
            whom=self.stands_for,
        )
        return charts.show(chart, path)

    def __repr__(self) -> str:
        return f"<HeavyHitters of {self.column}: {len(self.items):,} items, {self.promise()}>"


def _plain(item: FoundItem) -> dict[str, Any]:
    value = item.item
    if isinstance(value, float) and not math.isfinite(value):
        value = repr(value)  # JSON has no such number; releases are written in the same way
    return {
        "item": value,
        "count": item.count,
        "estimate": item.estimate,
        "lower": item.interval[0],
        "upper": item.interval[1],
        "complete": item.complete,
    }

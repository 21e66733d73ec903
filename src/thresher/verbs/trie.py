"""The prefixes of found texts as a tree, with a count at every node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from thresher.charts.numbers import printable

if TYPE_CHECKING:
    from rich.tree import Tree


@dataclass(frozen=True, slots=True)
class TrieNode:
    """A prefix, or where `complete`, a whole text; with how many units hold it, or hold what begins with it."""

    prefix: str
    count: int
    estimate: float
    interval: tuple[int, int]
    complete: bool
    parent: str | None

    @property
    def label(self) -> str:
        """The prefix as people read it: open ones end in an ellipsis."""
        return self.prefix if self.complete else self.prefix + "…"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trie:
    """Nodes in the order in which they were found, parents before children.

    A node's `parent` is the prefix of the (never complete) node that it extends, None at the top.
    """

    nodes: tuple[TrieNode, ...]
    _children: dict[str | None, list[TrieNode]] = field(init=False)

    def __post_init__(self) -> None:
        children: dict[str | None, list[TrieNode]] = {}
        for node in self.nodes:
            children.setdefault(node.parent, []).append(node)
        for siblings in children.values():
            siblings.sort(key=lambda node: (-node.estimate, node.prefix))
        object.__setattr__(self, "_children", children)

    def __len__(self) -> int:
        return len(self.nodes)

    def children(self, node: TrieNode | None = None) -> list[TrieNode]:
        """What extends a node, largest first; without a node, the top of the trie."""
        if node is None:
            return list(self._children.get(None, ()))
        return [] if node.complete else list(self._children.get(node.prefix, ()))

    def largest(self, most: int) -> list[TrieNode]:
        """At most `most` nodes, largest first, each after its parent."""
        import heapq

        waiting = [(-node.estimate, node.prefix, node.complete, node) for node in self.children()]
        heapq.heapify(waiting)
        chosen: list[TrieNode] = []
        while waiting and len(chosen) < most:
            node = heapq.heappop(waiting)[-1]
            chosen.append(node)
            for child in self.children(node):
                heapq.heappush(waiting, (-child.estimate, child.prefix, child.complete, child))
        return chosen

    def without_chains(self) -> Trie:
        """The same trie for looking at, without nodes whose only child has, as far as counts can tell, the same units.

        "Can tell" means that the two intervals do not overlap.
        """
        standing: dict[str | None, str | None] = {None: None}
        kept: list[TrieNode] = []
        for node in self.nodes:
            parent = standing[node.parent]
            children = self.children(node)
            if len(children) == 1 and _overlap(node.interval, children[0].interval):
                standing[node.prefix] = parent
                continue
            if not node.complete:
                standing[node.prefix] = node.prefix
            kept.append(replace(node, parent=parent))
        return Trie(tuple(kept))

    def tree(self, title: str, most: int = 60) -> Tree:
        """The largest nodes as a tree for the terminal."""
        from rich.text import Text
        from rich.tree import Tree

        root = Tree(Text(title))
        shown = self.largest(most)
        branches: dict[str | None, Tree] = {None: root}
        for node in shown:
            style = "bold" if node.complete else "dim"
            low, high = node.interval
            count = f"  {node.estimate:,.0f}  ({low:,} – {high:,})"
            line = Text.assemble((printable(node.label), style), count)
            branch = branches[node.parent].add(line)
            if not node.complete:
                branches[node.prefix] = branch
        if len(shown) < len(self):
            root.add(Text(f"and {len(self) - len(shown):,} smaller nodes", style="dim"))
        root.add(Text("everything below the threshold", style="dim"))
        return root


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]

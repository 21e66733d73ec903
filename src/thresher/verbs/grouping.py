"""The same for each group: what queries that take `by=` share, and their rounds.

The question becomes one about the group columns and the number together, so a unit still has one bucket a round: the
group and the cell. Groups therefore cost nothing. Each group's own rows of the releases are then what the query without
groups would have received, had only the units of the group been asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from thresher.errors import InvalidSetting
from thresher.mechanism.release import Release
from thresher.questions import Joint, Part, Question, Values
from thresher.verbs.public_lists import STATUS, checked_domain, restricted, written_bucket
from thresher.verbs.query import Query, Rounds
from thresher.verbs.settings import Columns, Listed

MOST_GROUP_COLUMNS = 2
BY = Columns(
    "A column to group by, or two: the answer has the same for each of their values, at the same price.", label="By"
)
GROUPS = Listed(
    "A public list of groups, shown even if nothing of them was released. With one group column.",
    label="Only these groups",
)
"""The settings of every verb that takes groups."""


class GroupableQuery(Query):
    """A query that can be asked for each value of one or two group columns.

    Subclasses have the fields `column`, `by` and `groups`; they call `check_groups` when they are made, and begin their
    rounds with `if self.by: return (yield from self.ask_groups())`. All their rounds must be asked at once.
    """

    __slots__ = ()
    before: ClassVar[Mapping[str, Any]] = {"by": (), "groups": None}

    if TYPE_CHECKING:
        column: str
        by: tuple[str, ...]
        groups: tuple[Any, ...] | None

    def check_groups(self) -> None:
        """Check `by` and `groups`, and keep them as tuples."""
        by: Any = self.by
        names = tuple(by) if isinstance(by, list | tuple) else () if by is None else (by,)
        if not all(isinstance(name, str) and name for name in names):
            raise InvalidSetting("by", "must be the name of a column, or two names")
        if len(names) > MOST_GROUP_COLUMNS:
            raise InvalidSetting("by", f"must name at most {MOST_GROUP_COLUMNS} columns", hint="Group by fewer.")
        if len({*names, self.column}) <= len(names):
            raise InvalidSetting("by", "must not name a column twice, nor the column that is asked about")
        object.__setattr__(self, "by", names)
        if self.groups is None:
            return
        if not names:
            raise InvalidSetting("groups", "need by", hint="Name the column that they are values of: `by='version'`.")
        if STATUS in names:
            raise InvalidSetting("by", f"must not name a column {STATUS} with groups", hint="Rename the column.")
        object.__setattr__(self, "groups", checked_domain(self.groups, names, "groups"))

    def group_settings(self) -> dict[str, Any]:
        """The settings `by` and `groups`, as somebody would type them; none without groups."""
        if not self.by:
            return {}
        groups = None if self.groups is None else [written_bucket(group) for group in self.groups]
        return {"by": self.by[0] if len(self.by) == 1 else list(self.by), "groups": groups}

    def bucket_of(self, units: str) -> str:
        """What is released or dropped, with how many units; where there are groups, they are all of one."""
        return super().bucket_of(f"{units} of one group" if self.by else units)

    @property
    def by_words(self) -> str:
        """For example " by version and os"; empty without groups."""
        return f" by {' and '.join(self.by)}" if self.by else ""

    @property
    def group_question(self) -> Values:
        """The question for the groups alone, whose values `groups` lists."""
        return Values(self.by)

    def alone(self) -> Self:
        """The same query without groups."""
        return replace(self, by=(), groups=None)  # type: ignore[call-arg]

    def checked_by(self, check: Callable[[Question], None]) -> None:
        """The group columns first: what is wrong with one of them is said of `by`."""
        if self.by:
            try:
                check(self.group_question)
            except InvalidSetting as error:
                raise _renamed(error, "column", "by") from None
        super().checked_by(check)

    def with_domain(self, read: Any) -> Self:
        """The listed groups in the form in which the population counts them."""
        if self.groups is None:
            return self
        try:
            return replace(self, groups=read(self.group_question, self.groups))  # type: ignore[call-arg]
        except InvalidSetting as error:
            raise _renamed(error, "domain", "groups") from None

    def too_large(self, fits: Callable[[Query], bool], most: str) -> InvalidSetting:
        """The list of groups is to blame, if there is one and the query fits without it."""
        if self.groups is not None and fits(replace(self, groups=None)):  # type: ignore[call-arg]
            return InvalidSetting("groups", f"are too many for a fleet, which takes {most}", hint="Name fewer.")
        return super().too_large(fits, most)

    def ask_groups(self) -> Rounds:
        """Ask all rounds of the query at once, each for groups and numbers together."""
        from thresher.verbs.groups import Grouped

        questions = next(self.alone().rounds())
        releases = yield [self._of_groups(question) for question in questions]
        return Grouped(self, tuple(restricted(release, self.groups, self._group_in) for release in releases))

    def answer_of_group(self, releases: Sequence[Release]) -> Any:
        """The answer of the query without groups from one group's rows of the releases; see `rows_of_group`."""
        rounds = self.alone().rounds()
        next(rounds)
        try:
            rounds.send(releases)
        except StopIteration as stopped:
            return stopped.value
        raise NotImplementedError(f"{self.verb} does not ask all its rounds at once")

    def _group_in(self, bucket: tuple[Any, ...]) -> Any:
        return group_of(bucket, len(self.by))

    def _of_groups(self, question: Question) -> Joint:
        groups: tuple[Part, ...] = tuple(Values((column,)) for column in self.by)
        return Joint((*groups, *question.parts))


def _renamed(error: InvalidSetting, setting: str, name: str) -> InvalidSetting:
    """The same error about a setting of another name; an error about any other setting as it is."""
    if error.setting != setting:
        return error
    problem = error.message.removeprefix(f"{setting} ").removesuffix(".")
    return InvalidSetting(name, problem, hint=error.hint)


def group_of(bucket: tuple[Any, ...], columns: int) -> Any:
    """The group in a bucket: its first value, or a tuple of its first values where there are several group columns."""
    return bucket[0] if columns == 1 else bucket[:columns]


def rows_of_group(release: Release, rows: Sequence[int], columns: int) -> Release:
    """A release of these rows of a release, without its first `columns` columns, which name the group.

    Guarantee: it only rearranges what was released, so it is post-processing and costs nothing. Plan, response and unit
    stay as they are. Coins are independent for each unit and the threshold holds for each bucket by itself, so the rows
    have the law of a round in which only the group's units had been asked.
    """
    import pyarrow as pa

    kept = release.table.column_names[columns:]
    table = release.table.select(kept).take(pa.array(rows, pa.int64()))
    return replace(release, table=table.combine_chunks())

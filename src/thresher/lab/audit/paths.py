"""The code paths from people to a release, as mechanisms that can be attacked.

Each draws many independent releases of one small population at once: the population's copies, every copy in buckets of
its own, are one large population.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thresher.errors import VerificationFailed
from thresher.lab.audit.neighbours import ABSENT, Population
from thresher.lab.audit.several_values import counting
from thresher.mechanism import Release, coins, sample_and_threshold, threshold
from thresher.privacy.plans import Plan
from thresher.questions import Values
from thresher.tables.table import SAMPLING_RATE_LIMIT, Table

Observed = NDArray[np.int64]

PATHS = ("counts", "table", "device")
"""The paths that are audited by default; they are quick. The others are audited on request."""
FLEET = "fleet"
"""Real devices and a real server, over HTTP."""
INJECTED = "injected"
"""A collector that adds reports of its own to one person's."""
LEDGER = "ledger"
"""Many queries on a table, chosen one after another until the ledger refuses."""


class Mechanism(Protocol):
    """Anything that draws releases."""

    def __call__(self, population: Population, trials: int, plan: Plan) -> Observed:
        """What an analyst sees of `trials` independent draws, a row a draw.

        First a column for each round and bucket, round by round: the released count, 0 where nothing is released.
        Then a column for anything else that shows; what is shipped has none.
        """
        ...


def shipped(path: str, plan: Plan) -> Iterator[tuple[str, Mechanism]]:
    """The mechanisms behind a path, with their names."""
    if path == "counts":
        yield "counts", from_counts
    elif path == "device":
        yield "device", from_devices
    else:
        if plan.sampling_rate <= SAMPLING_RATE_LIMIT and plan.contributions == 1:
            yield "table, rows sampled", FromTable(several_rows=False)
        yield "table, counts thinned", FromTable(several_rows=True)


def from_counts(population: Population, trials: int, plan: Plan) -> Observed:
    """`sample_and_threshold` on exact counts."""
    rounds = []
    for asked in range(population.rounds):
        if population.holders is None:
            counts = np.tile(population.counts(asked), trials)
        else:
            counts = tally(population, asked, counting(population, asked, trials, plan.contributions)).ravel()
        rounds.append(observed(sample_and_threshold((np.arange(len(counts)), counts), plan), population, trials))
    return np.concatenate(rounds, axis=1)


def from_devices(population: Population, trials: int, plan: Plan) -> Observed:
    """Each unit tosses a coin in each round, for each of its values that count; those with heads are counted."""
    rounds = []
    for asked in range(population.rounds):
        reports = coins(trials * population.values, plan.sampling_rate).reshape(trials, population.values)
        if population.holders is not None:
            reports &= counting(population, asked, trials, plan.contributions)
        sampled = tally(population, asked, reports).ravel()
        kept = np.flatnonzero(threshold(sampled, plan))
        rounds.append(observed(Release.of(kept, sampled[kept], plan, private=True), population, trials))
    return np.concatenate(rounds, axis=1)


def tally(population: Population, asked: int, marked: NDArray[np.bool_]) -> Observed:
    """How many marked values each bucket has in a round; `marked` and the result have a row a trial."""
    held = np.array(population.answers[asked], dtype=np.int64)
    counts = [marked[:, held == bucket].sum(axis=1, dtype=np.int64) for bucket in range(population.buckets)]
    return np.column_stack(counts)


class FromTable:
    """`Table.ask` on a table in memory, with a column for each round.

    With `several_rows` each unit has two rows for each of its values and is named by a column: then units are chosen
    first, and their counts thinned. Without, each row is a unit, and rows are sampled before they are counted (up to a
    rate of 0.4).
    """

    def __init__(self, *, several_rows: bool) -> None:
        self._several_rows = several_rows
        self._copies = 0
        self._population: Population | None = None
        self._table: Table | None = None

    def __call__(self, population: Population, trials: int, plan: Plan) -> Observed:
        """Ask once for all trials. The table is kept, since every further `ask` draws again."""
        if self._table is None or self._population != population or self._copies < trials:
            self.close()
            self._table = Table(
                _rows(population, trials, 2 if self._several_rows else 1),
                unit="unit" if self._several_rows else None,
            )
            self._population, self._copies = population, trials
        rounds = []
        for asked in range(population.rounds):
            release = self._table.ask(Values((_column(asked),)), plan)
            rounds.append(observed(release, population, self._copies)[:trials])
        return np.concatenate(rounds, axis=1)

    def close(self) -> None:
        """Close the table."""
        if self._table is not None:
            self._table.close()
            self._table = None


def _column(asked: int) -> str:
    return f"round {asked + 1}"


def _rows(population: Population, copies: int, rows_a_value: int) -> pa.Table:
    """Copies of a population as rows; each copy's buckets are its own."""
    units = np.arange(copies)[:, None] * population.units + np.array(population.units_of_values, dtype=np.int64)
    columns = {"unit": pa.array(np.repeat(units.ravel(), rows_a_value))}
    for asked, answers in enumerate(population.answers):
        held = np.array(answers, dtype=np.int64)
        buckets = (np.arange(copies)[:, None] * population.buckets + held).ravel()
        silent = np.tile(held == ABSENT, copies)
        columns[_column(asked)] = pa.array(np.repeat(buckets, rows_a_value), mask=np.repeat(silent, rows_a_value))
    return pa.table(columns)


def observed(release: Release, population: Population, trials: int) -> Observed:
    """A release's counts, a row a copy of the population; the release may hold nothing else.

    Bucket b of copy c is released under the number c·buckets + b, or that number as text.
    """
    require_only_rows(release)
    counts = np.zeros(trials * population.buckets, dtype=np.int64)
    counts[release.table.column(0).cast(pa.int64()).to_numpy()] = release.counts
    return counts.reshape(trials, population.buckets)


def require_only_rows(release: Release) -> None:
    """Raise `VerificationFailed` if a release holds anything that does not follow from its rows and its plan."""
    again = release.made_again()
    for field in fields(release):
        shown, expected = getattr(release, field.name), getattr(again, field.name)
        same = shown.equals(expected, check_metadata=True) if isinstance(shown, pa.Table) else shown == expected
        # A release that was read from its text has its table, and keeps no counts beside it.
        if not same and not (field.name == "_counted" and shown is None):
            raise VerificationFailed(
                f"The field {field.name!r} of a release does not follow from the released counts.",
                hint="A release must not tell anything about what was sampled and not released.",
            )

"""A ledger's whole life: queries on a table, each chosen after the releases before it, until the ledger refuses.

The attacker knows everything but one unit: which of two neighbouring populations it looks at. After half of the queries
it looks at the privacy loss so far and chooses whether to go on, and with which plan; at last it guesses.

Many lives are lived at once: copies of the population are one table, every copy in buckets of its own. Copies whose
attackers chose alike share a ledger; where they part, the ledger's file is copied, and each part goes on with its own.
So every query is asked by the public verb and charged to a real ledger.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thresher.errors import BudgetExceeded, InvalidSetting
from thresher.lab.audit.attacks import Event, Happens
from thresher.lab.audit.lots import DrawnInLots
from thresher.lab.audit.neighbours import LARGEST, Pair, Population, removed, replaced, worst_removed
from thresher.lab.audit.paths import LEDGER, Observed, observed
from thresher.ledger import Ledger
from thresher.privacy import binomial, guarantee
from thresher.privacy.binomial import Floats
from thresher.privacy.budget import Budget
from thresher.privacy.plans import Plan
from thresher.privacy.settings import dyadic
from thresher.tables.table import Table
from thresher.verbs import histogram

QUERIES = 6
"""At least so many queries with the audited plan fit the audited ledger."""
MOST_QUERIES = 60
"""A life ends after so many queries, also under a ledger that never refuses."""

_DELTAS = tuple(digit * 10.0**power for power in range(-12, 0) for digit in (1, 2, 5))
_SCALE, _MIDDLE = 100, 10_000  # a loss x is shown as the whole number 100·x + 10,000, between 0 and 20,000
_COLUMN = "held"
_DRAWS = 2_000
_ENOUGH = 2.0  # an attacker whose loss is this many epsilons stops


def ledger_delta(plan: Plan) -> float:
    """The delta of the audited ledger: the smallest of 1, 2 and 5 times a power of ten at which `QUERIES` queries fit.

    Raises: `InvalidSetting` where the plan is too weak for that.
    """
    for delta in _DELTAS:
        budget = Budget.make(plan.epsilon, delta)
        if budget.affords(budget.price(plan)) >= QUERIES:
            return delta
    raise InvalidSetting(
        "path",
        f"{LEDGER!r} needs a plan of which {QUERIES} queries fit a ledger of this epsilon",
        hint="Audit a lower sampling rate or a higher threshold, for example 0.3 and 8 with epsilon 0.5.",
    )


class FromLedger(DrawnInLots):
    """Whole lives; what is observed of each is the attacker's privacy loss at its end."""

    path = LEDGER

    def __init__(self, delta: float) -> None:
        super().__init__(_DRAWS)
        self._delta = delta
        self._pair_of: dict[Population, Pair] = {}

    def pairs(self, plan: Plan) -> list[Pair]:
        """Three sizes of the unit's bucket, from just above the threshold to where it is released half of the time."""
        if plan.rounds != 1:
            raise InvalidSetting("path", f"{self.path!r} audits queries of one round", hint="Give `rounds=1`.")
        self._require_known(plan)
        pairs = self._pairs(plan)
        self._pair_of = {population: pair for pair in pairs for population in pair.populations}
        return pairs

    def _pairs(self, plan: Plan) -> list[Pair]:
        middle = math.ceil(plan.threshold / plan.sampling_rate)
        wanted = sorted({plan.threshold + 2, worst_removed(plan, share=QUERIES), middle})
        sizes = [size for at, size in enumerate(wanted) if size <= LARGEST and size - 1 not in wanted[:at]]
        if plan.adjacency == "add-remove":
            return [removed(size, 1) for size in sizes]
        return [replaced(size, size, 1) for size in sizes]

    def events(self, plan: Plan) -> Iterator[Event]:
        """Guesses: the first population where the loss of the whole life is high, the second where it is low."""
        for factor in (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0):
            least = round(_SCALE * factor * plan.epsilon)
            name = f"{factor * plan.epsilon:g} after a ledger's whole life"
            yield Event(f"a privacy loss of at least {name}", _at_least(_MIDDLE + least))
            yield Event(f"a privacy loss of at most −{name}", _at_most(_MIDDLE - least))

    def _lot(self, population: Population, copies: int, plan: Plan) -> Observed:
        """So many whole lives, a row each."""
        pair = self._pair_of[population]
        losses = np.zeros(copies)
        with tempfile.TemporaryDirectory(prefix="thresher-audit-") as folder:
            first = Path(folder) / "first.db"
            Ledger(first, epsilon=plan.epsilon, delta=self._delta, adjacency=plan.adjacency)
            losses += _asked(population, copies, pair, plan, first, QUERIES // 2)
            for number, (chosen, wanted) in enumerate(_chosen(losses, plan)):
                ledger = first.with_name(f"{number}.db")
                shutil.copyfile(first, ledger)
                at = np.flatnonzero(chosen)
                losses[at] += _asked(population, len(at), pair, wanted, ledger, MOST_QUERIES - QUERIES // 2)
        shown = np.floor(_SCALE * np.nan_to_num(losses, posinf=1e6, neginf=-1e6)) + _MIDDLE
        lives: Observed = np.clip(shown, 0, 2 * _MIDDLE).astype(np.int64)[:, None]
        return lives


def _chosen(losses: Floats, plan: Plan) -> Iterator[tuple[NDArray[np.bool_], Plan]]:
    """Who goes on with which plan: the audited one where the loss is small, else a gentler one; enough is enough."""
    size = np.abs(losses)
    yield size < 0.5 * plan.epsilon, plan
    yield (size >= 0.5 * plan.epsilon) & (size < _ENOUGH * plan.epsilon), _gentle(plan)


def _asked(population: Population, copies: int, pair: Pair, plan: Plan, ledger: Path, most: int) -> Floats:
    """Ask with this plan, at most so often, until the ledger refuses; the losses, added up."""
    losses = np.zeros(copies)
    if copies:
        with Table(_rows(population, copies)) as table:
            for _ in range(most):
                try:
                    answer = histogram(table, _COLUMN, plan=plan, ledger=Ledger(ledger))
                except BudgetExceeded:
                    break
                losses += _losses(observed(answer.release, population, copies), pair, plan)
    return losses


def _gentle(plan: Plan) -> Plan:
    """A plan that samples three quarters as many, with its own guarantee."""
    rate, epsilon = dyadic(0.75 * plan.sampling_rate), plan.epsilon / 2
    delta = guarantee.delta(sampling_rate=rate, threshold=plan.threshold, epsilon=epsilon, adjacency=plan.adjacency)
    return Plan(rate, plan.threshold, epsilon, delta, plan.adjacency)


def _rows(population: Population, copies: int) -> pa.Table:
    """Copies of a population, a row a unit; each copy's buckets are its own."""
    [answers] = population.answers
    held = np.arange(copies)[:, None] * population.buckets + np.array(answers, dtype=np.int64)
    return pa.table({_COLUMN: pa.array(held.ravel())})


def _losses(counts: Observed, pair: Pair, plan: Plan) -> Floats:
    """ln Pr[seen | first population] − ln Pr[seen | second], for each row; infinite where only one can show it."""
    total = np.zeros(len(counts))
    for bucket in range(pair.first.buckets):
        logs = []
        for population in pair.populations:
            size = int(population.counts(0)[bucket])
            with np.errstate(divide="ignore"):
                hidden = np.log(binomial.miss(size, plan.threshold, plan.sampling_rate))
            seen = binomial.log_point(size, counts[:, bucket], plan.sampling_rate)
            logs.append(np.where(counts[:, bucket] > 0, seen, hidden))
        with np.errstate(invalid="ignore"):
            total += logs[0] - logs[1]
    return total


def _at_least(least: int) -> Happens:
    return lambda seen: seen[:, 0] >= least


def _at_most(most: int) -> Happens:
    return lambda seen: seen[:, 0] <= most

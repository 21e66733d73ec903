"""The computed adversary: it is right where the answer is known, the filter holds against it, wrong filters do not."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import pytest
from wrong_filters import AnyOrder, ChargedAfterwards, NoAtoms, RefundedAfterDraw, SeparatePots

from thresher.lab.adversary import FilterRule, Move, any_mechanism, most_gained, sampled
from thresher.privacy import Budget, Plan, delta, plan
from thresher.privacy.settings import dyadic

EIGHTH = 0.125  # mechanisms whose losses are multiples of the step lie on the grid, and both bounds agree


def made(rate, threshold, epsilon, adjacency="replace", rounds=1) -> Plan:
    rate = dyadic(rate)
    reached = delta(sampling_rate=rate, threshold=threshold, epsilon=epsilon, adjacency=adjacency, rounds=rounds)
    return Plan(rate, threshold, epsilon, reached, adjacency, rounds)


@dataclass(frozen=True)
class SoMany:
    """A rule that allows a number of rounds, each of any query."""

    names: tuple[str, ...]
    rounds: int

    @property
    def start(self) -> int:
        return self.rounds

    def moves(self, state: int) -> Iterator[Move[int]]:
        for name in self.names if state else ():
            yield Move(name, state - 1)


# The program


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_one_plan_again_and_again_gains_what_exact_composition_says(adjacency):
    rate, threshold, epsilon = dyadic(0.2), 10, 1.0
    truth = delta(sampling_rate=rate, threshold=threshold, epsilon=epsilon, adjacency=adjacency, rounds=12)
    one = Plan(rate, threshold, 0.5, 0.5, adjacency)
    found = []
    for direction in ("removal", "addition"):
        query = sampled(one, direction)
        found.append(most_gained(SoMany((query.name,), 12), [query], epsilon, step=0.0005))
    lower, upper = max(each.lower for each in found), max(each.upper for each in found)
    assert lower <= truth * (1 + 1e-9) and truth * (1 - 1e-3) <= upper  # the truth is itself rounded up by 1e-4
    assert lower > 0.95 * truth and upper < 1.01 * truth


def best_by_trying_everything(mechanisms, epsilon, rounds, likely=1.0, unlikely=1.0):
    """The most gained by choosing among mechanisms given as {outcome: (P, Q)}, with no grid and no losses."""
    stop = max(likely - math.exp(epsilon) * unlikely, 0.0)
    if not rounds:
        return stop
    tried = [
        sum(
            best_by_trying_everything(mechanisms, epsilon, rounds - 1, likely * p, unlikely * q)
            for p, q in outcomes.values()
        )
        for outcomes in mechanisms
    ]
    return max(stop, *tried)


def test_an_adversary_that_chooses_agrees_with_trying_everything():
    def outcomes(epsilon, revealed):
        true = 1 / (1 + math.exp(-epsilon))
        told = {"yes": (true, 1 - true), "no": (1 - true, true)}
        shown = {key: ((1 - revealed) * p, (1 - revealed) * q) for key, (p, q) in told.items()}
        return shown | {"reveals": (revealed, 0.0)}

    kinds = [(EIGHTH, 0.01), (5 * EIGHTH, 0.001)]
    queries = [any_mechanism(*each) for each in kinds]
    for epsilon, rounds in product((0.25, 1.0), (1, 3, 5)):
        truth = best_by_trying_everything([outcomes(*each) for each in kinds], epsilon, rounds)
        found = most_gained(SoMany(tuple(query.name for query in queries), rounds), queries, epsilon, step=EIGHTH)
        assert found.lower == pytest.approx(truth, abs=1e-9)
        assert found.upper == pytest.approx(truth, abs=1e-5)  # losses beyond the grid count as infinite


def test_choosing_gains_more_than_any_fixed_order():
    """Negative control of the program: an adversary that ignores what it sees does worse."""
    queries = [any_mechanism(EIGHTH, 0.05), any_mechanism(8 * EIGHTH, 1e-9)]
    chosen = most_gained(SoMany(tuple(query.name for query in queries), 4), queries, 1.5, step=EIGHTH).lower

    @dataclass(frozen=True)
    class Fixed:
        order: tuple[str, ...]
        start: int = 0

        def moves(self, state):
            if state < len(self.order):
                yield Move(self.order[state], state + 1)

    fixed = max(
        most_gained(Fixed(order), queries, 1.5, step=EIGHTH).upper
        for order in product([query.name for query in queries], repeat=4)
    )
    assert chosen > 1.02 * fixed


# The filter


A, B = made(0.2, 10, 0.5), made(0.1, 8, 0.3)
ATOMS = made(0.02, 2, 1.0)
SMALL, MIDDLE, LARGE = (any_mechanism(times * EIGHTH, 1e-9) for times in (1, 4, 10))

LEDGERS = {  # name: (epsilon, delta, queries, step, what else the rule has)
    "two plans": (1, 1e-2, [sampled(A), sampled(B)], 0.005, {}),
    "two plans, larger epsilon": (2, 1e-3, [sampled(A), sampled(B)], 0.005, {}),
    "a plan that the plain sum alone admits": (1, 1e-2, [sampled(A), sampled(plan(1.0, 9e-4))], 0.005, {}),
    "everything for the plain sum": (1, 1e-2, [any_mechanism(0.5, 4.9e-4), sampled(A)], 0.005, {}),
    "atoms": (3, 1e-2, [sampled(ATOMS), sampled(A)], 0.01, {}),
    "any mechanism, small and large": (5, 1e-3, [SMALL, MIDDLE, LARGE], EIGHTH, {}),
    "any mechanism and a plan": (2, 1e-2, [sampled(A), any_mechanism(0.2, 1e-5)], 0.005, {}),
    "add-remove, a unit removed": (
        1,
        1e-2,
        [sampled(made(0.2, 10, 0.5, "add-remove")), sampled(made(0.1, 5, 0.5, "add-remove"))],
        0.005,
        {},
    ),
    "add-remove, a unit added": (
        1,
        1e-2,
        [
            sampled(made(0.2, 10, 0.5, "add-remove"), "addition"),
            sampled(made(0.4, 10, 0.5, "add-remove"), "addition"),
        ],
        0.005,
        {},
    ),
    "rounds that are cancelled": (1, 1e-2, [sampled(made(0.2, 10, 0.9, rounds=5)), sampled(A)], 0.01, {}),
    "queries whose rounds interleave": (
        1,
        1e-2,
        [sampled(made(0.2, 10, 0.9, rounds=4)), sampled(made(0.25, 12, 0.6, rounds=2))],
        0.02,
        {"most_open": 2},
    ),
    "enlarged when it likes": (1, 1e-2, [sampled(A), any_mechanism(0.3, 1e-4)], 0.01, {"larger": (1.5, 2.0)}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEDGERS)
def test_the_filter_holds(name, record_property):
    epsilon, total, queries, step, more = LEDGERS[name]
    rule = FilterRule(Budget.make(epsilon, total), queries, **more)
    found = most_gained(rule, queries, max((epsilon, *more.get("larger", ()))), step=step)
    ratio = f"{found.lower / total:.3f} to {found.upper / total:.3f}"
    record_property("ratio", ratio)
    print(f"{name}: {ratio} of delta, {found.states} states")
    assert found.states > 10, "the adversary has a choice"
    assert 0 < found.lower <= found.upper <= total


# Filters that are wrong on purpose. The same queries under the right rule stay below delta.


def found_out(rule, queries, epsilon, total, *, step):
    right = FilterRule(Budget.make(epsilon, total), queries)
    assert most_gained(right, queries, epsilon, step=step).upper <= total
    return most_gained(rule, queries, epsilon, step=step).lower / total


def test_separate_pots_are_found():
    budget = Budget.make(3, 1e-4)
    queries = [sampled(A), any_mechanism(3.0, 9e-6)]
    assert found_out(SeparatePots(budget, queries), queries, 3, 1e-4, step=0.01) > 1000


@pytest.mark.slow
def test_separate_pots_are_found_with_plans_of_our_own():
    """A query of many rounds, planned for all that the plain sum has, and queries for the filter beside it."""
    budget = Budget.make(3, 1e-3)
    many = sampled(plan(3.0, 9e-5, rounds=20))
    whole = replace(many, parts=many.parts * 20, rounds=1)
    queries = [whole, sampled(A)]
    # The right rule draws one round at a time; asking for all of them is one of its adversary's choices.
    assert most_gained(SeparatePots(budget, queries), queries, 3, step=0.002).lower > 2 * 1e-3


@pytest.mark.slow
def test_any_order_that_fits_with_one_delta_for_all_is_found():
    """Each order alone would be right: with one order the adversary stays far below delta."""
    epsilon, total, queries = 5, 1e-3, [SMALL, MIDDLE, LARGE]
    order = Budget.make(epsilon, total).filter.order
    orders = [1 + (order - 1) * 1.3**step for step in range(-8, 10)]
    for alone in (orders[0], order, orders[-1]):
        rule = AnyOrder.of(epsilon, total, [alone], queries)
        assert most_gained(rule, queries, epsilon, step=EIGHTH).upper < 0.9 * total
    assert found_out(AnyOrder.of(epsilon, total, orders, queries), queries, epsilon, total, step=EIGHTH) > 1.2


def test_a_filter_without_its_atoms_is_found():
    queries = [sampled(made(0.05, 2, 1.0))]
    assert found_out(NoAtoms(Budget.make(3, 1e-3), queries), queries, 3, 1e-3, step=0.01) > 100


def test_costs_that_are_charged_after_the_draw_are_found():
    queries = [sampled(A), any_mechanism(3.0, 9e-5)]
    assert found_out(ChargedAfterwards(Budget.make(3, 1e-3), queries), queries, 3, 1e-3, step=0.01) > 500
    own = [sampled(A), sampled(plan(1.0, 1e-2))]  # one query of our own that is ten times too large
    assert found_out(ChargedAfterwards(Budget.make(1, 1e-3), own), own, 1, 1e-3, step=0.005) > 5


@pytest.mark.slow
@pytest.mark.parametrize(("refunds", "least"), [(3, 1), (10, 15)])
def test_a_refund_after_a_draw_is_found(refunds, least):
    queries = [sampled(A), sampled(plan(1.0, 9e-5))]
    rule = RefundedAfterDraw(Budget.make(1, 1e-3), queries, refunds)
    assert found_out(rule, queries, 1, 1e-3, step=0.005) > least

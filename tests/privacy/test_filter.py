"""The filter's costs against independent computations, its conversion, its order, and the numbers it must reach."""

import dataclasses
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from filter_witnesses import by_long_doubles, by_mpmath, by_plain_loops
from hypothesis import example, given, settings
from hypothesis import strategies as st

import thresher as th
from thresher.privacy import Budget, Filter, filter, losses
from thresher.privacy.exact import longest_wait

ADJACENCIES = ("replace", "add-remove")
FILTER = Filter(4.0, 1e-7, 8e-7, 1e-7)
MARGIN = 1e-9  # what each of the two logarithms of a sum is rounded up by


def cost(rate, threshold, adjacency, order, *, room=1.0, delta_atom=1e-7):
    return filter._round_cost.__wrapped__(rate, threshold, adjacency, order, room, delta_atom)


# One round's cost


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("order", [1.2, 3.9, 22.4])
@pytest.mark.parametrize(("rate", "threshold"), [(0.05, 3), (0.1, 20), (0.304, 25), (0.7, 40), (0.95, 5), (0.4, 1)])
def test_costs_agree_with_two_plain_loops(rate, threshold, order, adjacency):
    found = cost(rate, threshold, adjacency, order)
    truth = by_plain_loops(rate, threshold, order, found.cut, longest_wait(rate, threshold))
    # The loops themselves are off by about 1e-11 in a logarithm.
    assert -1e-10 <= (found.renyi - truth.cost(adjacency)[0]) * (order - 1) <= 2 * MARGIN + 1e-10 + 1e-11 * order
    assert found.bad == pytest.approx(truth.bad, rel=2e-9)


AWKWARD = [
    (rate, threshold, order)
    for rate in (0.1, 0.5, 0.97, 1 - 2.0**-30)
    for threshold in (1, 2, 13)
    for order in (1 + 1e-6, 1.5, 9.06, 1e5)
] + [(0.02, 1, 3.9), (0.5, 150, 3.9), (0.5, 150, 1e5)]


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "threshold", "order"), AWKWARD)
def test_costs_are_never_below_fifty_digits(rate, threshold, order):
    for adjacency in ADJACENCIES:
        found = cost(rate, threshold, adjacency, order)
        truth = by_mpmath(rate, threshold, order, found.cut, longest_wait(rate, threshold))
        least, most = truth.cost(adjacency)
        assert found.renyi >= least
        assert found.bad >= truth.bad
        assert found.bad <= truth.bad * (1 + 2e-9)
        # Two margins, what the logarithms lose themselves, and 1e-9 of the largest loss where that is the bound. At an
        # order of 1e5 what lies beyond the longest wait counts, and is bounded by its worst: a tenth at most.
        largest = -math.log1p(-rate)
        loose = 0.1 * most if order == 1e5 else 0.0
        assert found.renyi <= most + 2.1 * MARGIN / (order - 1) + 1e-9 * largest + 1e-11 * most + loose


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("order", [1.05, 3.9, 1e3, 1e5])
@pytest.mark.parametrize(("rate", "threshold"), [(1e-3, 100), (1e-4, 20), (2e-4, 3), (3e-4, 1)])
def test_grouped_costs_are_never_below_the_sum_over_all_values(rate, threshold, order, adjacency):
    longest = longest_wait(rate, threshold)
    assert longest - threshold > filter._DENSE_LIMIT
    found = cost(rate, threshold, adjacency, order)
    truth = by_long_doubles(rate, threshold, order, found.cut, longest)
    least = float(truth.cost(adjacency)[0])
    assert found.renyi >= least
    assert found.renyi <= least * 1.001 + 3 * MARGIN / (order - 1)
    assert float(truth.bad) <= found.bad <= float(truth.bad) * (1 + 2e-9)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("order", [1.5, 9.06, 300.0])
@pytest.mark.parametrize(("rate", "threshold"), [(0.02, 40), (0.1, 20), (0.02, 1)])
def test_dense_and_grouped_sums_agree(monkeypatch, rate, threshold, order, adjacency):
    dense = cost(rate, threshold, adjacency, order)
    monkeypatch.setattr(filter, "_DENSE_LIMIT", 0)
    monkeypatch.setattr(losses, "_DENSE_ATOMS", 0)
    grouped = cost(rate, threshold, adjacency, order)
    shares = [max(each.renyi / 1.0, each.bad / 1e-7) for each in (dense, grouped)]
    # Grouping moves a cost up by little; cuts lie between groups only, which costs about as little.
    assert shares[0] * (1 - 1e-6) <= shares[1] <= shares[0] * 1.01 + 1e-9


@pytest.mark.slow
@given(
    st.floats(1e-3, 0.999),
    st.integers(1, 60),
    st.floats(1.001, 50.0),
    st.floats(1.0, 3.0),
)
@settings(max_examples=40, deadline=None)
@example(0.5, 1, 2.0, 2.0)
def test_costs_do_not_fall_with_the_order(rate, threshold, order, factor):
    """For one cut: a moment's logarithm over its order, of at most all mass, does not fall."""
    low, high = (filter._removal(rate, threshold, each)[0] for each in (order, 1 + (order - 1) * factor))
    assert (low <= high + 2 * MARGIN / (order - 1) + 1e-9).all()
    low, high = (filter._addition(rate, threshold, each) for each in (order, 1 + (order - 1) * factor))
    assert low <= high + 2 * MARGIN / (order - 1) + 1e-9


@pytest.mark.slow
@given(st.floats(1e-2, 0.99), st.floats(0.1, 1.0), st.integers(1, 60), st.integers(0, 20), st.floats(1.01, 50.0))
@settings(max_examples=40, deadline=None)
def test_addition_does_not_fall_with_the_rate_nor_rise_with_the_threshold(rate, part, threshold, more, order):
    """A smaller rate and a larger threshold are post-processing; removals have no such proof for one cut."""
    weak = filter._addition(rate, threshold, order)
    assert filter._addition(rate * part, threshold + more, order) <= weak + 2 * MARGIN / (order - 1) + 1e-9


@pytest.mark.slow
def test_an_underflowed_mass_is_still_charged():
    found = cost(0.1, 1000, "replace", 4.0, delta_atom=1e-300)
    assert found.bad > 0
    assert Budget.make(3, 1e-6).price(th.Plan(2.0**-10, 5000, 1.0, 1e-9)).bad > 0


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_cut_balances_what_runs_out(adjacency):
    """No other cut lets more rounds through than the one that is chosen."""
    rate, threshold, order, room, atom = 0.05, 40, 22.4, 0.5, 1e-7
    chosen = cost(rate, threshold, adjacency, order, room=room, delta_atom=atom)
    share = max(chosen.renyi / room, chosen.bad / atom)
    others = []
    for cut in range(threshold, threshold + 400, 7):
        truth = by_plain_loops(rate, threshold, order, cut, longest_wait(rate, threshold))
        others.append(max(truth.cost(adjacency)[0] / room, truth.bad / atom))
    assert chosen.cut > threshold
    assert share <= min(others) * (1 + 1e-6)


# Anything that is (epsilon, delta)-differentially private


@given(st.floats(1e-3, 5.0), st.floats(1e-9, 0.2), st.floats(1.01, 60.0))
@settings(max_examples=60, deadline=None)
def test_foreign_costs_cover_the_worst_mechanism(epsilon, delta, order):
    """Brute force on the four outcomes of the mechanism that every other one is a post-processing of."""
    found = Filter(order, 1e-7, 8e-7, 1e-7).foreign_cost(epsilon, delta)
    with mpmath.workdps(50):
        e, a = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(order)
        true = [(1 - delta) * e / (1 + e), (1 - delta) / (1 + e)]
        moment = sum(p**a * q ** (1 - a) for p, q in zip(true, reversed(true), strict=True))
        truth = mpmath.log(moment) / (a - 1)
        # What is left out is the logarithm of 1 − delta.
        assert (
            max(truth, 0) <= found.renyi <= max(truth - mpmath.log1p(-delta) / (a - 1), 0) + 2e-9 / (order - 1) + 1e-9
        )
    assert found.bad == delta


def test_foreign_costs_cover_rounds_of_our_own():
    """One round, known by its (epsilon, delta) only, costs more than the same round known by its plan."""
    budget = Budget.make(3, 1e-6)
    plan = th.plan(0.5, 1e-9)
    priced, foreign = budget.price(plan), budget.foreign(plan.epsilon, plan.delta)
    assert foreign.renyi > priced.renyi
    assert budget.affords(foreign) < budget.affords(priced)


# Conversion, order and split


@pytest.mark.slow
@given(st.floats(1e-6, 1e5), st.floats(1e-300, 0.5), st.floats(1.0, 3.0), st.floats(0.0, 1e-9))
@example(1.3475463339953516e-05, 3.725466238737334e-157, 1.0, 0.0)  # an order of 10^7
@example(1e-6, 1e-12, 1.0, 0.0)
@settings(max_examples=100, deadline=None)
def test_room_is_rounded_down_and_epsilon_up(epsilon, delta, factor, above):
    found = Filter.best(epsilon, delta)
    with mpmath.workdps(50):
        a = mpmath.mpf(found.order)
        added = mpmath.log((a - 1) / a) - (mpmath.log(found.delta_renyi) + mpmath.log(a)) / (a - 1)
        for total in (epsilon, epsilon * factor, abs(float(added)) * (1 + above)):
            room = found.room(total)
            assert room <= max(mpmath.mpf(total) - added, 0)
            assert room >= mpmath.mpf(total) - added - 1e-11 * (total + abs(added) + 100 / (found.order - 1))
            assert found.epsilon(room) >= max(room + added, 0)


@given(st.floats(1e-300, 1 - 1e-9))
def test_the_parts_of_delta_are_at_most_all_of_it(delta):
    made = Budget(
        1.0, delta, Filter(2.0, *(filter._below(delta, part) for part in (filter.PLAIN, filter.RENYI, filter.ATOM)))
    )
    parts = (made.filter.delta_plain, made.filter.delta_renyi, made.filter.delta_atom)
    assert sum(Fraction(repr(part)) for part in parts) <= Fraction(repr(delta))
    assert sum(parts) >= delta * (1 - 1e-12)


def queries(order, epsilon, delta, plan):
    terms = Filter(order, *(filter._below(delta, part) for part in (filter.PLAIN, filter.RENYI, filter.ATOM)))
    budget = Budget(epsilon, delta, terms)
    return budget.affords(budget.price(plan))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "query"),
    [((10, 1e-6), (0.3, 1e-9)), ((3, 1e-6), (0.1, 1e-10)), ((1, 1e-6), (0.03, 1e-10)), ((0.1, 1e-8), (3e-3, 1e-12))],
)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_order_is_within_a_hundredth_of_the_best(budget, query, adjacency):
    plan = th.plan(*query, adjacency=adjacency)
    order = Filter.best(*budget).order
    chosen = queries(order, *budget, plan)
    others = [queries(1 + (order - 1) * 1.12**step, *budget, plan) for step in range(-8, 9)]
    assert chosen >= 0.99 * max(others)
    assert min(others) < 0.9 * chosen, "orders do matter"


# The numbers of docs/privacy.md, section 7


NUMBERS = [
    ((10, 1e-6), (1, 1e-8), 259, 292),
    ((10, 1e-6), (0.3, 1e-9), 2236, 2500),
    ((3, 1e-6), (1, 1e-8), 29, 34),
    ((3, 1e-6), (0.3, 1e-9), 266, 308),
    ((1, 1e-6), (0.1, 1e-9), 269, 316),
]


@pytest.mark.parametrize(("budget", "query", "filtered", "composed"), NUMBERS)
def test_how_many_queries_fit(budget, query, filtered, composed):
    made = Budget.make(*budget)
    affords = made.affords(made.price(th.plan(*query)))
    assert affords == filtered < composed
    summed = Budget.make(*budget, composition="sum")
    assert summed.affords(summed.price(th.plan(*query))) == int(budget[0] / query[0] + 1e-9)


@pytest.mark.parametrize(("budget", "about"), [((10, 1e-6), 3.9), ((3, 1e-6), 9), ((1, 1e-6), 22)])
def test_orders_are_those_of_the_document(budget, about):
    assert Filter.best(*budget).order == pytest.approx(about, rel=0.05)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-6, 1e-5), (1e-5, 1e-4), (1e-3, 1e-2), (1, 1e-6), (1e4, 0.4)])
def test_the_order_is_the_best_of_all(epsilon, delta):
    found = Filter.best(epsilon, delta)
    best = found.room(epsilon) / found.order
    for order in 1 + np.exp(np.linspace(-20, 30, 2001)):
        assert dataclasses.replace(found, order=float(order)).room(epsilon) / order <= best * (1 + 1e-9)

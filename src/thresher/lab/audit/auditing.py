"""The audit itself: look for the best attack, then measure it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thresher.errors import InvalidSetting
from thresher.lab.audit.attacks import Attack, Bounds, attacks_on, clopper_pearson
from thresher.lab.audit.fleet_path import FromFleet
from thresher.lab.audit.injected_path import FromInjected
from thresher.lab.audit.ledger_path import FromLedger, ledger_delta
from thresher.lab.audit.lots import DrawnInLots
from thresher.lab.audit.neighbours import Pair, Population, neighbouring_pairs, worst_removed
from thresher.lab.audit.paths import FLEET, INJECTED, LEDGER, PATHS, Mechanism, Observed, shipped
from thresher.lab.audit.report import AuditReport, Finding, Measurement
from thresher.lab.audit.several_values import several_pairs
from thresher.privacy import binomial, guarantee
from thresher.privacy.plans import Plan
from thresher.privacy.settings import (
    Adjacency,
    check_contributions,
    check_count,
    check_probability,
    check_rounds,
    dyadic,
)
from thresher.verbs import Progress

TRIALS = 2_000_000
MOST_ROUNDS = 8
"""The most rounds, times the contributions of each: so many coins of one unit."""

_LEAST_TRIALS = 1000
_VALUES_AT_ONCE = 1 << 18
_VALUES_SCOUTED = 40_000_000
"""In all populations that are tried on a path, so that looking costs about what measuring does. Both cost c times as
much where c values of a unit count: its values are in c buckets, all of which others are in, too."""
_UNTHINKABLE = 1e300  # more trials than anybody makes; finite, so that JSON can hold it
_PARTS = 10  # progress is reported after each of so many parts of a measurement


def audit(
    sampling_rate: float,
    threshold: int,
    epsilon: float,
    *,
    adjacency: Adjacency = "replace",
    rounds: int = 1,
    contributions: int = 1,
    paths: Sequence[str] = PATHS,
    trials: int = TRIALS,
    confidence: float = 0.999,
    mechanism: Mechanism | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Attack the shipped mechanism, and set what the attacks prove beside what is claimed.

    For each path, many neighbouring populations and events are tried on a first lot of draws. The most promising
    attacks (for delta, and for epsilon where that is another) are then measured on `trials` fresh draws of either
    population each.

    Args:
        sampling_rate: The rate to audit, rounded down to a whole number of 2^-64.
        threshold: The threshold to audit.
        epsilon: The epsilon at which delta is claimed and measured.
        adjacency: Against which change the claim protects.
        rounds: How many rounds are drawn and claimed together, at most 8.
        contributions: How many values of a unit count in a round. If more than one, the unit that the populations
            differ in holds several values: in several buckets, in one, or more than count. Rounds times contributions
            are at most 8. The paths "injected" and "ledger" have one.
        paths: What to attack: "counts" (`sample_and_threshold`), "table" (`Table.ask`, sampling rows and thinning
            counts; thinning alone where several values count) and "device" (a coin for each unit and value), by default
            all three. "fleet" is real devices and a real server over HTTP, one device for every unit of every trial.
            "injected" is a collector that forwards one person's
            report among its own: with aggregator coins, where the claim must hold, and with device coins, where nothing
            is claimed against it (delta 1) and the finding says what it gains. "ledger" is a ledger's whole life on a
            table: queries chosen one after another until it refuses, then a guess; the claim is the ledger's, with this
            epsilon and a delta that at least six queries with this plan fit.
        trials: How many draws of either population measure an attack.
        confidence: One minus the chance of a false alarm.
        mechanism: A mechanism to attack in place of all paths, against the same claim.
        progress: Called with steps done, steps in all and what is being done.

    Guarantee: if the claim holds, the chance that the report shows a violation is at most 1 − `confidence`, over all
    paths together: bounds are Clopper and Pearson's, the risk is shared equally among paths, the two attacks and
    the two populations, and no draw that chose an attack also measures it.
    Edge cases: where the claimed delta is too small for so many trials, the report says so (`measurable`). A release
    that holds more than its rows raises `VerificationFailed`.
    Reference: docs/privacy.md, sections 3 to 7.
    """
    trials = check_count(trials, setting="trials", least=_LEAST_TRIALS)
    confidence = check_probability(confidence, setting="confidence")
    plan = _claim(sampling_rate, threshold, epsilon, adjacency, rounds, contributions)
    attacked = _attacked(paths, mechanism, plan, trials)
    risk = (1 - confidence) / len(attacked) / 4
    steps = _Steps(progress, sum(len(_pairs(drawn, plan)) + 4 * _PARTS for _, drawn, _ in attacked))
    findings, needed, plain_needed = [], [], _trials_needed(plan, risk)
    for path, drawn, claimed in attacked:
        stated = replace(plan, delta=claimed) if claimed < 1 else plan
        attacks = _look_for_attacks(path, drawn, stated, trials, risk, steps)
        measured = tuple(_measure(path, drawn, attack, stated, trials, risk, steps) for attack in attacks)
        needed.append(_trials_needed_for_life(plan, claimed, risk) if isinstance(drawn, FromLedger) else plain_needed)
        findings.append(Finding(path, trials, claimed, trials >= needed[-1], measured))
    return AuditReport(
        plan.sampling_rate,
        plan.threshold,
        plan.epsilon,
        plan.delta,
        plan.adjacency,
        plan.rounds,
        plan.contributions,
        confidence,
        trials,
        max(needed),
        tuple(findings),
    )


class _Steps:
    """Counts the steps that are done and reports them to `progress`."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def done(self, what: str, steps: int = 1) -> None:
        self._done += steps
        if self._progress is not None:
            self._progress(self._done, self._total, what)


def _claim(
    sampling_rate: float, threshold: int, epsilon: float, adjacency: Adjacency, rounds: int, contributions: int
) -> Plan:
    """A plan whose delta is what is claimed for these settings, no more and no less."""
    if not check_rounds(rounds) <= MOST_ROUNDS:
        raise InvalidSetting("rounds", f"must be at most {MOST_ROUNDS} in an audit", hint="Audit `rounds=2`.")
    if not check_contributions(contributions) * rounds <= MOST_ROUNDS:
        raise InvalidSetting(
            "contributions", f"times rounds must be at most {MOST_ROUNDS} in an audit", hint="Audit `contributions=2`."
        )
    rate = dyadic(sampling_rate)
    delta = guarantee.delta(
        sampling_rate=rate,
        threshold=threshold,
        epsilon=epsilon,
        adjacency=adjacency,
        rounds=rounds,
        contributions=contributions,
    )
    return Plan(rate, threshold, epsilon, min(delta, math.nextafter(1.0, 0.0)), adjacency, rounds, contributions)


def _attacked(
    paths: Sequence[str], mechanism: Mechanism | None, plan: Plan, trials: int
) -> list[tuple[str, Mechanism, float]]:
    """What is attacked, by name, and the delta that is claimed for it."""
    if mechanism is not None:
        return [("the given mechanism", mechanism, plan.delta)]
    known = (*PATHS, FLEET, INJECTED, LEDGER)
    if isinstance(paths, str) or not paths or not set(paths) <= set(known):
        raise InvalidSetting("paths", f"must be some of {', '.join(known)}", hint=f"By default: {', '.join(PATHS)}.")
    found: list[tuple[str, Mechanism, float]] = []
    for path in dict.fromkeys(paths):
        if path == FLEET:
            # Looking for an attack and two measurements together take this many draws of each population.
            found.append(("fleet, over HTTP", FromFleet(_LEAST_TRIALS + 2 * trials), plan.delta))
        elif path == INJECTED:
            found.append(("injected, aggregator coins", FromInjected("aggregator"), plan.delta))
            found.append(("injected, device coins", FromInjected("device"), 1.0))
        elif path == LEDGER:
            delta = ledger_delta(plan)
            found.append((f"ledger of ({plan.epsilon:g}, {delta:g})", FromLedger(delta), delta))
        else:
            found += [(name, drawn, plan.delta) for name, drawn in shipped(path, plan)]
    return found


def _pairs(mechanism: Mechanism, plan: Plan) -> list[Pair]:
    if isinstance(mechanism, DrawnInLots):
        return mechanism.pairs(plan)
    return several_pairs(plan) if plan.contributions > 1 else neighbouring_pairs(plan)


def _trials_needed(plan: Plan, risk: float) -> float:
    """How many trials let the best attack on a round prove half of the claimed delta, if there is nothing better."""
    from scipy.special import ndtri

    factor = math.exp(plan.epsilon)
    sizes = np.unique(np.linspace(plan.threshold, worst_removed(plan), 50).round())
    likely, unlikely = (binomial.reach(size, plan.threshold, plan.sampling_rate) for size in (sizes, sizes - 1))
    spare = likely - factor * unlikely - plan.delta / (plan.rounds * plan.contributions) / 2
    spread = np.sqrt(likely * (1 - likely)) + factor * np.sqrt(unlikely * (1 - unlikely))
    with np.errstate(divide="ignore", over="ignore"):
        needed = np.where(spare > 0, (ndtri(risk) * spread / spare) ** 2, np.inf)
    return min(float(np.min(needed)), _UNTHINKABLE)


def _trials_needed_for_life(plan: Plan, claimed: float, risk: float) -> float:
    """How many trials show half of the claimed delta, if it is reached by an event twice as likely as that."""
    from scipy.special import ndtri

    return float(4 * ndtri(risk) ** 2 * (math.sqrt(2) + math.exp(plan.epsilon / 2)) ** 2 / claimed)


def _look_for_attacks(
    path: str, mechanism: Mechanism, plan: Plan, trials: int, risk: float, steps: _Steps
) -> list[Attack]:
    """The attack that promises the largest lower bound on delta and the one for epsilon, if that is another one."""
    pairs = _pairs(mechanism, plan)
    values = sum(population.values for population in {population for pair in pairs for population in pair.populations})
    scouted = max(_LEAST_TRIALS, min(trials // 4, _VALUES_SCOUTED * plan.contributions // values))
    guesses = mechanism.events(plan) if isinstance(mechanism, DrawnInLots) else None
    given = None if guesses is None else tuple(guesses)
    drawn: dict[Population, Observed] = {}
    found: list[tuple[Bounds, Attack]] = []
    for pair in pairs:
        for population in pair.populations:
            if population not in drawn:
                parts = [mechanism(population, part, plan) for part in _batches(population, scouted)]
                drawn[population] = np.concatenate(parts)
        found += attacks_on(pair, drawn[pair.first], drawn[pair.second], plan, trials, risk, given)
        steps.done(f"{path}: looking for the best attack")
    for_delta = max(found, key=lambda candidate: candidate[0].advantage(plan.epsilon))
    for_epsilon = max(found, key=lambda candidate: candidate[0].epsilon_lower(plan.delta))
    if for_epsilon is for_delta or not for_epsilon[0].epsilon_lower(plan.delta) > 0:
        steps.done(f"{path}: measuring", 2 * _PARTS)
        return [for_delta[1]]
    return [for_delta[1], for_epsilon[1]]


def _measure(
    path: str, mechanism: Mechanism, attack: Attack, plan: Plan, trials: int, risk: float, steps: _Steps
) -> Measurement:
    """An attack on fresh draws."""
    hits = []
    for population in (attack.likely, attack.unlikely):
        seen = 0
        for part in range(_PARTS):
            share = trials * (part + 1) // _PARTS - trials * part // _PARTS
            for batch in _batches(population, share):
                seen += int(np.count_nonzero(attack.event.happens(mechanism(population, batch, plan))))
            steps.done(f"{path}: measuring")
        hits.append(seen)
    bounds = clopper_pearson(hits[0], hits[1], trials, risk)
    return Measurement(
        attack.pair,
        attack.event.name,
        hits[0],
        hits[1],
        bounds.delta_lower(plan.epsilon),
        bounds.epsilon_lower(plan.delta),
    )


def _batches(population: Population, trials: int) -> list[int]:
    """Trials in parts that fit in memory."""
    most = max(1, _VALUES_AT_ONCE // max(1, population.values))
    return [most] * (trials // most) + ([trials % most] if trials % most else [])

"""On which terms a round asks: its configuration as a device reads it, and whether what it states is true."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from thresher.device.spending import Agreed
from thresher.errors import InvalidFormat
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan
from thresher.privacy.rates import Guarantees, Rates
from thresher.protocol import recomputation, sealing
from thresher.protocol.messages import RoundConfiguration, decode
from thresher.protocol.recomputation import read_configuration
from thresher.protocol.sealing import PublicKey
from thresher.questions import Question

_AT_HAND = 64


@dataclass(frozen=True, slots=True)
class Terms:
    """A round's configuration as it was read. What it states is believed only once `verified` says so."""

    configuration: RoundConfiguration
    question: Question
    plan: Plan
    rates: Rates
    guarantees: Guarantees
    public: PublicKey


def query_key(configuration: RoundConfiguration) -> str:
    """The name under which a query is charged. Names have no slash, so that it is unique."""
    return f"{configuration.fleet}/{configuration.query}"


def terms_key(terms: Terms) -> Agreed:
    """What must stay the same from round to round of a query."""
    plan, rates = terms.plan, terms.rates
    shared = (plan.sampling_rate, plan.threshold, plan.rounds, rates.contact, rates.device, rates.aggregator)
    return shared, plan.contributions


@functools.lru_cache(maxsize=_AT_HAND)
def read_terms(text: str) -> Terms | None:
    """Read a configuration's string, without recomputing anything; None if its parts do not fit together.

    Many devices in one process do this once for each configuration, good or bad.
    """
    try:
        configuration = decode(RoundConfiguration, text)
        public = PublicKey(configuration.key_id, bytes.fromhex(configuration.public_key))
        question, plan, rates = read_configuration(configuration)
    except InvalidFormat:
        return None
    stated = configuration.guarantees.values
    if stated is None or not all(_can_be(each, plan) for each in stated.against().values()):
        return None
    return Terms(configuration, question, plan, rates, stated, public)


def _can_be(stated: Guarantee, plan: Plan) -> bool:
    """Whether some rates could give the plan this guarantee: the same epsilon and rounds, and no smaller delta."""
    return (stated.epsilon, stated.rounds) == (plan.epsilon, plan.rounds) and plan.delta <= stated.delta <= 1


def is_cheap(terms: Terms) -> bool:
    """Whether `verified` has its answer already."""
    return recomputation.known(terms.plan, terms.rates, terms.configuration.guarantees) is not None


def verified(terms: Terms) -> bool:
    """Whether the guarantees that the round states are true, and its key can be sealed for."""
    true = recomputation.holds(terms.plan, terms.rates, terms.configuration.guarantees)
    return true and _can_be_sealed_for(terms.public)


@functools.lru_cache(maxsize=_AT_HAND)
def _can_be_sealed_for(public: PublicKey) -> bool:
    try:
        sealing.seal(b"", public, b"")
    except InvalidFormat:
        return False
    return True

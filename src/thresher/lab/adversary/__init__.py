"""A computed adversary: how much a rule of acceptance really gives away, at worst, over a ledger's whole life."""

from __future__ import annotations

from thresher.lab.adversary.filter_rule import Asked, FilterRule
from thresher.lab.adversary.game import Gain, Move, Rule, most_gained
from thresher.lab.adversary.queries import Query, any_mechanism, sampled

__all__ = ["Asked", "FilterRule", "Gain", "Move", "Query", "Rule", "any_mechanism", "most_gained", "sampled"]

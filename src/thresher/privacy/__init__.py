"""Numbers only, no data: the exact guarantee of (p, τ), composition, the planner, what will be seen, budgets."""

from __future__ import annotations

from thresher.privacy import paper
from thresher.privacy.budget import Budget, Charge, Composing, charge_for
from thresher.privacy.composition import Composition, Rounds, advanced, compose
from thresher.privacy.filter import Filter
from thresher.privacy.frontier import Frontier, FrontierPoint
from thresher.privacy.guarantee import Guarantee, delta, epsilon
from thresher.privacy.planner import plan
from thresher.privacy.plans import PaperComparison, Plan
from thresher.privacy.settings import Adjacency
from thresher.privacy.units import DEVICE, MEMBER, ROW, Unit

__all__ = [
    "DEVICE",
    "MEMBER",
    "ROW",
    "Adjacency",
    "Budget",
    "Charge",
    "Composing",
    "Composition",
    "Filter",
    "Frontier",
    "FrontierPoint",
    "Guarantee",
    "PaperComparison",
    "Plan",
    "Rounds",
    "Unit",
    "advanced",
    "charge_for",
    "compose",
    "delta",
    "epsilon",
    "paper",
    "plan",
]

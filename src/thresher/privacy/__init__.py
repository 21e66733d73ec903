"""Numbers only, no data: the exact guarantee of (p, τ), composition, the planner, what will be seen, budgets."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from thresher import errors

if TYPE_CHECKING:
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

_HOMES = {
    "Adjacency": "settings",
    "Budget": "budget",
    "Charge": "budget",
    "Composing": "budget",
    "Composition": "composition",
    "DEVICE": "units",
    "Filter": "filter",
    "Frontier": "frontier",
    "FrontierPoint": "frontier",
    "Guarantee": "guarantee",
    "MEMBER": "units",
    "PaperComparison": "plans",
    "Plan": "plans",
    "ROW": "units",
    "Rounds": "composition",
    "Unit": "units",
    "advanced": "composition",
    "charge_for": "budget",
    "compose": "composition",
    "delta": "guarantee",
    "epsilon": "guarantee",
    "paper": "",
    "plan": "planner",
}
"""Where each name is. Modules are imported with the first use of a name: devices need none of the numerics."""


def __getattr__(name: str) -> object:
    """A public name, imported with its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'thresher.privacy' has no attribute {name!r}")
    home = _HOMES[name]
    try:
        found = importlib.import_module(f"thresher.privacy.{home or name}")
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("thresher."):
            raise
        raise errors.only_the_device(f"thresher.privacy.{name}") from None
    return getattr(found, name) if home else found


def __dir__() -> list[str]:
    """All public names, for completion."""
    return sorted({*globals(), *__all__})

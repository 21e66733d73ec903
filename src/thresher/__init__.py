"""Thresher: what many people hold, without learning what any one of them holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thresher import errors, mechanism, privacy
from thresher._version import __version__
from thresher.errors import ThresherError, ThresherWarning
from thresher.ledger import Ledger
from thresher.mechanism import Release
from thresher.privacy import Guarantee, Plan, plan
from thresher.questions.population import Population
from thresher.tables import look
from thresher.verbs.answer import load
from thresher.verbs.heavy_hitters import heavy_hitters
from thresher.verbs.histogram import histogram
from thresher.verbs.mean import mean
from thresher.verbs.over_time import OverTime
from thresher.verbs.quantiles import quantiles
from thresher.verbs.ranges import ranges

if TYPE_CHECKING:
    from thresher.client import Fleet
    from thresher.device import Device, Policy

__all__ = [
    "Device",
    "Fleet",
    "Guarantee",
    "Ledger",
    "OverTime",
    "Plan",
    "Policy",
    "Population",
    "Release",
    "ThresherError",
    "ThresherWarning",
    "__version__",
    "errors",
    "heavy_hitters",
    "histogram",
    "load",
    "look",
    "mean",
    "mechanism",
    "plan",
    "privacy",
    "quantiles",
    "ranges",
]


def __getattr__(name: str) -> object:
    """The names of fleets, imported with their first use: whoever has a table should not wait for them."""
    if name == "Fleet":
        from thresher.client import Fleet

        return Fleet
    if name in ("Device", "Policy"):
        from thresher import device

        return getattr(device, name)
    from thresher.verbs.asking import functions

    if name in functions():  # a verb that another package, or a new file, has added
        return functions()[name]
    raise AttributeError(f"module 'thresher' has no attribute {name!r}")

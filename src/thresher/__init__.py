"""Thresher: what many people hold, without learning what any one of them holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thresher import errors, mechanism, privacy
from thresher._version import __version__
from thresher.analytics import Population
from thresher.errors import ThresherError, ThresherWarning
from thresher.ledger import Ledger
from thresher.mechanism import Release
from thresher.populations import look
from thresher.privacy import Guarantee, Plan, plan
from thresher.verbs import heavy_hitters, histogram, quantiles, ranges

if TYPE_CHECKING:
    from thresher.fleet import Device, Fleet, Policy

__all__ = [
    "Device",
    "Fleet",
    "Guarantee",
    "Ledger",
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
    "look",
    "mechanism",
    "plan",
    "privacy",
    "quantiles",
    "ranges",
]


def __getattr__(name: str) -> object:
    """The names of fleets, imported with their first use: whoever has a table should not wait for them."""
    if name in ("Device", "Fleet", "Policy"):
        from thresher import fleet

        return getattr(fleet, name)
    raise AttributeError(f"module 'thresher' has no attribute {name!r}")

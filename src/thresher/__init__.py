"""Thresher: what many people hold, without learning what any one of them holds."""

from __future__ import annotations

from thresher import errors, mechanism, privacy
from thresher._version import __version__
from thresher.errors import ThresherError
from thresher.fleet import Device, Fleet, Policy
from thresher.ledger import Ledger
from thresher.mechanism import Release
from thresher.privacy import Guarantee, Plan, plan
from thresher.verbs import heavy_hitters, histogram, quantiles, ranges

__all__ = [
    "Device",
    "Fleet",
    "Guarantee",
    "Ledger",
    "Plan",
    "Policy",
    "Release",
    "ThresherError",
    "__version__",
    "errors",
    "heavy_hitters",
    "histogram",
    "mechanism",
    "plan",
    "privacy",
    "quantiles",
    "ranges",
]

"""Thresher: what many people hold, without learning what any one of them holds."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

from thresher import errors
from thresher._version import __version__
from thresher.errors import ThresherError, ThresherWarning, WeakGuarantee

if TYPE_CHECKING:
    from thresher import mechanism, privacy
    from thresher.client import Fleet
    from thresher.device import Device, Policy
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
    "WeakGuarantee",
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

_HOMES = {
    "Device": "device",
    "Fleet": "client",
    "Guarantee": "privacy",
    "Ledger": "ledger",
    "OverTime": "verbs.over_time",
    "Plan": "privacy",
    "Policy": "device",
    "Population": "questions.population",
    "Release": "mechanism",
    "heavy_hitters": "verbs.heavy_hitters",
    "histogram": "verbs.histogram",
    "load": "verbs.answer",
    "look": "tables",
    "mean": "verbs.mean",
    "mechanism": "",
    "plan": "privacy",
    "privacy": "",
    "quantiles": "verbs.quantiles",
    "ranges": "verbs.ranges",
}
"""Where each name is. Modules are imported with the first use of a name: nobody waits for what they do not need."""


def __getattr__(name: str) -> object:
    """A public name, imported with its first use; also a verb that another package, or a new file, has added."""
    try:
        if name in _HOMES:
            home = _HOMES[name]
            found = importlib.import_module(f"thresher.{home or name}")
            return getattr(found, name) if home else found
        if importlib.util.find_spec(f"thresher.{name}") is None:  # `from thresher import questions` looks here first
            from thresher.verbs.asking import functions

            if name in functions():
                return functions()[name]
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("thresher."):
            raise
        if name in _HOMES:
            raise errors.only_the_device(f"thresher.{name}") from None
    raise AttributeError(f"module 'thresher' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, for completion."""
    return sorted(__all__)

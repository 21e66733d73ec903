"""Thresher: what many people hold, without learning what any one of them holds."""

from __future__ import annotations

from thresher import errors, mechanism, privacy
from thresher._version import __version__
from thresher.errors import ThresherError
from thresher.mechanism import Release
from thresher.privacy import Guarantee, Plan, plan

__all__ = [
    "Guarantee",
    "Plan",
    "Release",
    "ThresherError",
    "__version__",
    "errors",
    "mechanism",
    "plan",
    "privacy",
]

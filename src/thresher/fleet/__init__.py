"""Fleets: devices that answer from what they hold, and the server that learns no one. See docs/protocol.md."""

from __future__ import annotations

from thresher.fleet.client import Fleet
from thresher.fleet.device import Device
from thresher.fleet.policy import Policy

__all__ = ["Device", "Fleet", "Policy"]

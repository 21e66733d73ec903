"""A device: answers from what it holds, within its policy. See docs/protocol.md."""

from __future__ import annotations

from thresher.device.device import Device
from thresher.device.policy import Policy

__all__ = ["Device", "Policy"]

"""Traces: what a device sends, keeps and waits for, step by step, on a clock and with a server that are played.

docs/protocol/rounds.md, section 6, says how a trace is run. A trace is written here as it must be; the tests run
Python's device through all of them.
"""

from __future__ import annotations

from typing import Any

from thresher.protocol.vectors.limit_traces import limits, periods
from thresher.protocol.vectors.trouble_traces import crashes, failures, strangers, unknown_tokens
from thresher.protocol.vectors.visit_traces import ordinary, rounds, statuses, times


def traces() -> list[dict[str, Any]]:
    """All traces."""
    return [
        *ordinary(),
        *statuses(),
        *failures(),
        *strangers(),
        *crashes(),
        *times(),
        *unknown_tokens(),
        *rounds(),
        *limits(),
        *periods(),
    ]

"""The audit: attacks on the mechanism as it is shipped, and what they prove beside what is claimed."""

from __future__ import annotations

from thresher.lab.audit.auditing import audit
from thresher.lab.audit.neighbours import ABSENT, Pair, Population, neighbouring_pairs
from thresher.lab.audit.paths import PATHS, Mechanism
from thresher.lab.audit.report import AuditReport, Finding

__all__ = [
    "ABSENT",
    "PATHS",
    "AuditReport",
    "Finding",
    "Mechanism",
    "Pair",
    "Population",
    "audit",
    "neighbouring_pairs",
]

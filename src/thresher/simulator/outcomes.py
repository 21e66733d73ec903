"""How a server answered the requests of a simulation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

TAKEN = frozenset({200})
LATER = frozenset({429, 503})
"""A server may always ask a client to come back later."""


@dataclass(slots=True)
class Outcomes:
    """How many requests of each kind got which status, and which of these statuses should not have come."""

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Requests by (what was sent, status); status 0 is no answer at all."""
    reports: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Reports by (what was handed in, what became of it)."""
    unexpected: Counter[tuple[str, int | str]] = field(default_factory=Counter)

    def note(self, what: str, status: int, expected: frozenset[int]) -> None:
        """Count one answer. Whatever is neither expected nor "come back later" is unexpected."""
        self.answers[what, status] += 1
        if status and status not in expected and status not in LATER:
            self.unexpected[what, status] += 1

    def note_report(self, what: str, status: str, expected: frozenset[str]) -> None:
        """Count what became of one report."""
        self.reports[what, status] += 1
        if status not in expected:
            self.unexpected[what, status] += 1

"""What an audit found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from thresher.errors import VerificationFailed
from thresher.privacy.settings import Adjacency


@dataclass(frozen=True, slots=True)
class Measurement:
    """One attack: an event, seen in so many draws of the population where it is likely, and in so many of the other.

    The bounds are what it proves: on delta at the audited epsilon, and on epsilon at the claimed delta.
    """

    populations: str
    event: str
    likely_hits: int
    unlikely_hits: int
    delta_lower: float
    epsilon_lower: float


@dataclass(frozen=True, slots=True)
class Finding:
    """The best attacks on one path, measured on fresh draws: `trials` of either population for each."""

    path: str
    trials: int
    claimed_delta: float
    measurable: bool
    measured: tuple[Measurement, ...]

    @property
    def best(self) -> Measurement:
        """The attack that proves the largest delta."""
        return max(self.measured, key=lambda measurement: measurement.delta_lower)

    @property
    def delta_lower(self) -> float:
        """No delta below this holds at the audited epsilon."""
        return self.best.delta_lower

    @property
    def epsilon_lower(self) -> float:
        """No epsilon below this holds at the claimed delta."""
        return max(measurement.epsilon_lower for measurement in self.measured)

    @property
    def violation(self) -> bool:
        """Whether more is proved than is claimed."""
        return self.delta_lower > self.claimed_delta

    @property
    def ratio(self) -> float:
        """How much of the claimed delta the attack reaches for certain; above 1 the claim is wrong."""
        return self.delta_lower / self.claimed_delta

    @property
    def promised(self) -> bool:
        """Whether anything is claimed at all; a delta of 1 promises nothing."""
        return self.claimed_delta < 1

    @property
    def verdict(self) -> str:
        """The result in a few words."""
        if not self.promised:
            return "nothing is promised here"
        if self.violation:
            return f"VIOLATION: delta is at least {self.delta_lower:.3g}"
        return "no violation found" if self.measurable else "too strong to measure"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What was claimed, and a finding for each path.

    Guarantee: if the claim holds, the chance that any finding is a violation is at most 1 − `confidence`. If it does
    not hold, an audit may still miss it: "no violation found" is not a proof.
    """

    sampling_rate: float
    threshold: int
    epsilon: float
    claimed_delta: float
    adjacency: Adjacency
    rounds: int
    contributions: int
    confidence: float
    trials: int
    trials_needed: float
    findings: tuple[Finding, ...]

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings that disprove the claim."""
        return tuple(finding for finding in self.findings if finding.violation)

    @property
    def measurable(self) -> bool:
        """Whether this many trials can come near the claimed delta at all."""
        return self.trials >= self.trials_needed

    @property
    def verdict(self) -> str:
        """The result in a few words."""
        if self.violations:
            return max(self.violations, key=lambda finding: finding.ratio).verdict
        return "no violation found" if self.measurable else "too strong to measure"

    def in_words(self) -> str:
        """The result in sentences."""
        promised = [finding for finding in self.findings if finding.promised]
        sentences = [self._of_promises(promised)] if promised else []
        sentences += [
            f"On {finding.path} nothing is promised: there delta is at least {finding.delta_lower:.3g}."
            for finding in self.findings
            if not finding.promised
        ]
        return " ".join(sentences)

    def _of_promises(self, findings: list[Finding]) -> str:
        worst = max(findings, key=lambda finding: finding.ratio)
        attack, claimed = worst.best, worst.claimed_delta
        if self.violations:
            return (
                f"VIOLATION on {', '.join(finding.path for finding in self.violations)}. An attacker who looks for "
                f'"{attack.event}" tells {attack.populations} apart better than the claim allows: delta at epsilon = '
                f"{self.epsilon:g} is at least {worst.delta_lower:.3g}, and {claimed:.3g} is claimed. This "
                f"conclusion is wrong with probability {1 - self.confidence:.2g} at most."
            )
        if not self.measurable:
            return (
                f"This setting is too strong to measure: an attack that gains {claimed:.2g} shows in about "
                f"{self.trials_needed:.2g} trials, and {self.trials:,} were made. Only gross faults would have been "
                "found, and none was. The claim rests on its proof; to measure the mechanism, take more trials or a "
                "lower threshold."
            )
        return (
            f"No violation found. The best attack that was tried reaches at least {worst.ratio:.0%} of the claimed "
            f"delta ({worst.delta_lower:.3g} of {claimed:.3g}), and none goes beyond it. Had a finding been "
            f"a violation, it would have been a false alarm with probability {1 - self.confidence:.2g} at most."
        )

    def verify(self) -> None:
        """Raise `VerificationFailed` if a violation was found."""
        if self.violations:
            worst = max(self.violations, key=lambda finding: finding.ratio)
            raise VerificationFailed(
                f"The audit found a violation: at epsilon = {self.epsilon:g}, delta is at least "
                f"{worst.delta_lower:.3g}, not {worst.claimed_delta:.3g}.",
                hint="Do not release anything with this mechanism.",
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the verdicts."""
        findings = [
            asdict(finding)
            | {
                "delta_lower": finding.delta_lower,
                "epsilon_lower": finding.epsilon_lower,
                "ratio": finding.ratio,
                "verdict": finding.verdict,
            }
            for finding in self.findings
        ]
        return asdict(self) | {"findings": findings, "measurable": self.measurable, "verdict": self.verdict}

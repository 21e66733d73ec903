"""What tests of ledgers share."""

import multiprocessing
from typing import Any

from thresher.ledger import Ledger

FORKS: Any = multiprocessing.get_context("forkserver")
"""Processes that share nothing: forks of one that has imported what they need and has opened no ledger."""
FORKS.set_forkserver_preload(["pyarrow", "pytest", "thresher", "thresher.cli.app", "thresher.ledger"])


def total(amount) -> tuple[float, float]:
    """The epsilon and delta of what was spent or is left."""
    return amount.epsilon, amount.delta


def charge_whole(ledger: Ledger, plan, what, unit, reference=None) -> str:
    """Charge a query whose rounds are all drawn at once."""
    return ledger.reserve(plan, what, unit=unit, reference=reference, drawn=plan.rounds)

"""What tests of ledgers share."""

from thresher.ledger import Ledger


def total(amount) -> tuple[float, float]:
    """The epsilon and delta of what was spent or is left."""
    return amount.epsilon, amount.delta


def charge_whole(ledger: Ledger, plan, what, unit, reference=None) -> str:
    """Charge a query whose rounds are all drawn at once."""
    return ledger.reserve(plan, what, unit=unit, reference=reference, drawn=plan.rounds)

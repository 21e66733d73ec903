"""The ledger: what has been spent against a budget, in one SQLite file that survives crashes."""

from __future__ import annotations

from thresher.ledger.ledger import Amount, Entry, Ledger, charge_plan

__all__ = ["Amount", "Entry", "Ledger", "charge_plan"]

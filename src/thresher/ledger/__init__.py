"""The ledger: what has been spent against a budget, in one SQLite file that survives crashes."""

from __future__ import annotations

from thresher.ledger.booking import Booking
from thresher.ledger.entries import Entry, Left, Periods, Promise, Spent
from thresher.ledger.ledger import Ledger

__all__ = ["Booking", "Entry", "Ledger", "Left", "Periods", "Promise", "Spent"]

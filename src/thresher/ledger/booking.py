"""The charge of one query that is run here, round by round."""

from __future__ import annotations

import contextlib
import getpass
import logging
import os

from thresher.errors import ThresherError
from thresher.ledger.ledger import Ledger
from thresher.privacy.plans import Plan
from thresher.privacy.units import Unit

_log = logging.getLogger("thresher.ledger")


class Booking:
    """Charges a query as its rounds are drawn: `draw` before each of them, `end` after the last.

    Guarantee: all rounds are reserved, and the first is marked as drawn, in one transaction before the first draw, so
    that a query that began can finish. What was never drawn is given back at the end, also if the query failed.
    """

    def __init__(self, ledger: Ledger, plan: Plan, what: str, unit: Unit, data: str | None = None) -> None:
        self._ledger = ledger
        self._plan = plan
        self._what = what
        self._unit = unit
        self._data = data
        self._reference: str | None = None
        self._drawn = 0

    def draw(self) -> None:
        """Charge the next round, durably, before it is drawn."""
        if self._reference is None:
            self._reference = self._ledger.reserve(
                self._plan, self._what, unit=self._unit, by=_user(), data=self._data, drawn=1
            )
        else:
            self._ledger.draw(self._reference, self._drawn)
        self._drawn += 1

    def end(self) -> None:
        """Give back what was never drawn.

        Guarantee: never fails, so that an answer that was paid for is not lost. What could not be given back stays
        reserved.
        """
        if self._reference is None or self._drawn == self._plan.rounds:
            return
        try:
            self._ledger.give_back(self._reference)
        except ThresherError as error:
            _log.warning("what was never drawn of charge %s was not given back: %s", self._reference, error.code)


def _user() -> str | None:
    """The name of the operating system's user who runs this.

    Edge cases: what the environment says where the system knows no name, as in some containers; None without that.
    """
    with contextlib.suppress(ImportError, KeyError):
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    with contextlib.suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return None

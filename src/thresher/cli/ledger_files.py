"""How commands name a ledger, and open it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from thresher.errors import InvalidSetting
from thresher.ledger import Ledger

CREATE_IT = "Create it: thresher ledger create privacy.db --epsilon 3 --delta 1e-6."
LedgerPath = Annotated[Path, typer.Argument(help="The ledger's file.", show_default=False)]


def opened(path: Path) -> Ledger:
    """A ledger that exists; a command other than `create` never makes one."""
    if not os.access(path, os.F_OK):
        raise InvalidSetting("ledger", f"{str(path)!r} does not exist", hint=CREATE_IT)
    return Ledger(path)

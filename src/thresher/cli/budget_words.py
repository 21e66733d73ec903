"""A budget and its charges for the terminal: of a ledger's file, or of a fleet."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from thresher.ledger.durations import in_words
from thresher.ledger.entries import reserved_share
from thresher.privacy.budget import percent

if TYPE_CHECKING:
    from thresher.protocol.analyst_messages import BudgetPeriod, LedgerView


def spending(view: LedgerView) -> list[str]:
    """What was spent, what is left, what was promised, and where a budget stands that renews."""
    found = []
    if view.composition == "sum":
        spent = "unknown" if view.spent_epsilon is None else f"{view.spent_epsilon:g}"
        found.append(
            f"Spent: epsilon {spent}, delta {view.spent_delta:g}. Left: epsilon {view.left_epsilon:g}, delta "
            f"{view.left_delta:g}. Charges add up, and nothing is given back."
        )
    else:
        if view.spent_epsilon is None:
            found.append("More was drawn than any epsilon covers with this delta: nothing more can be asked.")
        elif view.spent_epsilon:
            found.append(f"What was drawn so far guarantees epsilon {view.spent_epsilon:.3g} with that delta.")
        reserved = reserved_share(view.spent_share, view.left_share)
        kept = f"{percent(reserved)} is reserved, " if reserved else ""
        found.append(f"Of the budget, {percent(view.spent_share)} was drawn, {kept}{percent(view.left_share)} is left.")
    if len(view.promises) > 1:
        steps = [f"epsilon {epsilon:g} from {_time(time)} on" for time, epsilon in view.promises]
        holds = "" if view.spent_epsilon is None else " The highest holds for everything."
        found.append(f"It promised {', '.join(steps)}.{holds}")
    if view.period is not None:
        found.append(_renewal(view.period))
    return found


def _renewal(period: BudgetPeriod) -> str:
    said = (
        f"The budget renews every {in_words(period.seconds)}, next on {_time(period.ends)}: the promise is for each "
        "period by itself."
    )
    if not period.used:
        return said
    one = "one period, which comes" if period.used == 1 else f"{period.used} periods, which together come"
    return f"{said} Something was drawn in {one} to epsilon {period.together_epsilon:g} and delta " + (
        f"{period.together_delta:g}."
    )


def charges_table(view: LedgerView) -> Table:
    """The charges, oldest first."""
    adds_up = view.composition == "sum"
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("id", justify="right")
    table.add_column("time", no_wrap=True)
    table.add_column("what", overflow="fold")
    for heading in ("epsilon", "delta", "rounds") if adds_up else ("drawn", "given back", "share"):
        table.add_column(heading, justify="right", no_wrap=True)
    for charge in view.charges:
        values = "" if charge.contributions == 1 else f" × {charge.contributions} values"
        amounts = (
            (f"{charge.epsilon:g}", f"{charge.delta:g}", f"{charge.rounds:,}{values}")
            if adds_up
            else (f"{charge.drawn} of {charge.rounds}{values}", str(charge.given_back), percent(charge.share))
        )
        table.add_row(str(charge.id), _time(charge.time), Text(charge.what), *amounts)
    return table


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")

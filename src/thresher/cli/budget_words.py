"""A budget and its charges for the terminal: of a ledger's file, or of a fleet."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from thresher.cli.row_tables import show_table
from thresher.ledger.durations import in_words
from thresher.ledger.entries import Entry, reserved_share
from thresher.privacy.budget import percent
from thresher.privacy.units import Unit

if TYPE_CHECKING:
    from thresher.protocol.analyst_messages import BudgetPeriod, Charge, LedgerView


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


def show_charges(view: LedgerView, entries: Sequence[Entry] = ()) -> None:
    """Print the charges, oldest first; `entries` say more of a ledger's file than a fleet tells.

    `cost` is the part of the whole budget that a charge takes, and `left` what it left; under "sum" the cost is its
    epsilon and delta. Where the budget renews, `left` is that of the charge's own period.
    """
    adds_up = view.composition == "sum"
    price = "epsilon, delta" if adds_up else "cost"
    known = {entry.id: entry for entry in entries}
    rows = []
    for charge in view.charges:
        entry = known.get(charge.id)
        unit = view.unit if entry is None else _unit(entry.unit)
        data, who = (None, None) if entry is None else (entry.data, entry.by)
        texts = (data or view.data_set, unit, charge.by or who, _what(charge))
        cost = f"{charge.epsilon:g}, {charge.delta:g}" if adds_up else percent(charge.share)
        left = percent(max(1 - charge.used, 0.0))
        rows.append((_time(charge.time).removesuffix(" UTC"), *(text or "–" for text in texts), cost, left))
    show_table(("when (UTC)", "data", "unit", "who", "what", price, "left"), rows, right=(price, "left"))


def _what(charge: Charge) -> str:
    """What was asked, and of several rounds how many there are, were drawn and were given back."""
    said = [charge.what]
    values = "" if charge.contributions == 1 else f" × {charge.contributions} values"
    if charge.drawn < charge.rounds:
        said.append(f"{charge.drawn} of {charge.rounds} rounds{values} drawn")
    elif charge.rounds > 1 or values:
        said.append(f"{charge.rounds} round{'s' * (charge.rounds > 1)}{values}")
    if charge.given_back:
        said.append(f"{charge.given_back} given back")
    return "; ".join(said)


def _unit(text: str | None) -> str | None:
    """A unit as one word: the column that names it, or what it is."""
    return None if text is None else Unit.read(text).column or text


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")

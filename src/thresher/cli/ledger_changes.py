"""`thresher ledger enlarge|give-back`: promise another epsilon, and end the reservation of a process that is gone."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from thresher.cli import options
from thresher.cli.ledger_files import LedgerPath, opened
from thresher.cli.output import is_terminal, print_json, say
from thresher.errors import InvalidSetting
from thresher.ledger import Ledger
from thresher.privacy.budget import percent
from thresher.privacy.settings import check_budget_epsilon


def enlarge(
    path: LedgerPath,
    epsilon: Annotated[float, typer.Option(help="The new epsilon of the whole budget.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Change the promise without being asked again.")] = False,
    json: options.Json = False,
) -> None:
    """Promise another epsilon from now on: for everybody, also for those whose data was asked about before.

    The ledger keeps the old promise and the new one, and shows both. A server that runs uses the new one at once.
    """
    ledger = opened(path)
    before = ledger.epsilon
    check_budget_epsilon(epsilon)
    if not json:
        for words in _meaning(ledger, before, epsilon):
            say(words)
    if not yes:
        _ask()
    ledger.enlarge(epsilon)
    if json:
        print_json({"before": before, "epsilon": ledger.epsilon, "delta": ledger.delta, "left": ledger.left.share})
        return
    changed = "changed" if ledger.epsilon != before else "as it was"
    say(f"The promise is {changed}. {percent(ledger.left.share)} of the budget is left.")


def _meaning(ledger: Ledger, before: float, after: float) -> list[str]:
    each = "" if ledger.periods is None else " in each period"
    said = [
        f"The ledger promises epsilon {before:g} with delta {ledger.delta:g}{each}. It would promise epsilon "
        f"{after:g} with delta {ledger.delta:g}{each}, for everything together, before and after."
    ]
    if after > before:
        said.append(
            "This changes the promise also for everybody who is in the data already: whoever sees the releases may "
            f"change the odds of a guess about one of them by a factor of {_factor(after)} in place of "
            f"{_factor(before)}."
        )
    elif after < before:
        said.append(f"For what was drawn before, the promise of epsilon {before:g} remains the one that holds.")
    return said


def _factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):,.3g}" if epsilon <= 10 else f"e^{epsilon:g}"


def _ask() -> None:
    if not is_terminal():
        raise InvalidSetting("yes", "is missing: this changes what was promised", hint="Add --yes if that is meant.")
    if not typer.confirm("Change the promise?", err=True):
        say("Nothing was changed.")
        raise typer.Exit(1)


def give_back(
    path: LedgerPath,
    reference: Annotated[
        str, typer.Argument(help="The charge; `ledger show` lists those that have not ended.", show_default=False)
    ],
    json: options.Json = False,
) -> None:
    """End the reservation of a query whose process is gone: give back its rounds that were never drawn.

    What was drawn stays charged, also if its answer was lost. A process that still runs cannot draw these rounds any
    more. A fleet's server gives back by itself.
    """
    ledger = opened(path)
    back = ledger.give_back(reference)
    if json:
        print_json({"reference": reference, "given_back": back, "left": ledger.left.share})
        return
    if back:
        said = f"{back} round{'' if back == 1 else 's'} given back. {percent(ledger.left.share)} of the budget is left."
    elif ledger.composition == "sum":
        said = "Nothing was given back: this ledger adds up, and charges every query whole."
    else:
        said = "Nothing was given back: this charge had ended."
    say(said)

"""`thresher ledger plan|affords`: the plan with which a budget lasts, and how many queries like one still fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thresher.cli import options
from thresher.cli.ledger_files import LedgerPath, opened
from thresher.cli.output import check_files, print_json, say
from thresher.cli.plan_files import read_plan, write_plan
from thresher.cli.planning import plan_content, show_plan
from thresher.errors import InvalidSetting
from thresher.ledger import Ledger
from thresher.privacy import Plan
from thresher.privacy import plan as make_plan


def plan(
    path: LedgerPath,
    queries: Annotated[int, typer.Option(help="How many queries what is left shall last for.", show_default=False)],
    rounds: Annotated[int, typer.Option(help="How many rounds each of them has.")] = 1,
    contributions: options.Contributions = 1,
    probability: Annotated[float, typer.Option(help="With which probability a bucket shall be seen.")] = 0.95,
    output: Annotated[
        Path | None, typer.Option(help="Write the plan here, for --plan of a verb.", show_default=False)
    ] = None,
    json: options.Json = False,
) -> None:
    """The plan with which what is left lasts for so many queries, and that sees the smallest buckets.

    Each query may be chosen after the answers of those before it were seen.
    """
    check_files(None, output)
    ledger = opened(path)
    made = ledger.plan(queries, rounds=rounds, contributions=contributions, probability=probability)
    if output is not None:
        write_plan(output, made)
    if json:
        print_json({**plan_content(made), "budget": _cost(ledger, made)})
        return
    show_plan(made)
    say(_said(ledger, made))
    if output is not None:
        say(f"The plan is in {output}.")


def affords(
    path: LedgerPath,
    plan: Annotated[
        Path | None, typer.Option(help="A file with the query's plan, as ledger plan wrote it.", show_default=False)
    ] = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rounds: options.Rounds = 1,
    contributions: options.Contributions = 1,
    json: options.Json = False,
) -> None:
    """What a query takes of the budget, and how many like it fit; nothing is charged.

    The query is given by its plan, or by --epsilon and --delta, for which the best plan is made.
    """
    ledger = opened(path)
    if plan is not None:
        if epsilon is not None or delta is not None or (rounds, contributions) != (1, 1):
            raise InvalidSetting(
                "plan",
                "and `epsilon`, `delta`, `rounds` or `contributions` cannot be given together",
                hint="A plan states its own.",
            )
        made = read_plan(plan)
    else:
        made = make_plan(epsilon, delta, rounds=rounds, contributions=contributions, adjacency=ledger.adjacency)
    if json:
        print_json({"plan": made.to_dict(), "budget": _cost(ledger, made)})
        return
    say(_said(ledger, made))


def _cost(ledger: Ledger, made: Plan) -> dict[str, float | int | bool]:
    number = ledger.affords(made)
    return {"takes": ledger.takes(made), "left": ledger.left.share, "affords": number, "fits": number > 0}


def _said(ledger: Ledger, made: Plan) -> str:
    number, budget = ledger.affords(made), ledger.budget  # the first also requires the ledger's adjacency
    charge = budget.price(made)
    if not number:
        return f"{budget.exceeded(charge).message} No query like it fits."
    return budget.in_words(charge)

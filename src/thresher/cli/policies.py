"""`thresher policy compile|show`: what a device's policy allows, as a table of whole numbers for devices."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from thresher.cli import options
from thresher.cli.command_making import Commands
from thresher.cli.output import check_files, print_json, say
from thresher.cli.progress import progress_bar
from thresher.cli.row_tables import show_table
from thresher.errors import InvalidSetting

app = typer.Typer(help="What devices agree to, compiled into a table for them.", no_args_is_help=True, cls=Commands)

_SHOWN = ((0.3, 1e-9, 1), (0.5, 1e-8, 1), (1.0, 1e-8, 1), (1.0, 1e-8, 10), (2.0, 1e-6, 1), (4.0, 1e-6, 1))
"""Epsilon, delta and rounds of the queries for which `show` says how often a device answers them."""

PolicyFile = Annotated[
    Path | None,
    typer.Argument(
        help='A JSON file with settings, as {"max_epsilon": 2}; those of thresher.Policy() for what it leaves out.',
        show_default=False,
    ),
]


@app.command("compile")
def compile(
    policy: PolicyFile = None,
    output: Annotated[Path | None, typer.Option(help="The file to write.", show_default=False)] = None,
    rounds: Annotated[
        str | None,
        typer.Option(
            help="Numbers of rounds that have a limit of their own, as 1,3,10. Others are read as the next larger one.",
            show_default=False,
        ),
    ] = None,
    thresholds: Annotated[
        str | None,
        typer.Option(
            help="Thresholds that have a row of their own, as 10,20,50. Others are read as the next smaller one.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Compute the table of a policy, and write the policy with it: one file for the server and its devices."""
    from thresher.device.computed_prices import compiled
    from thresher.device.policy import Policy
    from thresher.device.policy_file import policy_text, read_policy
    from thresher.files import write_whole
    from thresher.privacy.round_prices import ROUNDS, THRESHOLDS, Bounds
    from thresher.protocol.readable import LARGEST_THRESHOLD

    if output is None:
        raise InvalidSetting("output", "is missing", hint="For example --output policy.json.")
    stated = Policy() if policy is None else read_policy(policy)
    columns, rows = _numbers("rounds", rounds, ROUNDS), _numbers("thresholds", thresholds, THRESHOLDS)
    check_files(None, output)
    with progress_bar(json) as progress:
        table = compiled(
            Bounds(*stated.bounds),
            least=stated.min_threshold,
            rounds=columns,
            thresholds=rows,
            workers=min(os.cpu_count() or 1, 8, max(len(rows) // 4, 1)),  # a process takes a second to start
            progress=lambda done, of: progress and progress(done, of, "computing"),
        )
    refuses = table.refuses_everything or stated.min_threshold > LARGEST_THRESHOLD
    text = policy_text(stated, table)
    write_whole(output, text)
    if json:
        described = {"output": str(output), "rows": len(table.rows), "bytes": len(text.encode())}
        print_json(described | {"refuses_everything": refuses})
        return
    say(f"{output}: {len(table.rows)} thresholds, {len(text.encode()):,} bytes.")
    if refuses:
        say(
            "Devices with this policy answer nothing: no query that a fleet can ask has a threshold that it allows and "
            "is within its bounds. Allow a larger epsilon or delta, or other thresholds.",
            "bold",
        )
        return
    say(
        "Ship it with your devices: Policy.from_file(…) in Python, policy in TypeScript; state it at the server with "
        "--device-policy.",
        "dim",
    )


@app.command("show")
def show(policy: PolicyFile = None, json: options.Json = False) -> None:
    """How many queries of some usual kinds a device with this policy answers in a period."""
    from thresher.device.policy import Policy
    from thresher.device.policy_file import read_policy

    stated = Policy() if policy is None else read_policy(policy)
    found = [_answered(stated, *each) for each in _SHOWN]
    if json:
        print_json({"period_days": stated.period_days, "queries": found})
        return
    numbers = ("epsilon", "delta", "rounds", "threshold")
    rows = [
        (
            *(f"{each[name]:g}" for name in numbers),
            "refused: " + each["refused"] if each["refused"] else f"{each['answered']:,}",
        )
        for each in found
    ]
    answered = f"answered in {stated.period_days:g} days"
    right = numbers if any(each["refused"] for each in found) else (*numbers, answered)
    show_table((*numbers, answered), rows, right=right)


def _answered(policy: Any, epsilon: float, delta: float, rounds: int) -> dict[str, Any]:
    """How often a device answers the best query with this target and a threshold that it allows.

    The aggregator samples.
    """
    from thresher.device.terms import terms_of
    from thresher.privacy.planner import make_plan
    from thresher.privacy.whole_numbers import PERIOD
    from thresher.protocol.rates import share
    from thresher.protocol.readable import LARGEST_THRESHOLD

    best = make_plan(epsilon, delta, rounds=rounds)
    least = min(policy.min_threshold, LARGEST_THRESHOLD)  # no round has a larger one
    if best.threshold < least:
        best = make_plan(epsilon, delta, rounds=rounds, threshold=least)
    rates, exact = share(best)
    terms = terms_of(exact, rates)
    refused = policy.objection(terms)
    answered = 0 if refused else max(PERIOD // policy.cost(terms), 1)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "rounds": rounds,
        "threshold": exact.threshold,
        "answered": answered,
        "refused": refused,
    }


def _numbers(setting: str, text: str | None, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    if text is None:
        return otherwise
    try:
        return tuple(int(each) for each in text.split(","))
    except ValueError:
        raise InvalidSetting(setting, "must be whole numbers with commas", hint="For example 1,2,10.") from None

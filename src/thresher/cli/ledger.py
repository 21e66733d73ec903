"""`thresher ledger`: a budget in a file, and what has been charged to it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast

import typer

from thresher.cli import ledger_changes, ledger_planning, ledger_words, options
from thresher.cli.budget_words import show_charges, spending
from thresher.cli.command_making import Commands
from thresher.cli.ledger_files import LedgerPath, opened
from thresher.cli.output import print_json, say
from thresher.errors import InvalidSetting
from thresher.ledger import Ledger
from thresher.privacy import ROW, Adjacency
from thresher.privacy.budget import Composing
from thresher.roles.coordinator.views import ledger_view

app = typer.Typer(
    help="A privacy budget in a file, and what has been charged to it.", no_args_is_help=True, cls=Commands
)
app.command("plan")(ledger_planning.plan)
app.command("affords")(ledger_planning.affords)
app.command("enlarge")(ledger_changes.enlarge)
app.command("give-back")(ledger_changes.give_back)


@app.command("create")
def create(
    path: LedgerPath,
    epsilon: Annotated[float, typer.Option(help="The whole budget's epsilon.", show_default=False)],
    delta: Annotated[float, typer.Option(help="The whole budget's delta.", show_default=False)],
    adjacency: options.Adjacency = "replace",
    unit: Annotated[
        str | None, typer.Option(help="The column whose values are the units; by default the first charge decides.")
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="Each row is a unit.")] = False,
    composition: Annotated[
        str, typer.Option(help="adaptive, or sum, which adds up: how many queries the budget lets through.")
    ] = "adaptive",
    period: Annotated[
        str | None,
        typer.Option(
            help="The budget renews after this time, as 30d: the promise is then for each period by itself.",
            show_default="never",
        ),
    ] = None,
    data_set: Annotated[
        str | None, typer.Option(help="A name for the data, as 'visits of 2026'.", show_default=False)
    ] = None,
    json: options.Json = False,
) -> None:
    """Create a ledger with a budget, for one kind of unit and one data set."""
    if path.exists():
        raise InvalidSetting(
            "ledger", f"{str(path)!r} exists already", hint="Choose another name, or see it: thresher ledger show."
        )
    if unit is not None and rows:
        raise InvalidSetting("rows", "and `unit` cannot both be given")
    ledger = Ledger(
        path,
        epsilon,
        delta,
        adjacency=cast(Adjacency, adjacency),
        unit=ROW if rows else unit,
        composition=cast(Composing, composition),
        period=period,
        data_set=data_set,
    )
    if json:
        print_json(ledger_words.content(ledger))
        return
    say(repr(ledger)[1:-1])


@app.command("show")
def show(path: LedgerPath, json: options.Json = False) -> None:
    """What was charged, and what is left."""
    ledger = opened(path)
    if json:
        print_json(ledger_words.content(ledger))
        return
    view = ledger_view(ledger, {}, {})
    say(repr(ledger)[1:-1])
    if ledger.same_units:
        _print_units(ledger)
    for words in [*spending(view), *ledger_words.sentences(ledger)]:
        say(words)
    if view.charges:
        show_charges(view, ledger.history())


@app.command("same-unit")
def same_unit(
    path: LedgerPath,
    column: Annotated[str, typer.Argument(help="A column that names the same units.", show_default=False)],
) -> None:
    """Say once that another table's column names the same units as the ledger's, so that --unit may name it."""
    ledger = opened(path)
    ledger.same_unit(column)
    _print_units(ledger)


@app.command("rebuild")
def rebuild(
    data_dir: Annotated[Path, typer.Option(help="The data directory of the fleet's coordinator.", show_default=False)],
    store: Annotated[
        str | None, typer.Option(help="postgresql://… without a password, as for thresher serve.", show_default=False)
    ] = None,
    store_file: Annotated[
        Path | None,
        typer.Option(help="A file with that address, password and all; or set THRESHER_STORE.", show_default=False),
    ] = None,
    budget_epsilon: Annotated[
        float | None, typer.Option(help="The fleet's whole epsilon, at its first start.", show_default=False)
    ] = None,
    budget_delta: Annotated[
        float | None, typer.Option(help="The fleet's whole delta, at its first start.", show_default=False)
    ] = None,
    budget_composition: Annotated[
        str | None, typer.Option(help="adaptive or sum, as at the fleet's first start.", show_default=False)
    ] = None,
    budget_period: Annotated[
        str | None, typer.Option(help="After which time the budget renews, if it does.", show_default=False)
    ] = None,
    adopt_store: Annotated[
        bool, typer.Option("--adopt-store", help="Take this store, though the data directory was used with another.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Make a fleet's lost ledger again from the coordinator's store, charging every query whole.

    Stop the server first. Charges that are there stay; those that are missing are added. If more is spent then than the
    budget has, nothing more can be asked. If there is no ledger, give the budget of the fleet's first start: the
    order of its filter was chosen for it. If it was enlarged since, enlarge it again afterwards.
    """
    from thresher.client.credentials import STORE, check_no_password, secret
    from thresher.server.server_ledger import FleetBudget, rebuild_ledger

    if store is not None:
        check_no_password("store", store)
    where = secret("store", store, store_file, STORE)
    budget = FleetBudget(
        budget_epsilon, budget_delta, cast("Composing | None", budget_composition), budget_period
    )  # which checks both
    ledger, rebuilt = rebuild_ledger(data_dir, where, budget, adopt_store=adopt_store)
    if json:
        shown = ledger_words.content(ledger)
        print_json({**asdict(rebuilt), "spent": shown["spent"], "left": shown["left"]})
        return
    say(f"Charges entered: {rebuilt.entered}. Charges that were there: {rebuilt.present}.")
    if rebuilt.forgotten:
        say(f"Charges that stay for queries that this store has forgotten: {rebuilt.forgotten}.")
    say(repr(ledger)[1:-1])


def _print_units(ledger: Ledger) -> None:
    columns = sorted(repr(unit.column) for unit in {*ledger.same_units, ledger.unit} if unit is not None)
    say(f"Columns that name one unit of this ledger: {', '.join(columns)}.")

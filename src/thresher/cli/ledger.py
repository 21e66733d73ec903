"""`thresher ledger create|show|same-unit|rebuild`: a budget in a file, and what has been charged to it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast

import typer

from thresher.cli import options
from thresher.cli.output import console, print_json, rows_table
from thresher.errors import InvalidSetting
from thresher.ledger import Ledger
from thresher.privacy import ROW, Adjacency

app = typer.Typer(help="A privacy budget in a file, and what has been charged to it.", no_args_is_help=True)

LedgerPath = Annotated[Path, typer.Argument(help="The ledger's file.", show_default=False)]


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
) -> None:
    """Create a ledger with a budget, for one kind of unit."""
    if path.exists():
        raise InvalidSetting("path", f"{str(path)!r} exists already", hint="Choose another name, or use ledger show.")
    if unit is not None and rows:
        raise InvalidSetting("rows", "and unit cannot both be given")
    ledger = Ledger(path, epsilon, delta, adjacency=cast(Adjacency, adjacency), unit=ROW if rows else unit)
    console.print(repr(ledger)[1:-1], markup=False, soft_wrap=True)


@app.command("show")
def show(path: LedgerPath, json: options.Json = False) -> None:
    """What was charged, and what is left."""
    ledger = _opened(path)
    if json:
        charges = [asdict(entry) | {"time": entry.time.isoformat()} for entry in ledger.history()]
        unit = ledger.unit
        budget = {
            "epsilon": ledger.epsilon,
            "delta": ledger.delta,
            "adjacency": ledger.adjacency,
            "unit": None if unit is None else str(unit),
            "same_units": sorted(map(str, ledger.same_units)),
        }
        print_json({"budget": budget, "spent": asdict(ledger.spent), "left": asdict(ledger.left), "charges": charges})
        return
    import pyarrow as pa

    console.print(repr(ledger)[1:-1], markup=False, soft_wrap=True)
    if ledger.same_units:
        _print_units(ledger)
    shown = ledger.to_arrow().drop_columns(["reference", "adjacency", "unit"])  # the same for all; --json has them
    time = shown["time"].cast(pa.timestamp("s", "UTC"), safe=False)  # to the second: a row fits a terminal's line
    console.print(rows_table(shown.set_column(shown.column_names.index("time"), "time", time), most=1000))


@app.command("same-unit")
def same_unit(
    path: LedgerPath,
    column: Annotated[str, typer.Argument(help="A column that names the same units.", show_default=False)],
) -> None:
    """Say once that another table's column names the same units as the ledger's, so that --unit may name it."""
    ledger = _opened(path)
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
    budget_epsilon: Annotated[float | None, typer.Option(help="The fleet's whole epsilon.", show_default=False)] = None,
    budget_delta: Annotated[float | None, typer.Option(help="The fleet's whole delta.", show_default=False)] = None,
    adopt_store: Annotated[
        bool, typer.Option("--adopt-store", help="Take this store, though the data directory was used with another.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Make a fleet's lost ledger again from the coordinator's store, charging every query whole.

    Stop the server first. Charges that are there stay; those that are missing are added. If more is spent then than the
    budget has, nothing more can be asked.
    """
    from thresher.client.credentials import STORE, check_no_password, secret
    from thresher.server.server_ledger import rebuild_ledger

    if store is not None:
        check_no_password("store", store)
    where = secret("store", store, store_file, STORE)
    ledger, rebuilt = rebuild_ledger(data_dir, where, budget_epsilon, budget_delta, adopt_store=adopt_store)
    if json:
        print_json({**asdict(rebuilt), "spent": asdict(ledger.spent), "left": asdict(ledger.left)})
        return
    console.print(f"Charges entered: {rebuilt.entered}. Charges that were there: {rebuilt.present}.")
    if rebuilt.forgotten:
        console.print(f"Charges that stay for queries that this store has forgotten: {rebuilt.forgotten}.")
    console.print(repr(ledger)[1:-1], markup=False, soft_wrap=True)


def _print_units(ledger: Ledger) -> None:
    columns = sorted(repr(unit.column) for unit in {*ledger.same_units, ledger.unit} if unit is not None)
    console.print(f"Columns that name one unit of this ledger: {', '.join(columns)}.", markup=False, soft_wrap=True)


def _opened(path: Path) -> Ledger:
    if not path.exists():
        raise InvalidSetting("path", f"{str(path)!r} does not exist", hint="Create it: thresher ledger create.")
    return Ledger(path)

"""Every benchmark, one table each: `make bench`, or `python benchmarks/run.py planning randomness`.

Results are printed and saved as JSON in out/benchmarks/. Machines are noisy: compare ratios within one run.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

OUT = Path("out/benchmarks")
SUITES = (
    *("planning", "charging", "randomness", "overhead", "tables", "large", "opening"),
    *("fleet_load", "fleet_query", "rounds_together", "server_attacks", "console_page"),
)


def main(names: list[str]) -> None:
    console = Console(highlight=False)
    OUT.mkdir(parents=True, exist_ok=True)
    for name in names or SUITES:
        rows = importlib.import_module(name).measure()
        table = Table(title=name, title_justify="left", box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for heading in ("what", "measured", "target", "note"):
            table.add_column(heading, justify="left" if heading in ("what", "note") else "right")
        for row in rows:
            table.add_row(row["name"], f"{row['value']:.4g} {row['unit']}", _number(row["target"]), row["note"])
        console.print(table)
        (OUT / f"{name}.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


if __name__ == "__main__":
    main(sys.argv[1:])

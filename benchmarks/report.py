"""The page docs/benchmarks.md and its pictures, from what `make bench` measured in out/benchmarks/.

Suites can be measured one by one: the tables and pictures of those that were not stay as they are on the page.
"""

from __future__ import annotations

import json
import platform
from functools import cache
from pathlib import Path
from typing import Any

from thresher import charts
from thresher.charts.rendering import BLUE, ORANGE, altair, styled

RESULTS = Path("out/benchmarks")
DOCS = Path("docs")
PAGE = DOCS / "benchmarks.md"
AGAINST_PROTOCOL_1 = """\
Protocol 1, which had a request for each check-in and each report (revision 6205576), against protocol 2, in turn,
24,000 reports each, medians, protocol 2 ÷ protocol 1. All that was measured: a first series (revision 7aec4a5) with
browser tests beside it, and a second one (revision 4a90123) on a quiet machine, of SQLite alone. With one round open
single runs of one server spread by up to a factor of two in the first series and by a third in the second:
differences of a tenth mean nothing there.

| store, rounds open | series, runs | handed in a second | whole visits a second | processor time | requests a report |
|---|---|---:|---:|---:|---:|
| SQLite, 1 | first, 5 | 1.22 | 1.10 | 1.19 | 2 for 2 |
| SQLite, 1 | second, 5 | 1.02 | 0.95 | 1.01 | 2 for 2 |
| SQLite, 4 | first, 3 | 3.11 | 1.58 | 0.50 | 0.5 for 1.25 |
| SQLite, 4 | second, 2 | 2.86 | 2.10 | 0.47 | 0.5 for 1.25 |
| PostgreSQL, 1 | first, 3 | 1.05 | 1.05 | 0.90 | 2 for 2 |
| PostgreSQL, 4 | first, 2 | 2.14 | 1.74 | 0.48 | 0.5 for 1.25 |"""
"""Measured once: protocol 1 is gone."""

WHAT_IS_LEFT = """\
What is left, in milliseconds of processor time, on a DuckDB table with a plan that is given (two cores, the machine not
quiet; the smallest of 8 to 60 runs that took turns with plain). Of ten million rows of 100 whole numbers, the engine's
own time is that of plain; all the rest does not grow with rows. Plain takes about 25 ms there on two quiet cores, so
that 5 to 7 ms are a quarter of it: on such a table the goal of 1.05 can be met from about sixty million rows. Words of
100,000 kinds are at 1.04 to 1.16 × plain: what is added there is a second group-by, of the distinct forms, and 5 ms of
binomials.

| part | 1,000 whole numbers | 1,000 words | 10,000,000 of 100 whole numbers | 10,000,000 of 100 words |
|---|---:|---:|---:|---:|
| plain group-by | 0.8 | 0.9 | 46.0 | 165.7 |
| the query runs, counts as Arrow | 1.0 | 2.5 | 45.6 | 167.8 |
| steps of the query bound one by one: columns, nulls, cleaning | 1.0 | 2.8 | 1.2 | 3.3 |
| the count and the threshold bound | 0.7 | 0.9 | 0.8 | 1.0 |
| how many rows there are: a plan and a query | 1.3 | 1.1 | 1.8 | 1.9 |
| exact binomials | 0.3 | 0.3 | 1.5 | 1.4 |
| the release: keys, order, checks | 0.7 | 0.6 | 0.7 | 0.7 |
| settings, kinds of columns, the verb | 1.1 | 1.5 | 2.1 | 1.8 |"""
"""Measured once, by hand."""


def load(name: str) -> list[dict[str, Any]]:
    path = RESULTS / f"{name}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return rows


@cache
def page_before() -> str:
    return PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""


def shown(name: str, lines: str) -> str:
    """A table under its name; where nothing was measured, the one that the page has under this name."""
    mark = f"<!-- {name} -->\n"
    before = page_before().partition(mark)[2].partition("\n\n")[0].rstrip()
    return mark + (lines or before)


def table(name: str, rows: list[dict[str, Any]] | None = None) -> str:
    """What a suite measured, or these rows of it."""
    rows = load(name) if rows is None else rows
    return shown(name, _table(rows) if rows else "")


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["| what | measured | target | note |", "|---|---:|---:|---|"]
    for row in rows:
        target = "" if row["target"] is None else number(row["target"])
        lines.append(f"| {row['name']} | {number(row['value'])} {row['unit']} | {target} | {row['note']} |")
    return "\n".join(lines)


def number(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= value < 1e6 else f"{value:.3g}"


def peers_table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return shown("peers", "")
    lines = [
        "| library | seconds | ÷ Thresher | peak memory | keys released | keys invented | error, top 1000 | remarks |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        if row["error"]:
            lines.append(f"| {row['title']} | – | – | – | – | – | – | {row['error']} |")
            continue
        factor = "–" if row["factor"] is None else f"{row['factor']:.1f}"
        lines.append(
            f"| {row['title']} {row['version']} | {row['seconds']:.2f} | {factor} | {row['memory_mb']:,.0f} MB "
            f"| {row['keys_released']:,} | {row['keys_invented']:,} | {row['top_error']:.2%} | {row['note']} |"
        )
    return shown("peers", "\n".join(lines))


def bars(
    rows: list[tuple[str, float]], heading: str, title: str, subtitle: str, path: Path, line: float | None
) -> None:
    alt = altair()
    data = alt.Data(values=[{"name": name, "value": value} for name, value in rows])
    scale = alt.Scale(type="log") if line is None else alt.Scale(zero=True)
    base = alt.Chart(data).encode(y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelLimit=320)))
    size = alt.X("value:Q", title=heading, scale=scale)
    layers = [
        base.mark_bar(color=BLUE, opacity=0.8).encode(x=size)
        if line is not None
        else base.mark_point(color=BLUE, filled=True, size=160, opacity=1).encode(x=size),
        base.mark_text(align="left", dx=8, fontSize=12).encode(x=size, text=alt.Text("value:Q", format=".2f")),
    ]
    if line is not None:
        mark = alt.Chart(alt.Data(values=[{"value": line}])).mark_rule(color=ORANGE, strokeDash=[6, 4], strokeWidth=2)
        layers.append(mark.encode(x="value:Q"))
    charts.show(styled(alt.layer(*layers).properties(width=520, height=30 * len(rows)), title, subtitle), path)


def growth(rows: list[dict[str, Any]], path: Path) -> None:
    alt = altair()
    values = [
        {"what": row["name"].split()[0], "size": int(row["name"].split()[1]), "seconds": row["value"]} for row in rows
    ]

    def panel(what: str, heading: str) -> Any:
        data = alt.Data(values=[value for value in values if value["what"] == what])
        return (
            alt.Chart(data)
            .mark_line(color=BLUE, point={"color": BLUE, "size": 70})
            .encode(
                x=alt.X("size:Q", scale=alt.Scale(type="log", nice=False), title=heading, axis=alt.Axis(tickCount=4)),
                y=alt.Y("seconds:Q", scale=alt.Scale(type="log", domain=[0.01, 5]), title="seconds"),
            )
            .properties(width=300, height=260)
        )

    both = alt.hconcat(panel("rows", "rows (100,000 keys)"), panel("keys", "distinct keys (ten million rows)"))
    charts.show(
        styled(
            both,
            "Cost grows with rows; with keys it grows as a plain group-by does",
            "private histogram of a Parquet file, DuckDB",
        ),
        path,
    )


def main() -> None:
    tables, peers = load("tables"), load("peers")
    ratios = [row for row in tables if row["unit"] == "× plain"]
    grown = [row for row in tables if row["unit"] == "s"]
    if tables:
        bars(
            [(row["name"], row["value"]) for row in ratios],
            "private ÷ plain (time)",
            "What a private histogram costs beside a plain group-by",
            "dashed: 1.05, the goal for whole numbers; for words it is 1.10. Spark has no goal of its own.",
            DOCS / "images" / "ratios.png",
            1.05,
        )
        growth(grown, DOCS / "images" / "growth.png")
    if peers:
        timed = sorted((row for row in peers if row["seconds"]), key=lambda row: row["seconds"])
        bars(
            [(row["title"], row["seconds"]) for row in timed],
            "seconds (logarithmic)",
            "The same private histogram, ten million rows",
            "(1, 1e-8), one file, one machine, best of up to three runs",
            DOCS / "images" / "peers.png",
            None,
        )
    text = f"""# Benchmarks

Made by `make bench` on {platform.machine()}, two cores; written by `benchmarks/report.py`. Machines are noisy:
ratios within one run mean more than seconds. Data: Zipf keys (exponent 1.1), Parquet on disk unless said otherwise.

## Private against plain, on the same engine

{table("ratios", ratios)}

![Private against plain](images/ratios.png)

Ten million rows, and what does not grow with rows; plain is the engine's own group-by on a connection that is open:

{table("overhead")}

{WHAT_IS_LEFT}

{table("growth", grown)}

![Growth](images/growth.png)

## Larger than memory

{table("large")}

## Other libraries

One row per person, (epsilon, delta) = (1, 1e-8), unknown keys where a library can find them. The others protect
against adding or removing a row, Thresher here against changing one: at the same epsilon that hides more of what a
person holds, but not that they take part. The others add noise to
whole counts, so their errors on large keys are smaller and they see smaller keys: see
[when-to-add-noise.md](when-to-add-noise.md). A library that cannot be installed is listed as such. PyDP has no
group-by: Arrow counts for it, and it thresholds each key.

{peers_table(peers)}

![Other libraries](images/peers.png)

## Fleets

Server, database, devices and the load generator share the two cores. A report counts when it has been acknowledged,
which is after the commit that holds it is on disk. The machine's own speed changes by half between runs, and processor
time with it (100 to 200 µs a report at the server, nine tenths of it reading and writing HTTP in the event loop).
A visit is two requests, one that asks and one that hands in, however many rounds are open together. With four rounds
open that is half a request a report.

{table("fleet_load")}

{AGAINST_PROTOCOL_1}

Devices that seal, toss and answer ten rounds of TrieHH++ over HTTP, with the same two cores:

{table("fleet_query")}

Ranges of six levels, whose rounds are open at the same time, against one round of a histogram:

{table("rounds_together")}

The aggregator alone, on sealed reports of 112 bytes in its store:

{table("opening")}

One host attacks the server, and others are served meanwhile; attacker, server and probes share the two cores:

{table("server_attacks")}

The console in a browser on the same machine, without a round going on:

{table("console_page")}

## Randomness and planning

{table("randomness")}

{table("planning")}

A charge to a ledger, on disk when it returns, whatever the length of the history:

{table("charging")}
"""
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

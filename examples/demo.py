"""The main job end to end on generated data: plan, ask a table four questions, compare with the truth, draw pictures.

Run it with `make demo`. Pictures and the release go to out/demo/.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

import thresher as th
from thresher import charts
from thresher.analytics import Histogram

OUT = Path("out/demo")
PEOPLE = 200_000
EPSILON, DELTA = 1.0, 1e-8  # for each of the questions
LANGUAGES = (
    "English Spanish Mandarin Hindi Arabic Portuguese Bengali Russian Japanese Punjabi German Javanese Korean French "
    "Turkish Vietnamese Telugu Marathi Tamil Italian Urdu Gujarati Polish Ukrainian Persian Dutch Romanian Greek Czech "
    "Hungarian Swedish Finnish Danish Norwegian Slovak Basque Welsh Irish Breton Sorbian"
).split()

console = Console(highlight=False)


def people() -> pa.Table:
    """200,000 invented people: a language with a long tail, an age, and how long they waited."""
    random = np.random.default_rng(7)
    weights = np.exp(-np.arange(len(LANGUAGES)) / 5)
    return pa.table(
        {
            "language": pa.array(random.choice(LANGUAGES, PEOPLE, p=weights / weights.sum())),
            "age": random.triangular(0, 30, 100, PEOPLE).astype(np.int64),
            "waited_ms": random.lognormal(5, 1, PEOPLE),
        }
    )


def show_languages(data: pa.Table) -> None:
    """A histogram beside the truth, its promise, and its picture."""
    truth = {row["values"]: row["counts"] for row in pc.value_counts(data["language"]).to_pylist()}
    answer = th.histogram(data, "language", epsilon=EPSILON, delta=DELTA)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in ("language", "in the sample", "estimate", "95 % interval", "truth"):
        table.add_column(heading, justify="left" if heading == "language" else "right", no_wrap=True)
    rows = list(answer)
    for row in [*rows[:8], *rows[-4:]]:
        interval = f"{row.interval[0]:,} – {row.interval[1]:,}"
        table.add_row(row.bucket, f"{row.count:,}", f"{row.estimate:,.0f}", interval, f"{truth[row.bucket]:,}")
        if row is rows[7]:
            table.add_row("…")
    console.print(table)
    inside = sum(row.interval[0] <= truth[row.bucket] <= row.interval[1] for row in rows)
    console.print(
        f"{len(rows)} of {len(truth)} languages released, everything below the threshold left out; the truth lies in "
        f"{inside} of {len(rows)} intervals. (Only this demo knows the truth; an analyst sees the release alone.)\n",
        soft_wrap=True,
    )
    console.print(answer.verify().in_words(), soft_wrap=True)
    answer.save(OUT / "languages.json")
    draw(answer, truth)


def draw(answer: Histogram, truth: dict[str, int]) -> None:
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


def show_the_rest(data: pa.Table) -> None:
    """TrieHH++, quantiles and ranges, each with a budget of its own."""
    found = th.heavy_hitters(data, "language", method="trie", levels=11, epsilon=EPSILON, delta=DELTA)
    words = [str(item.item) for item in found.complete]
    console.print(
        f"TrieHH++, 11 rounds, a letter each: {len(words)} whole words: {', '.join(words[:9])} …", soft_wrap=True
    )
    found.plot(OUT / "trie.png", most=40)

    wanted = (0.5, 0.9, 0.99)
    answers = th.quantiles(data, "waited_ms", wanted, lower=0, upper=10_000, epsilon=EPSILON, delta=DELTA)
    truth = np.quantile(data["waited_ms"].to_numpy(), wanted)
    for answer, true in zip(answers, truth, strict=True):
        console.print(f"{answer.probability:.0%} waited less than {answer.value:,.0f} ms (truth: {true:,.0f} ms)")

    ranges = th.ranges(data, "age", lower=0, upper=128, epsilon=EPSILON, delta=DELTA)
    working = ranges.count(18, 65)
    ages = data["age"].to_numpy()
    true = int(((ages >= 18) & (ages < 65)).sum())
    console.print(f"{working.estimate:,.0f} people are from 18 up to 65 (truth: {true:,})")
    ranges.plot(OUT / "ages.png")


def main() -> None:
    """Plan, ask, compare, draw."""
    OUT.mkdir(parents=True, exist_ok=True)
    console.rule("1. A plan, before anything is spent", align="left")
    console.print(str(th.plan(epsilon=EPSILON, delta=DELTA)), soft_wrap=True, markup=False)
    data = people()
    console.rule(f"2. Which languages {PEOPLE:,} people speak, released privately", align="left")
    show_languages(data)
    console.rule("3. Common words letter by letter, quantiles, ranges", align="left")
    show_the_rest(data)
    files = ", ".join(sorted(path.name for path in OUT.iterdir()))
    console.print(f"\nPictures and the release with its certificate are in {OUT}: {files}", soft_wrap=True)


if __name__ == "__main__":
    main()

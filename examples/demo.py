"""The main job end to end on generated data: plan, draw, compare with the truth, draw the picture.

Run it with `make demo`. Pictures go to out/demo/.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import thresher as th
from thresher import charts
from thresher.mechanism import sample_and_threshold

OUT = Path("out/demo")
PEOPLE = 200_000
LANGUAGES = (
    "English Spanish Mandarin Hindi Arabic Portuguese Bengali Russian Japanese Punjabi German Javanese Korean French "
    "Turkish Vietnamese Telugu Marathi Tamil Italian Urdu Gujarati Polish Ukrainian Persian Dutch Romanian Greek Czech "
    "Hungarian Swedish Finnish Danish Norwegian Slovak Basque Welsh Irish Breton Sorbian"
).split()


def people() -> dict[str, int]:
    """How many of 200,000 invented people speak each language: a long tail, as in life."""
    weights = np.exp(-np.arange(len(LANGUAGES)) / 5)
    counts = np.random.default_rng(7).multinomial(PEOPLE, weights / weights.sum())
    return {language: int(count) for language, count in zip(LANGUAGES, counts, strict=True) if count}


def main() -> None:
    """Plan, release, compare, draw."""
    console = Console(highlight=False)
    OUT.mkdir(parents=True, exist_ok=True)
    truth = people()

    console.rule("1. A plan, before anything is spent", align="left")
    plan = th.plan(epsilon=1.0, delta=1e-8)
    console.print(str(plan), soft_wrap=True, markup=False)

    console.rule(f"2. What {PEOPLE:,} people speak, released privately", align="left")
    release = sample_and_threshold(truth, plan, columns=("language",))
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in ("language", "in the sample", "estimate", "95 % interval", "truth"):
        table.add_column(heading, justify="left" if heading == "language" else "right")
    for row in release:
        interval = f"{row.interval[0]:,} – {row.interval[1]:,}"
        table.add_row(row.bucket, f"{row.count:,}", f"{row.estimate:,.0f}", interval, f"{truth[row.bucket]:,}")
    table.add_row("everything below the threshold", "", "", "", "")
    console.print(table)
    inside = sum(row.interval[0] <= truth[row.bucket] <= row.interval[1] for row in release)
    console.print(
        f"{len(release)} of {len(truth)} languages released; the truth lies in {inside} of their intervals. "
        "(Only this demo knows the truth; an analyst sees the release alone.)",
        soft_wrap=True,
    )

    console.rule("3. What is guaranteed", align="left")
    console.print(release.verify().in_words(), soft_wrap=True)
    release.save(OUT / "languages.json")
    rows = release.table
    chart = charts.histogram(
        release.buckets,
        rows["estimate"].to_pylist(),
        rows["lower"].to_pylist(),
        rows["upper"].to_pylist(),
        threshold=plan.threshold / plan.sampling_rate,
        title="Languages of 200,000 invented people",
        subtitle=str(plan.guarantee),
        truth=[truth[bucket] for bucket in release.buckets],
    )
    charts.show(chart, OUT / "languages.png")
    console.print(
        f"\nThe picture: {OUT / 'languages.png'}   the release with its certificate: {OUT / 'languages.json'}"
    )


if __name__ == "__main__":
    main()

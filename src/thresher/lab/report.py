"""One HTML file that stands alone: verdicts on the paper's claims, every figure, and the tables behind them."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from thresher.lab.experiments import claims, comparison, mechanisms
from thresher.lab.experiments.examples import examples
from thresher.lab.experiments.runner import Row
from thresher.lab.experiments.settings import ALPHA, DELTA, POPULATION, RULES, Settings, plan_of
from thresher.lab.rivals import ShuffledBernoulli
from thresher.lab.rivals.shuffle_accounting import shuffle_delta

CAPTIONS = {
    "accuracy": "The paper's figure of errors. Ours under both rules, rivals on the paper rule's sample.",
    "recall": "The paper's figure of recall, for k = B/10.",
    "rules": "The exact plan against the paper's rule, for the same (ε, δ).",
    "population": "Errors along the number of people.",
    "delta": "Errors along δ.",
    "heavy": "Common words: TrieHH++, one round of whole words, and the original TrieHH.",
    "quantiles": "Rank errors of quantiles.",
    "intervals": "Intervals of ranks and quantiles: how wide they are, and how often they hold.",
}

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .7rem; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; }
figure { margin: 2rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption, .note { color: #555; }
.holds { color: #00694c; font-weight: bold; } .except { color: #8a5a00; font-weight: bold; }
.fails { color: #a33b00; font-weight: bold; } .untested { color: #666; font-weight: bold; }
"""

_CLASSES = {claims.HOLDS: "holds", claims.EXCEPT: "except", claims.FAILS: "fails", claims.UNTESTED: "untested"}


def write(path: Path, results: dict[str, list[Row]], drawings: Mapping[str, str], settings: Settings) -> None:
    """Write the report as a file with the figures (SVG texts by name) in it; it loads nothing from elsewhere."""
    rows = results.get("accuracy", [])
    parts = [
        "<h1>Sample and threshold: the paper's experiments</h1>",
        _how(settings),
        "<h2>The paper's claims</h2>",
        _verdicts(rows),
        "<h2>Figures</h2>",
        *(_figure(name, svg) for name, svg in drawings.items()),
        "<h2>The paper's rule against the exact plan</h2>",
        _plans(settings),
        _compared(rows),
        "<h2>Numeric examples of the text</h2>",
        _examples(),
        "<h2>Simulated against expected errors</h2>",
        _scores(rows, settings),
    ]
    body = "\n".join(parts)
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Thresher lab</title>'
        f"<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )
    path.write_text(page, encoding="utf-8")


def _inline_svg(svg: str, name: str) -> str:
    """An SVG element whose inner names are its own, so that several can be in one page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)


def _how(settings: Settings) -> str:
    shuffle = "" if settings.credit_amplification else _capped(settings)
    credit = "credited" if settings.credit_amplification else "not credited"
    return (
        f"<p>n = {POPULATION:,} people (Shakespeare: every word is one), δ = {DELTA:g}, α = {ALPHA:.4g}, "
        f"{settings.repetitions} repetitions, seed {settings.seed}. In a repetition all mechanisms get one sample; "
        f"estimates are divided by its rate. Amplification by sampling is {credit} to the rivals. Noise hides the "
        "replacement of one person's value, as the paper's neighbours do, so Laplace noise has scale 2/ε."
        f"{html.escape(shuffle)}</p>"
        "<p>Recall: the top are the buckets, not empty, whose true count is at least the k-th largest, k = B/10; ties "
        "at the border all belong to it. Reported are the k largest estimates above 0, ties broken at random. Where "
        "fewer than k buckets are not empty, recall is the part of those.</p>"
        '<p class="note">Drawn with seeded generators on public and synthetic data: nothing here is a private '
        "release.</p>"
    )


def _capped(settings: Settings) -> str:
    """Where the shuffle parameter as published does not exist, and what stands in for it."""
    found = []
    for epsilon in settings.epsilons:
        clients = round(POPULATION * plan_of("paper", epsilon, DELTA).sampling_rate)
        if ShuffledBernoulli(min(epsilon, 1.0), DELTA, capped=True).noise_rate(clients) == 0.5:
            found.append(f"δ = {shuffle_delta(clients, 0.5, epsilon):.1g} at ε = {epsilon:g}")
    if not found:
        return ""
    return (
        " The paper says that all mechanisms have guarantees from ε = 0.1 on. With its own sample the shuffle "
        "parameter as published would there need more noise than fair coins have. Fair coins stand in for it and "
        f"reach {', '.join(found)}."
    )


def _verdicts(rows: Sequence[Row]) -> str:
    if not rows:
        return "<p>The experiment on accuracy was not run.</p>"
    pairs = zip(claims.judge(rows, "paper"), claims.judge(rows, "exact"), strict=True)
    cells = [(html.escape(ours.claim), _judged(ours), _judged(exact)) for ours, exact in pairs]
    return _table(("claim", "with the paper's rule", "with the exact plan"), cells, escaped=True)


def _judged(verdict: claims.Verdict) -> str:
    parts = [f'<span class="{_CLASSES[verdict.verdict]}">{verdict.verdict}</span>']
    if verdict.exceptions:
        parts.append("exceptions: " + html.escape("; ".join(verdict.exceptions)))
    parts.append(f'<span class="note">{html.escape(verdict.numbers)}</span>')
    if verdict.reason:
        parts.append("<em>why:</em> " + html.escape(verdict.reason))
    return "<br>".join(parts)


def _figure(name: str, svg: str) -> str:
    caption = html.escape(CAPTIONS.get(name, name))
    return f'<figure id="{name}">{_inline_svg(svg, name)}<figcaption>{caption}</figcaption></figure>'


def _plans(settings: Settings) -> str:
    lines = []
    for epsilon in settings.epsilons:
        paper, exact = (plan_of(rule, epsilon, DELTA) for rule in RULES)
        seen = [plan.smallest_visible() for plan in (paper, exact)]
        lines.append(
            (
                f"{epsilon:g}",
                f"p = {paper.sampling_rate:.4f}, τ = {paper.threshold}",
                f"p = {exact.sampling_rate:.4f}, τ = {exact.threshold}",
                f"{seen[0]:,}",
                f"{seen[1]:,}",
                f"{seen[1] / seen[0]:.2f}",
            )
        )
    return _table(("ε", "paper's rule", "exact plan", "sees buckets of", "exact sees", "ratio"), lines)


def _compared(rows: Sequence[Row]) -> str:
    """Ratios over all epsilons, a line a dataset and histogram size."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in comparison.compared(rows):
        groups.setdefault((row["dataset"], row["buckets"]), []).append(row)
    lines = []
    for (dataset, buckets), found in groups.items():
        errors = [row["mae_ratio"] for row in found]
        before, after = ([row[f"recall_{rule}"] for row in found] for rule in RULES)
        lines.append(
            (
                dataset,
                f"{buckets:,}",
                f"{min(errors):.2f} to {max(errors):.2f}",
                f"{min(before):.2f} to {max(before):.2f}",
                f"{min(after):.2f} to {max(after):.2f}",
            )
        )
    head = ("dataset", "buckets", "error, exact ÷ paper", "recall, paper's rule", "recall, exact plan")
    return _table(head, lines)


def _examples() -> str:
    lines = [
        (
            each.place,
            each.quantity,
            each.printed,
            f"{each.computed:.4g}",
            f"{each.corrected:.4g}",
            "yes" if each.agrees else "no",
            each.remark,
        )
        for each in examples()
    ]
    head = ("section", "quantity", "paper's value", "formula gives", "exact or corrected", "right as printed", "remark")
    return _table(head, lines)


def _scores(rows: Sequence[Row], settings: Settings) -> str:
    if not rows or settings.repetitions < 2:
        return "<p>Not run.</p>"
    lines = []
    for name in (mechanisms.THRESHOLD, mechanisms.LAPLACE):
        found = comparison.scores(rows, name, settings.repetitions)
        beyond = float(np.mean(np.abs(found) > 1.96))
        lines.append((name, str(len(found)), f"{found.mean():+.2f}", f"{found.std(ddof=1):.2f}", f"{beyond:.1%}"))
    head = ("mechanism", "errors compared", "mean of scores", "their deviation", "beyond ±1.96")
    note = "<p>Standard normal scores have mean 0, deviation 1, and 5 % beyond ±1.96.</p>"
    return note + _table(head, lines)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]], *, escaped: bool = False) -> str:
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell if escaped else html.escape(cell)}</td>" for cell in line) + "</tr>"
        for line in lines
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"

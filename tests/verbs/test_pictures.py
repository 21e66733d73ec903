"""Pictures are written in each format, also where there is nothing to show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from in_memory_people import CountsPopulation, NumbersPopulation

import thresher as th
from thresher import charts
from thresher.errors import InvalidSetting
from thresher.questions import Values
from thresher.verbs import HistogramQuery, heavy_hitters, quantiles, ranges

ONE, FOUR = th.plan(1, 1e-8), th.plan(1, 1e-8, rounds=4)
WORDS = CountsPopulation({"the": 9_000, "then": 4_000, 'quote"<b>': 3_000, "a": 5_000})
NUMBERS = NumbersPopulation([value % 100 for value in range(20_000)])
NOBODY = NumbersPopulation([1.0])

ANSWERS: dict[str, Any] = {
    "histogram": lambda: HistogramQuery(Values(("word",)), ONE).run(WORDS),
    "one-shot": lambda: heavy_hitters(WORDS, "word", plan=ONE),
    "trie": lambda: heavy_hitters(WORDS, "word", plan=FOUR, method="trie"),
    "no trie": lambda: heavy_hitters(CountsPopulation({}), "word", plan=FOUR, method="trie"),
    "search": lambda: quantiles(NUMBERS, "x", [0.5, 0.9], plan=FOUR, lower=0, upper=100),
    "hierarchy": lambda: quantiles(NUMBERS, "x", [0.5, 0.9], plan=FOUR, lower=0, upper=100, method="hierarchy"),
    "no search": lambda: quantiles(NOBODY, "x", [0.5], plan=FOUR, lower=0, upper=100),
    "ranges": lambda: ranges(NUMBERS, "x", plan=FOUR, lower=0, upper=100),
    "no ranges": lambda: ranges(NOBODY, "x", plan=FOUR, lower=0, upper=100),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_svg(name: str, tmp_path: Path) -> None:
    answer = ANSWERS[name]()
    answer.plot(tmp_path / "picture.svg")
    text = (tmp_path / "picture.svg").read_text()
    assert text.startswith("<svg")
    assert "differential privacy" in text
    if name.startswith("no "):
        assert "nothing reached the threshold" in text


@pytest.mark.slow
def test_png_and_nothing_else(tmp_path: Path) -> None:
    answer = ANSWERS["trie"]()
    answer.plot(tmp_path / "trie.png")
    assert (tmp_path / "trie.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidSetting):
        answer.plot(tmp_path / "trie.docx")


def test_the_trie_shows_every_node_and_escapes_them(tmp_path: Path) -> None:
    heavy_hitters(WORDS, "word", plan=FOUR, method="trie", step=3).plot(tmp_path / "trie.svg")
    text = (tmp_path / "trie.svg").read_text()
    for label in ("the…", "then", "quote", "whole value"):
        assert label in text
    assert "<b>" not in text


def test_one_shot_is_bars_and_no_tree() -> None:
    content = str(ANSWERS["one-shot"]().plot().to_dict())
    assert "threshold ÷ p" in content and "Common values of word" in content
    assert "whole value" not in content and "the…" not in content


def test_the_truth_can_be_drawn_beside_the_band() -> None:
    chart = charts.distribution(
        [0, 1, 2], [0, 0.4, 1], [0, 0.3, 1], [0, 0.5, 1], title="t", subtitle="s", note="n.", truth=[0, 0.45, 1]
    )
    assert "Dashed: the truth." in str(chart.to_dict()["title"])

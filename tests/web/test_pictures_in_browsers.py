"""Pictures in a browser whose fonts are wider than those that a picture was laid out for."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from thresher import charts

WIDE = "text { font-family: 'DejaVu Sans', Verdana, sans-serif; }"
OUTSIDE = """() => {
    const whole = document.querySelector('svg').getBoundingClientRect();
    return [...document.querySelectorAll('text')].filter((text) => {
        const own = text.getBoundingClientRect();
        return own.left < whole.left || own.right > whole.right;
    }).map((text) => text.textContent);
}"""


@pytest.mark.slow
def test_nothing_is_cut_off_where_fonts_are_wider(chromium: Browser, tmp_path: Path) -> None:
    edges = range(-60, 300, 30)
    labels = [f"{edge} to under {edge + 30}" for edge in edges]
    sizes = [20_000.0 - edge for edge in edges]
    promise = (
        "the largest 20 of 93 released buckets; (1, 1e-08)-differential privacy, replace, over one round, for one row"
    )
    chart = charts.histogram(labels, sizes, sizes, sizes, threshold=100, title="dep_delay", subtitle=promise)
    page = chromium.new_page()
    charts.show(chart, tmp_path / "delays.svg")
    page.set_content((tmp_path / "delays.svg").read_text())
    page.add_style_tag(content=WIDE)
    assert page.evaluate(OUTSIDE) == []
    charts.show(chart.configure(padding=0), tmp_path / "bare.svg")
    page.set_content((tmp_path / "bare.svg").read_text())
    page.add_style_tag(content=WIDE)
    assert labels[-1] in page.evaluate(OUTSIDE)  # the check sees what is cut off
    page.close()

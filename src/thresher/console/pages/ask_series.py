"""The part of the ask page for a query on a schedule: what the series would cost and see, then start it."""

from __future__ import annotations

from typing import Any

from thresher.console.plan_shown import Prepared, cautions, visibility_chart
from thresher.console.requests import PageRequest
from thresher.console.series_form import series_agreement, to_series
from thresher.protocol.series_messages import SeriesPreview


def plan(request: PageRequest, fields: dict[str, str], *, waiting: bool) -> dict[str, Any]:
    """What the plan's part of the page shows for a series."""
    console = request.console
    asked = to_series(fields, console.clock, console.compute)
    preview: SeriesPreview = console.analyst.series.preview(asked)
    release = preview.release
    guarantees = preview.guarantees.values
    return {
        "series": preview,
        "agreed": series_agreement(fields, asked),
        "against": cautions(preview, waiting=waiting),
        "promise": guarantees.analyst.in_words(),
        "guarantees": guarantees,
        "words": [words for words in preview.words if words not in guarantees.in_words()],
        "chart": visibility_chart(release.sampling_rate, release.threshold, release.smallest_visible),
        "ledger": console.analyst.ledger_view(),
    }


def prepare(request: PageRequest, fields: dict[str, str]) -> Prepared:
    """The series that a form asks for, ready to be started."""
    console = request.console
    asked = to_series(fields, console.clock, console.compute)
    series = console.analyst.series
    return Prepared(
        series_agreement(fields, asked),
        lambda: series.preview(asked).warnings,
        lambda: f"/series/{series.create(asked, request.caller.name).id}",
    )

"""Answers as files: CSV, JSON, Parquet, PNG, SVG. Each says when it was released, for whom it stands and what holds."""

from __future__ import annotations

import io
import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.responses import Response

from thresher import charts
from thresher.charts.rendering import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY
from thresher.console.rendering import machine_time, sentence, what, when
from thresher.errors import NotFound

KINDS = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
    "png": "image/png",
    "svg": "image/svg+xml",
}
PICTURES = ("png", "svg")
_FORMULA = r"\A([=+\-@\t\r])"
"""The beginnings of a text that a spreadsheet reads as a formula."""

# The light colours of static/console.css; a test compares them.
TEXT, SOFT, LINE, SURFACE = "#17211e", "#53605b", "#dde2de", "#ffffff"
BAR, ACCENT, MARK = "#3f9486", "#0b6b5d", "#a64b00"
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif'
TRENDS = {BLUE: "#0072b2", RED: "#d55e00", GREEN: "#009e73", PURPLE: "#b35c8f", ORANGE: "#b87f00", SKY: "#3d94c6"}
_INK = {BLACK: TEXT, GREY: SOFT}


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a file says of an answer, or of the answers of a series, beside the numbers."""

    title: str
    released: float
    """When, in seconds since 1970; of a series, its last release."""
    stands_for: str
    guarantee: str
    series: bool = False

    @classmethod
    def of(cls, answer: Any, asked: str, released: float, *, series: bool = False) -> Provenance:
        """That of an answer; `asked` is its query in words."""
        title = sentence(what(asked)) + (", over time" if series else "")
        return cls(title, released, answer.stands_for or "everybody in the table", answer.footing(), series)

    @property
    def content(self) -> dict[str, str]:
        """All of it, for a file that has room beside its rows."""
        date = {"last_released" if self.series else "released": machine_time(self.released)}
        return {"title": self.title, **date, "stands_for": self.stands_for, "guarantee": self.guarantee}

    @property
    def columns(self) -> dict[str, str]:
        """What each row of a file without other room says; the rows of a series have their dates already."""
        return {name: text for name, text in self.content.items() if name not in ("title", "last_released")}

    @property
    def line(self) -> str:
        """What a picture says beside what it says of itself."""
        return f"{'Last release' if self.series else 'Released'}: {when(self.released)}."

    def file_name(self, kind: str) -> str:
        """The name of the file, with the date."""
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", self.title).strip("-").lower() or "answer"
        return f"{plain}-{machine_time(self.released)[:10]}.{kind}"


def download(answer: Any, kind: str, provenance: Provenance) -> bytes:
    """The answer as a file of this kind.

    Guarantee: no text in a CSV starts like a formula, so a spreadsheet that opens it runs nothing that a device sent.
    """
    if kind == "csv":
        return _csv(_with_columns(answer.to_arrow(), provenance.columns))
    if kind == "json":
        content = json.loads(answer.to_json()) | provenance.content
        whole = content if provenance.series else answer.saved(content)
        return json.dumps(whole, ensure_ascii=False, allow_nan=False).encode()
    if kind == "parquet":
        return _parquet(answer.to_arrow().replace_schema_metadata(provenance.content))
    if kind in PICTURES:
        chart = charts.dressed(answer.plot(), _look(answer, provenance), provenance.title, [provenance.line])
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / f"answer.{kind}"
            charts.show(chart, path)
            return path.read_bytes()
    raise NotFound("There is no such download.", hint=f"There are: {', '.join(KINDS)}.")


def saved_file(answer: Any, kind: str, provenance: Provenance) -> Response:
    """The same as what a browser saves under a name of its own."""
    content = download(answer, kind, provenance)
    headers = {"Content-Disposition": f'attachment; filename="{provenance.file_name(kind)}"'}
    return Response(content, headers=headers, media_type=KINDS[kind])


def _look(answer: Any, provenance: Provenance) -> charts.Look:
    """The console's look: lines of several colours for several numbers, otherwise its green and its brown."""
    if provenance.series or (answer.grouped and answer.measures):
        colours = TRENDS
    else:
        main = BAR if answer.window() is None else ACCENT
        colours = {BLUE: main, ORANGE: MARK, RED: MARK}
    return charts.Look(FONT, SURFACE, TEXT, SOFT, LINE, colours | _INK)


def _with_columns(table: Any, texts: dict[str, str]) -> Any:
    """The table with a column of the same text in every row for each of these names."""
    import pyarrow as pa

    for name, text in texts.items():
        while name in table.column_names:
            name = f"answer_{name}"
        table = table.append_column(name, pa.array([text] * len(table), pa.string()))
    return table


def _csv(table: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            texts = pc.replace_substring_regex(table.column(index), _FORMULA, r"'\1")
            table = table.set_column(index, field.name, texts)
    sink = io.BytesIO()
    csv.write_csv(table, sink)
    return sink.getvalue()


def _parquet(table: Any) -> bytes:
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()

"""Answers as files: CSV, JSON, Parquet, PNG, SVG."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import Any

from thresher.errors import NotFound
from thresher.verbs.answer import Answer

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


def download(answer: Any, kind: str) -> bytes:
    """The answer as a file of this kind.

    Guarantee: no text in a CSV starts like a formula, so a spreadsheet that opens it runs nothing that a device sent.
    """
    if kind == "csv":
        return _csv(answer.to_arrow())
    if kind == "json":
        return _json(answer).encode()
    if kind == "parquet":
        return _parquet(answer.to_arrow())
    if kind in ("png", "svg"):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / f"answer.{kind}"
            answer.plot(path)
            return path.read_bytes()
    raise NotFound("There is no such download.", hint=f"There are: {', '.join(KINDS)}.")


def _json(answer: Any) -> str:
    """An answer as the command's --output writes it, which `thresher.load` reads; a series has rows alone."""
    if not isinstance(answer, Answer):
        return str(answer.to_json())
    return json.dumps(answer.saved(answer.document()), ensure_ascii=False, allow_nan=False)


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

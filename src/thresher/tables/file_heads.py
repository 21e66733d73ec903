"""What a file is by its first bytes, where that is not what its name says.

Every format has first bytes that no person decides: a signature, a mark of its encoding, a header line. The first line
of JSON lines is a person's: there, first bytes say something only in a file that has no lines of JSON at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from thresher.errors import InvalidSetting
from thresher.tables.record_stream import COMPRESSIONS, opened

_HEAD = 64
_UTF_16 = "is text in UTF-16", "Convert it to UTF-8: iconv -f UTF-16 -t UTF-8 old > new"
_EXCEL = "is a workbook of Excel", "Save the sheet as CSV in UTF-8, or read it into a data frame."
_WEB_PAGE = "is a web page or XML", "Look at it: it may be a page about an error or a login, in place of the data."
_SIGNATURES: dict[bytes, tuple[str, str]] = {
    b"PAR1": ("is a Parquet file", "Say so: `format='parquet'`."),
    b"ARROW1": ("is an Arrow or Feather file", "Read it with pyarrow.feather.read_table, and give the table."),
    b"PK\x03\x04": ("is a ZIP archive", "Unzip it first, and give the file that was in it."),
    b"\xd0\xcf\x11\xe0": _EXCEL,
    b"\x1f\x8b": ("is compressed with gzip", "Let its name end in .gz."),
    b"\x28\xb5\x2f\xfd": ("is compressed with zstd", "Let its name end in .zst."),
    b"BZh": ("is compressed with bzip2", "Decompress it first: bunzip2."),
    b"\xfd7zXZ\x00": ("is compressed with xz", "Decompress it first: unxz."),
    b"SQLite format 3\x00": ("is an SQLite database", "Give its address, sqlite:///file.db, and its `table`."),
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
    b"%PDF": ("is a PDF", "Give the data as CSV, JSON lines or Parquet."),
    b"<!DOCTYPE": _WEB_PAGE,
    b"<!doctype": _WEB_PAGE,
    b"<html": _WEB_PAGE,
    b"<?xml": _WEB_PAGE,
}
_OFFICE = re.compile(rb"PK\x03\x04.{26}(\[Content_Types\]\.xml|_rels/|docProps/|xl/)", re.DOTALL)
"""How a workbook begins: an archive whose first file has one of these names."""
_IN_NAMES = {"gzip": (b"\x1f\x8b", ".gz"), "zstd": (b"\x28\xb5\x2f\xfd", ".zst")}
_PARQUET_ENDS = (b"PAR1", b"PARE")


def check_compression(file: str) -> None:
    """Require that a file whose name says that it is compressed is so."""
    codec = COMPRESSIONS.get(Path(file).suffix.lower())
    if codec is None:
        return
    signature, suffix = _IN_NAMES[codec]
    with Path(file).open("rb") as raw:
        if raw.read(len(signature)) not in (signature, b""):
            raise InvalidSetting(
                "data",
                f"{file!r} is not compressed with {codec}, although its name ends in {suffix}",
                hint=f"Rename it without {suffix}, or copy it again if it is damaged.",
            )


def check_foreign(file: str, lines: Callable[[], bool] = lambda: False) -> None:
    """Refuse a file whose first bytes are those of another format, unless `lines` says that they are a person's."""
    check_compression(file)
    found = _recognised(_head(file))
    if found is not None and not lines():
        what, hint = found
        if suffix := Path(file).suffix:
            hint = hint.replace("end in .", f"end in {suffix}.")  # of what is compressed
        raise InvalidSetting("data", f"{file!r} {what}", hint=hint)


def check_parquet(file: str) -> None:
    """Require the first and last bytes of a Parquet file."""
    size = Path(file).stat().st_size
    with Path(file).open("rb") as raw:
        first = raw.read(4)
        raw.seek(max(size - 4, 0))
        last = raw.read(4)
    if first in _PARQUET_ENDS and last in _PARQUET_ENDS and size >= 12:
        return
    hint = "Write or copy it again. If it is another format, say which: `format='csv'`."
    if not size:
        problem = "is empty"
    elif first in _PARQUET_ENDS:
        problem = "begins as a Parquet file and does not end as one: it was cut off"
    else:
        problem, hint = _recognised(_head(file)) or ("is not a Parquet file", hint)
    raise InvalidSetting("data", f"{file!r} {problem}", hint=hint)


def _head(file: str) -> bytes:
    with opened(file) as (stream, _):
        head: bytes = stream.read(_HEAD)
    return head


def _recognised(head: bytes) -> tuple[str, str] | None:
    """What a file is that begins like this, and what to do; None where it may be text in UTF-8."""
    found = next((said for signature, said in _SIGNATURES.items() if head.startswith(signature)), None)
    if _OFFICE.match(head):
        return _EXCEL
    halves = head[::2], head[1::2]
    if found is None and len(head) >= 4 and any(half and not half.strip(b"\x00") for half in halves):
        return _UTF_16
    return found

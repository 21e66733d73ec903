"""Columns of pandas, NumPy and Python as Arrow, of types that follow from their dtype alone.

Lists and columns of Python objects have no public type: each object is written as text by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Any

import pyarrow as pa

from thresher.questions.spelling import as_text

_BATCH = 1 << 14


def holds_objects(dtype: Any) -> bool:
    """Whether a dtype says no more than "Python objects", or "categories" that are such objects."""
    categories = getattr(dtype, "categories", None)
    return str(dtype if categories is None else categories.dtype) == "object"


def arrow_column(column: Any) -> Any:
    """A pandas series or a NumPy array as Arrow; Python objects as text, each by itself."""
    if holds_objects(column.dtype):
        return spelled(column)
    try:
        return pa.array(column)
    except UnicodeError:  # text that UTF-8 cannot write is no value, and must not stop the rest
        return spelled(column.tolist())


def spelled(values: Iterable[Any], spell: Callable[[Any], str | None] = as_text) -> pa.ChunkedArray:
    """Values as text by `as_text`, or another function, a row each; null for what has no text.

    Guarantee: no value raises an error, and no value changes what becomes of another. Values are read in a thread of
    their own: there a `KeyboardInterrupt` can only be raised by an object's own methods, and is ignored. One that the
    user sends reaches the caller's thread, and stops the count.
    Edge cases: text that UTF-8 cannot write is no value.
    """
    source = iter(values)
    batches = []
    with ThreadPoolExecutor(1, thread_name_prefix="thresher-objects") as pool:
        while batch := list(islice(source, _BATCH)):
            batches.append(pool.submit(_batch, batch, spell).result())
    return pa.chunked_array(batches, pa.large_string())


def _batch(values: Sequence[Any], spell: Callable[[Any], str | None]) -> pa.Array:
    """A batch of only texts or only whole numbers is converted at once; anything else value by value."""
    with suppress(BaseException):  # even a class's own hash may raise
        held = set(map(type, values)) - {type(None)}
        if held == {str}:
            return pa.array(values, pa.large_string())
        if held == {int}:
            return pa.array(values, pa.int64()).cast(pa.large_string())
    return pa.array([_text(value, spell) for value in values], pa.large_string())


def _text(value: Any, spell: Callable[[Any], str | None]) -> str | None:
    try:
        text = spell(value)
        # Not `text.encode()`: a subclass of `str` may have a method of its own.
        return None if text is None else str.encode(text).decode()
    except BaseException:  # an object that raises when it is read has no value
        return None


def decoded(octets: bytes | None) -> str | None:
    """Bytes as text; None where they are not UTF-8."""
    try:
        return None if octets is None else octets.decode()
    except UnicodeDecodeError:
        return None

"""Python objects as text, each by itself: lists, arrays and columns of objects have no type that is public."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from thresher.questions.spelling import as_text

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 1 << 14


def spelled(values: Iterable[Any]) -> pa.ChunkedArray:
    """Values as text by `as_text`, a row each; null for what has no text.

    Guarantee: never raises for a value, and no value changes what becomes of another. Values are read in a thread of
    their own: there an interrupt can only come from an object's own methods, and means nothing. A real one reaches the
    caller's thread, and stops the count.
    Edge cases: text that UTF-8 cannot write is no value.
    """
    import pyarrow as pa

    source = iter(values)
    batches = []
    with ThreadPoolExecutor(1, thread_name_prefix="thresher-objects") as pool:
        while batch := list(islice(source, _BATCH)):
            batches.append(pool.submit(_batch, batch).result())
    return pa.chunked_array(batches, pa.large_string())


def _batch(values: Sequence[Any]) -> pa.Array:
    """Texts and whole numbers alone are written at once; anything else one by one."""
    import pyarrow as pa

    with suppress(BaseException):  # also what a class does that is asked for its hash
        held = set(map(type, values)) - {type(None)}
        if held == {str}:
            return pa.array(values, pa.large_string())
        if held == {int}:
            return pa.array(values, pa.int64()).cast(pa.large_string())
    return pa.array([_text(value) for value in values], pa.large_string())


def _text(value: Any) -> str | None:
    try:
        text = as_text(value)
        # By `str` itself: an object may be a text with methods of its own.
        return None if text is None else str.encode(text).decode()
    except BaseException:  # whatever an object does that is asked what it is: it has no value then
        return None

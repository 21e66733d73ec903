"""Reads what a device holds. Whatever the app's own code does meanwhile, the result is plaintexts, or decoys' places.

Functions and objects of the app run in a thread of their own. If one takes too long, raises or ends its thread, the
device has no value and the round goes on: whether a device completes a round must not depend on what it holds. Plain
values, which run no code of the app, are read at once.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from thresher.device.chosen_values import MOST_ELEMENTS, plaintexts
from thresher.questions import Question

T = TypeVar("T")

Attributes: TypeAlias = Mapping[str, Any] | Callable[[], Mapping[str, Any]]
"""What a device holds: values by name, or a function that returns them when a round is answered.

A value may be a function too, called when it is asked for. Of a list, as many elements count in each round as the round
has contributions, chosen at random; `thresher.device.chosen_values` says how.
A condition on a list holds if one of its elements that are looked at satisfies it. If the list itself is asked about,
only such elements count.
"""

SECONDS = 5.0
"""How long reading may take, by default."""
_PLAIN = frozenset({str, int, float, bool, dt.date, type(None)})


class Reader:
    """Reads what one device holds.

    Guarantee: errors of the app's code are not raised, and it is waited for at most `seconds`. A thread that takes
    longer is left running. Until it ends no other is started, and whatever would need one has no value.
    Edge cases: code that holds the interpreter's lock cannot be interrupted. Ctrl-C is raised in the waiting thread.
    """

    __slots__ = ("_thread", "attributes", "seconds")

    def __init__(self, attributes: Attributes, seconds: float = SECONDS) -> None:
        self.attributes = attributes
        self.seconds = seconds
        self._thread: threading.Thread | None = None

    def visit(self) -> Visit:
        """The values for one visit: each function is called once for all rounds of it."""
        return Visit(self)

    def run(self, reading: Callable[[], T]) -> T | None:
        """What a reading returns, or None if it returns nothing in time."""
        if self._thread is not None and self._thread.is_alive():
            return None
        found: list[T] = []

        def work() -> None:
            # SystemExit and its like end this thread, and nothing else
            with suppress(BaseException):
                found.append(reading())

        thread = threading.Thread(target=work, name="thresher-reading", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the machine has no thread left
            return None
        self._thread = thread
        thread.join(self.seconds)
        return None if thread.is_alive() or not found else found[0]


class Visit:
    """What the device holds at one visit."""

    __slots__ = ("_reader", "_seen")

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._seen: dict[str | None, Any] = {}

    def plaintexts(
        self, question: Question, size: int, contributions: int, numbers: Sequence[int], draw: float | None = None
    ) -> list[bytes | None]:
        """A padded plaintext for each contribution, or None in its place where there is no value that can be sent.

        `numbers` are random: they say which elements of lists are taken. See `thresher.device.chosen_values`. `draw` is
        a random number in [0, 1), for questions that need it.
        """
        held = self._reader.attributes
        inputs = question.inputs
        if type(held) is dict and all(type(name) is str for name in held):
            found = [held.get(name) for name in inputs]
            if all(_is_plain(value) for value in found):
                return plaintexts(question, found, size, numbers, draw)
        read = self._reader.run(lambda: plaintexts(question, self._values(inputs), size, numbers, draw))
        return [None] * contributions if read is None else read

    def _values(self, columns: tuple[str, ...]) -> list[Any]:
        """What is held, by the app's own code: only in a thread of its own."""
        if None not in self._seen:
            attributes = self._reader.attributes
            self._seen[None] = attributes() if callable(attributes) else attributes
        for column in columns:
            if column not in self._seen:
                value = self._seen[None].get(column)
                self._seen[column] = value() if callable(value) else value
        return [self._seen[column] for column in columns]


def _is_plain(value: Any) -> bool:
    """Whether looking at a value runs none of the app's code; not looked into for long lists."""
    if type(value) in (list, tuple):
        return len(value) <= MOST_ELEMENTS and all(type(each) in _PLAIN for each in value)
    return type(value) in _PLAIN

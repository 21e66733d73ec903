"""Reads what a device holds. Whatever the app's own code does meanwhile, the result is a plaintext or None.

Functions and objects of the app run in a thread of their own. If one takes too long, raises or ends its thread, the
device has no value and the round goes on: whether a device completes a round must not depend on what it holds. Plain
values, which run no code of the app, are read at once.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from thresher.protocol import plaintext
from thresher.questions import Question

Attributes: TypeAlias = Mapping[str, Any] | Callable[[], Mapping[str, Any]]
"""What a device holds: values by name, or a function that returns them when a round is answered.

A value may be a function too, called when it is asked for; of a list, one element is chosen at random in each round.
A condition on a list holds if one of its elements satisfies it. If the list itself is asked about, only such elements
count.
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

    def run(self, reading: Callable[[], bytes | None]) -> bytes | None:
        """What a reading returns, or None if it returns no bytes in time."""
        if self._thread is not None and self._thread.is_alive():
            return None
        found: list[bytes] = []

        def work() -> None:
            try:
                read = reading()
            except BaseException:  # SystemExit and its like end this thread, and nothing else
                return
            if type(read) is bytes:
                found.append(read)

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

    def plaintext(self, question: Question, size: int, choice: int, draw: float | None = None) -> bytes | None:
        """The padded plaintext of what is held, or None where there is no value that can be sent.

        `choice` is a random number: it says which elements of lists are taken. `draw` is one in [0, 1), for questions
        that need it.
        """
        held = self._reader.attributes
        inputs = question.inputs
        if type(held) is dict and all(type(name) is str for name in held):
            found = [held.get(name) for name in inputs]
            if all(_is_plain(value) for value in found):
                return _encoded(question, _chosen(question.narrowed(found), choice), size, draw)
        return self._reader.run(
            lambda: _encoded(question, _chosen(question.narrowed(self._values(inputs)), choice), size, draw)
        )

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
    """Whether looking at a value runs none of the app's code."""
    return type(value) in _PLAIN or (type(value) in (list, tuple) and all(type(each) in _PLAIN for each in value))


def _chosen(values: list[Any], choice: int) -> tuple[Any, ...]:
    """One value a column: of a list one element, independently in each column."""
    chosen = []
    for value in values:
        if isinstance(value, list | tuple):
            choice, place = divmod(choice, len(value) or 1)
            value = value[place] if len(value) else None
        chosen.append(value)
    return tuple(chosen)


def _encoded(question: Question, values: tuple[Any, ...], size: int, draw: float | None) -> bytes | None:
    bucket = plaintext.fleet_bucket(question, values if len(values) > 1 else values[0], draw)
    return plaintext.encode_bucket(question, bucket, size)

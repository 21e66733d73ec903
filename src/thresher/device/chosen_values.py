"""Which of the values that a device holds are sent in a round, and as what.

In a round of one contribution, one element of each list is chosen, and then mapped to its bucket. In a round of
several, elements are mapped to buckets of the round first; then so many *distinct* buckets are chosen, all sets of them
being equally likely. Coins are tossed for what was chosen and have no part in the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thresher.privacy.settings import MAX_CONTRIBUTIONS
from thresher.protocol import plaintext
from thresher.questions import Bucket, Question
from thresher.questions.question import Part

MOST_ELEMENTS = MAX_CONTRIBUTIONS
"""Elements of a list that are looked at in a round of several contributions, or with a filter. Of a longer list it is
so many in a row from a random place on, so that each element is as likely as any other to be looked at."""


def plaintexts(
    question: Question, held: Sequence[Any], size: int, numbers: Sequence[int], draw: float | None = None
) -> list[bytes | None]:
    """The padded plaintext of each contribution, in a random order; None where a decoy is to be sent.

    `held` has one value for each of the question's inputs; a list or tuple has several values, anything else is one
    value. `numbers` are random numbers: one for each contribution, and where there are several of them one more. `draw`
    is one in [0, 1), for questions that need it; only a question of one contribution does.

    Guarantee: exactly as many as there are contributions, whatever is held; no two of several are the same bucket.
    Edge cases: an element that has no bucket, or one that cannot be sent, does not take the place of another. A
    combination of several columns that is too long to be sent is a decoy. A device outside a filter sends decoys. A
    filter looks at `MOST_ELEMENTS` elements of a list at most: it holds if one of those satisfies its condition.
    """
    *choices, place = numbers
    values = list(held)
    if question.conditions:
        # Before the filter looks at them: how long a device works must not depend on how many elements it holds.
        for index, value in enumerate(values):
            if isinstance(value, list | tuple):
                place, values[index] = _window(value, place)
        values = question.narrowed(values)
    if not choices:
        return [_encoded(question, _one_of_each(values, place), size, draw)]
    if not question.admits(values):
        return [None] * len(choices)
    buckets: list[list[Bucket]] = []
    for part, value in zip(question.parts, values[: len(question.columns)], strict=True):
        place, found = _distinct(part, value, size, place)
        buckets.append(found)
    total = 1
    for found in buckets:
        total *= len(found)
    return [
        None if index is None else plaintext.encode_bucket(question, _combination(buckets, index), size)
        for index in chosen(total, choices)
    ]


def chosen(total: int, choices: Sequence[int]) -> list[int | None]:
    """As many of `total` things, by their numbers, as there are `choices`, in a random order; None for what is missing.

    Guarantee: all ordered selections are equally likely, but for a bias below total ÷ 2^1024 for each choice.
    Edge cases: `total` may be any number: it takes a time that grows with the number of choices alone.
    """
    # The first steps of a Fisher–Yates shuffle, of which only what has moved is kept. Where there are too few things,
    # places without one are shuffled among them, so that the order does not say how many there are.
    size = max(total, len(choices))
    moved: dict[int, int] = {}
    found: list[int | None] = []
    for step, choice in enumerate(choices):
        other = step + choice % (size - step)
        taken = moved.get(other, other)
        moved[other] = moved.get(step, step)
        found.append(taken if taken < total else None)
    return found


def _distinct(part: Part, value: Any, size: int, place: int) -> tuple[int, list[Bucket]]:
    """The distinct buckets of one column, as the aggregator will read them; and what is left of the random number."""
    place, elements = _window(value, place)
    found: dict[Bucket, None] = {}
    for element in elements:
        sent = _encoded(part, (element,), size)
        if sent is not None:
            # What the aggregator reads, and not what the app holds: two buckets are one if they are one there.
            found[plaintext.decode_payload(plaintext.payload(sent), part)] = None
    return place, list(found)


def _window(value: Any, place: int) -> tuple[int, Sequence[Any]]:
    """The elements of a value that are looked at; and what is left of the random number."""
    if not isinstance(value, list | tuple):
        return place, (value,)
    if len(value) <= MOST_ELEMENTS:
        return place, value
    place, start = divmod(place, len(value))
    return place, [value[(start + step) % len(value)] for step in range(MOST_ELEMENTS)]


def _combination(buckets: Sequence[Sequence[Bucket]], index: int) -> Bucket:
    """The combination of this number, of all that have one bucket of each column."""
    parts = []
    for found in buckets:
        index, place = divmod(index, len(found))
        parts.append(found[place])
    return tuple(parts) if len(parts) > 1 else parts[0]


def _one_of_each(values: Sequence[Any], choice: int) -> tuple[Any, ...]:
    """One value a column: of a list one element, independently in each column."""
    taken = []
    for value in values:
        if isinstance(value, list | tuple):
            choice, place = divmod(choice, len(value) or 1)
            value = value[place] if len(value) else None
        taken.append(value)
    return tuple(taken)


def _encoded(question: Question, values: tuple[Any, ...], size: int, draw: float | None = None) -> bytes | None:
    bucket = plaintext.fleet_bucket(question, values if len(values) > 1 else values[0], draw)
    return plaintext.encode_bucket(question, bucket, size)

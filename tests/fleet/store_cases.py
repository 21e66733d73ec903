"""What the tests of the stores share."""

import hashlib

NOW = 1_700_000_000.0
SIZE = 112
ONE = 1 << 32


def everybody(numerator, number):
    return [True] * number


def nobody(numerator, number):
    return [False] * number


def sealed(label="x"):
    return hashlib.sha256(label.encode()).digest() * 3 + bytes(16)


def open_round(store, round="r1", deadline=NOW + 3600, numerator=ONE, content=b"{}", target=None):
    store.open_round(
        round,
        content,
        hashlib.sha256(content).digest(),
        contact_numerator=numerator,
        sealed_size=SIZE,
        deadline=deadline,
        target=target,
        now=NOW,
    )

"""What the tests of the stores share."""

import hashlib

import msgspec
from device_cases import configuration

from thresher.protocol.sealing import OVERHEAD

NOW = 1_700_000_000.0
SIZE = 112
ONE = 1 << 32


def everybody(numerator, number):
    return [True] * number


def nobody(numerator, number):
    return [False] * number


def sealed(label="x"):
    return hashlib.sha256(label.encode()).digest() * 3 + bytes(16)


def round_configuration(round="r1", deadline=NOW + 3600, numerator=ONE, query="query-0"):
    settled = configuration(round, query=query, deadline=deadline, bucket_size=SIZE - OVERHEAD)
    return msgspec.structs.replace(settled, contact_rate=numerator)


def open_round(store, round="r1", target=None, **changes):
    store.open_round(round_configuration(round, **changes), target, NOW)

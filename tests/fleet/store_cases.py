"""What the tests of the stores share."""

import hashlib
from typing import NamedTuple

import msgspec
from device_cases import configuration

from thresher.protocol.sealing import OVERHEAD
from thresher.roles.collector.collector import Collector
from thresher.roles.collector.reports import NewVisit

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


class Handed(NamedTuple):
    """A report that a device hands in."""

    round: str
    device: str
    sealed: bytes


def visit(to, visits, now=NOW, toss=everybody):
    """Visits to a store, or to a collector, which has a clock and coins of its own."""
    return to.visit(visits) if isinstance(to, Collector) else to.visit(visits, now, toss)


def check_in(to, devices, now=NOW, toss=everybody):
    """Visits that hand in nothing; the rounds of each device, None for one that was revoked."""
    visited = visit(to, [NewVisit(device) for device in devices], now, toss)
    return [None if each is None else list(each.rounds) for each in visited]


def accept(to, reports, now=NOW, toss=nobody):
    """Visits that hand in one report each and ask for nothing; what became of each, None if the device was revoked."""
    visits = [NewVisit(report.device, [(report.round, report.sealed)], rounds=False) for report in reports]
    visited = visit(to, visits, now, toss)
    return [None if each is None else each.outcomes[0] for each in visited]

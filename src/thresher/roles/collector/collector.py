"""The collector: knows the devices, and not what they say. See docs/protocol.md.

It enrols devices, tosses the contact coin of each device and round once, takes one sealed report for each device and
round, and hands a closed round's reports to the aggregator in shuffled batches without identities.
"""

from __future__ import annotations

import functools
import json
import logging
import secrets
import threading
from collections.abc import Sequence

from thresher.clock import Clock
from thresher.errors import InvalidFormat
from thresher.mechanism.coins import coins
from thresher.mechanism.randomness import Randomness, SecureRandomness
from thresher.privacy.whole_numbers import ONE
from thresher.protocol.configurations import CONFIGURATION_VERSION, RoundConfiguration
from thresher.protocol.identity import Identity, new_secret
from thresher.protocol.messages import DEVICE_VERSION, LARGEST_ANSWER, Enrolled
from thresher.roles.collector.enrolment import EnrolledDevice, EnrolmentKey, Entry, NewDevice, Overview
from thresher.roles.collector.reports import NewVisit, Outcome, Visited
from thresher.roles.collector.store import CollectorStore, Progress
from thresher.roles.ports import BatchTaker
from thresher.roles.tokens import new_token, token_hash

_log = logging.getLogger("thresher.collector")

_DEVICE_BYTES = 8
_DEVICES = 200_000
"""Devices that are known without asking the store."""
_CONFIGURATIONS = 100
"""Configurations that are known without asking the store."""
_AROUND = 64 << 10  # more than the answer to a visit has beside its rounds

_STATUSES: dict[Outcome, bytes] = {
    Outcome.ACCEPTED: b"taken",
    Outcome.AGAIN: b"taken",
    Outcome.CONFLICT: b"conflict",
    Outcome.CLOSED: b"closed",
    Outcome.UNKNOWN_ROUND: b"closed",
    Outcome.NOT_CONTACTED: b"rejected",
    Outcome.WRONG_SIZE: b"rejected",
}
"""What a device is told of its report: a `ReportStatus`."""


class Collector:
    """The role as a plain class; every method may be called again with the same arguments, from any thread.

    Guarantee: a report that `accept` accepts is durable. A round's numbers are final once it is closed. The aggregator
    does not learn who sent a report, when, or in which order.
    """

    def __init__(
        self,
        store: CollectorStore,
        clock: Clock,
        aggregator: BatchTaker,
        randomness: Randomness | None = None,
        *,
        batch_size: int = 5000,
        hourly: int | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._aggregator = aggregator
        self._randomness = SecureRandomness() if randomness is None else randomness
        self._tossing = threading.Lock()  # a source of randomness is for one thread at a time
        self._batch_size = batch_size
        self._hourly = hourly
        self._identity = Identity(store.identity(new_secret()))
        # Neither a token's device nor a round's configuration ever changes, so what is remembered is never wrong.
        self._devices: dict[bytes, str] = {}
        self._remembering = threading.Lock()
        self._shown = functools.lru_cache(maxsize=_CONFIGURATIONS)(self._readable)

    def recover(self) -> None:
        """Finish the forgetting that a crash interrupted. Call it at every start."""
        for round in self._store.rounds_to_forget():
            self.forget(round)

    # Enrolment

    def add_enrolment_key(
        self,
        key: str,
        name: str,
        *,
        expires: float | None = None,
        devices: int | None = None,
        hourly: int | None = None,
    ) -> str:
        """Let devices enrol with a key; its id."""
        id = secrets.token_hex(_DEVICE_BYTES)
        self._store.add_enrolment_key(
            id, token_hash(key), name, self._clock.now(), expires=expires, devices=devices, hourly=hourly
        )
        return id

    def enrolment_keys(self) -> list[EnrolmentKey]:
        """All enrolment keys, oldest first."""
        return self._store.enrolment_keys()

    def revoke_enrolment_key(self, id: str) -> bool:
        """Let nobody enrol with a key any more; False if there is no such key."""
        return self._store.revoke_enrolment_key(id, self._clock.now())

    def enrol(self, enrolment_keys: Sequence[str]) -> list[Enrolled | Entry]:
        """A new device's token for each key, shown this once, in one commit; or why the key does not let it in."""
        tokens = [new_token("device") for _ in enrolment_keys]
        devices = [
            NewDevice(token_hash(key), secrets.token_hex(_DEVICE_BYTES), token_hash(token))
            for key, token in zip(enrolment_keys, tokens, strict=True)
        ]
        entries = self._store.enrol(devices, self._clock.now(), hourly=self._hourly)
        identity = self._identity.public
        return [
            Enrolled(version=DEVICE_VERSION, token=token, identity=identity) if entry is Entry.ENTERED else entry
            for token, entry in zip(tokens, entries, strict=True)
        ]

    def devices_of_key(self, id: str, most: int) -> tuple[int, list[EnrolledDevice]] | None:
        """How many devices enrolled with a key, and those that did last; None if there is no such key."""
        return self._store.devices_of_key(id, most)

    def revoke_device(self, id: str) -> bool:
        """Accept nothing more from a device; False if there is none. Its accepted reports stay."""
        return self._store.revoke_device(id, self._clock.now())

    def revoke_devices(self, id: str) -> int | None:
        """Revoke a key and all its devices; how many devices that were, or None if there is no such key."""
        return self._store.revoke_devices(id, self._clock.now())

    def proof(self, nonce: str, token: str) -> str | None:
        """The proof, for a device that sent this nonce, that this fleet's own collector does not know the token.

        A device that gets the proof enrols again. Give it for tokens that nobody has: never for a revoked device.
        """
        return self._identity.proof(nonce, token)

    def remembered(self, hashed: bytes) -> str | None:
        """The device whose token has this hash, if it was seen lately; the store is not asked."""
        return self._devices.get(hashed)

    def identify(self, tokens: Sequence[str]) -> list[str | None]:
        """The device that each token belongs to, or None; the store is asked for those not seen lately."""
        hashes = [token_hash(token) for token in tokens]
        found = {hashed: self._devices.get(hashed) for hashed in hashes}
        unknown = [hashed for hashed, device in found.items() if device is None]
        if unknown:
            looked_up = zip(unknown, self._store.devices_of(unknown), strict=True)
            new = {hashed: device for hashed, device in looked_up if device is not None}
            found |= new
            with self._remembering:
                self._devices |= new
                while len(self._devices) > _DEVICES:
                    del self._devices[next(iter(self._devices))]
        return [found[hashed] for hashed in hashes]

    # Devices

    def visit(self, visits: Sequence[NewVisit]) -> list[Visited | None]:
        """Serve devices in one commit: toss their coins, take their reports, list the rounds that they are to answer.

        None for a device that was revoked. After a round's deadline none of its reports is taken.
        """
        return self._store.visit(visits, self._clock.now(), self._toss)

    def written(self, handed_in: Sequence[str], visited: Visited, come_back: float) -> bytes:
        """The answer to a visit, as a `Visited` message; `handed_in` are the rounds of its reports.

        Configurations are the strings that are stored. Names are letters, digits and . _ : - only, and not escaped.
        Guarantee: not longer than a device reads. Rounds that do not fit are shown at later visits.
        """
        reports = [
            b'{"round":"%b","status":"%b"}' % (round.encode(), _STATUSES[outcome])
            for round, outcome in zip(handed_in, visited.outcomes, strict=True)
        ]
        listed: list[bytes] = []
        left = LARGEST_ANSWER - _AROUND
        for round in visited.rounds:
            configuration = self._shown(round)
            if configuration is None:
                continue
            left -= len(configuration) + 1
            if left < 0:
                break
            listed.append(configuration)
        return b'{"version":%d,"reports":[%b],"rounds":[%b],"come_back":%b}' % (
            DEVICE_VERSION,
            b",".join(reports),
            b",".join(listed),
            repr(float(come_back)).encode(),
        )

    def _readable(self, round: str) -> bytes | None:
        """A round's configuration as a JSON string; None if no device would answer it.

        Rounds that an earlier version of Thresher opened are of that kind. They are closed and released as they are.
        """
        content = self._store.configuration(round)
        try:
            answered = RoundConfiguration.read(content).version == CONFIGURATION_VERSION
        except InvalidFormat:
            answered = False
        if not answered:
            _log.warning("no device is shown round %s: its configuration is of another version, or unreadable", round)
            return None
        return json.dumps(content.decode(), ensure_ascii=False).encode()

    # Rounds

    def open(self, configuration: RoundConfiguration, target: int | None = None) -> None:
        """Show a round to devices until its deadline. A second time changes nothing; `Conflict` for another one."""
        self._store.open_round(configuration, target, self._clock.now())

    def open_rounds(self) -> list[str]:
        """The rounds that are open."""
        return self._store.open_rounds()

    def progress(self, round: str) -> Progress:
        """A round's numbers and state. `NotFound` for one that was never opened."""
        return self._store.progress(round)

    def waited_for(self, round: str) -> int:
        """How many active devices have not checked in while the round was open, or have yet to complete it."""
        return self._store.waited_for(round, self._clock.now())

    def close(self, round: str) -> Progress:
        """Take no more reports; the numbers are final. `NotFound` for a round that was never opened."""
        return self._store.close_round(round, self._clock.now())

    def forward(self, round: str) -> int:
        """Hand all reports of a closed round to the aggregator, then delete them; how many batches there are.

        Guarantee: after a crash or an error in the middle, calling it again sends the same batches under the same
        numbers. `Conflict` while the round is open, and once it is forgotten.
        """
        size = self._store.begin_forwarding(round, self._batch_size)
        total = self._store.sealed_pieces(round)
        for number, reports in enumerate(self._store.batches(round, size)):
            self._aggregator.add_batch(round, number, b"".join(reports))
        self._store.mark_forwarded(round)
        return -(-total // size)

    def forget(self, round: str) -> None:
        """Delete all that is left of a round but its numbers, and overwrite the pages; nothing for an unknown round."""
        self._store.forget(round, self._clock.now())

    def overview(self) -> Overview:
        """Devices enrolled and active."""
        return self._store.overview(self._clock.now())

    def _toss(self, numerator: int, number: int) -> Sequence[bool]:
        if numerator == ONE:
            return [True] * number
        with self._tossing:
            tossed: list[bool] = coins(number, numerator / ONE, self._randomness).tolist()
        return tossed

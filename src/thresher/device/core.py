"""A device without its network: the requests that it sends, and what answers mean. See docs/protocol.md, section 2.

`Device` drives it over HTTP; the simulator drives many thousands of them in one process.
"""

from __future__ import annotations

import functools
import secrets
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np

from thresher.clock import Clock, SystemClock
from thresher.device import held_values as reading
from thresher.device.effort import REPORTS, Effort
from thresher.device.held_values import Attributes, Visit
from thresher.device.policy import Policy
from thresher.device.spending import Charged, Spend, sent_until
from thresher.device.state import DeviceState, MemoryState, Record, State, Status
from thresher.device.terms import Terms, is_cheap, query_key, read_terms, verified
from thresher.errors import NotFound, ThresherError, Unauthorised
from thresher.mechanism.coins import coins
from thresher.mechanism.randomness import Randomness, SecureRandomness
from thresher.privacy.rates import ONE
from thresher.protocol import messages, plaintext, sealing
from thresher.protocol.identity import new_nonce, proves
from thresher.protocol.messages import CheckedIn, CheckIn, Enrol, Enrolled, Report, RoundConfiguration

FIRST_WAIT = 0.5
LARGEST_WAIT = 300.0
MOST_ROUNDS = 10_000
"""Rounds that a device remembers at a time: more than a period has. The limit keeps a server from filling its disk."""
_COME_BACK = (1.0, 86_400.0)
_INCONSISTENT = "its configuration does not hold together"
_DEFAULT_POLICY = Policy()
_CHECK_IN = messages.encode(CheckIn())
_ENDINGS: dict[int | None, Status] = {
    200: "taken",
    201: "taken",
    400: "rejected",
    404: "closed",
    409: "conflict",
    410: "closed",
    413: "rejected",
    422: "rejected",
}
"""What the HTTP status of a report says of its round; any other status is no final answer."""
_jitter = secrets.SystemRandom()
_of_thread = threading.local()


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the server; `token` goes into the Authorization header, `nonce` into one of its own."""

    method: str
    path: str
    token: str
    body: bytes
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where the device stands with one round, and why if it was refused."""

    round: str
    status: Status
    reason: str | None = None


class DeviceCore:
    """One device: what it holds, its policy and its state.

    Guarantee: a round's coin is tossed once, and where several values count, one coin for each. The sealed bytes, which
    hide the outcome, are saved before `report_request` returns them, and it always returns the same bytes, also after a
    crash. Whether a round is answered, and with how many bytes, never depends on what the device holds: a device
    without a value sends a decoy.
    Edge cases: if saving fails, nothing was sealed, and the round is decided anew at the next visit.
    """

    __slots__ = ("_attempts", "_clock", "_kept", "_randomness", "_reader", "_state", "come_back", "policy")

    def __init__(
        self,
        attributes: Attributes,
        policy: Policy = _DEFAULT_POLICY,
        state: State | None = None,
        randomness: Randomness | None = None,
        clock: Clock | None = None,
        reading_seconds: float = reading.SECONDS,
    ) -> None:
        self._reader = reading.Reader(attributes, reading_seconds)
        self.policy = policy
        self.come_back = _COME_BACK[0]
        """Seconds after which the server wants to see this device again."""
        self._state: State = MemoryState() if state is None else state
        self._randomness = randomness
        self._clock: Clock = SystemClock() if clock is None else clock
        self._kept: DeviceState = self._state.load()
        self._attempts: dict[str, int] | None = None

    @property
    def token(self) -> str | None:
        """The device's token, once it is enrolled."""
        return self._kept.token

    @property
    def identity(self) -> str | None:
        """The public key of the server that enrolled this device; None if it had none."""
        return self._kept.identity

    def outcomes(self) -> list[Outcome]:
        """Where the device stands with every round that it remembers."""
        return [Outcome(name, record.status, record.reason) for name, record in self._kept.rounds.items()]

    def outcome(self, round: str) -> Outcome:
        """Where the device stands with one round."""
        record = self._record(round)
        return Outcome(round, record.status, record.reason)

    # Enrolling

    def enrol_request(self, enrolment_key: str) -> Request:
        """Ask for a token.

        Guarantee: the state can be saved. If it could not, every attempt would leave one more device at the server.
        """
        self._save()
        return Request("POST", "/v1/devices", enrolment_key, messages.encode(Enrol()))

    def enrolled(self, answer: Enrolled | bytes) -> None:
        """Save the token and the public key of the server that gave it."""
        message = messages.decode(Enrolled, answer) if isinstance(answer, bytes) else answer
        self._save(token=message.token, identity=message.identity)

    # A visit

    def check_in_request(self) -> Request:
        """Ask which rounds this device was chosen for."""
        return Request("POST", "/v1/check-in", self._token(), _CHECK_IN, new_nonce())

    def is_unknown(self, request: Request, proof: str) -> bool:
        """Whether the proof shows that the server that enrolled this device does not know the token of a request.

        Guarantee: nobody else can make the proof. False for devices whose server had no identity when they enrolled.
        """
        identity = self._kept.identity
        return identity is not None and proves(identity, request.nonce, request.token, proof)

    def take(self, answer: CheckedIn | bytes) -> list[str]:
        """Decide every new round of a check-in, save what was decided, and return the rounds that wait to be sent.

        They include rounds of earlier visits that were never acknowledged: sending them again is safe.
        Edge cases: while `MOST_ROUNDS` are remembered, new rounds are skipped. Work that exceeds one visit's limits
        (`thresher.device.effort`) waits for the next visit. If more reports wait than a visit sends, they are chosen at
        random, so that none waits for ever.
        """
        effort, held = Effort(), self._reader.visit()
        message = _checked_in(answer) if isinstance(answer, bytes) else answer
        now = self._clock.now()
        self.come_back = min(max(message.come_back, _COME_BACK[0]), _COME_BACK[1])
        listed = {configuration.round for configuration in message.rounds}
        rounds = {
            name: self._aged(name, record, listed, now)
            for name, record in self._kept.rounds.items()
            if now < max(record.deadline, record.time + self.policy.period) or name in listed
        }
        waiting = {record.query for record in self._kept.rounds.values() if record.status == "sealed"}
        counting = self.policy.counting(self._kept.spends, waiting, now)
        spends = counting.copy()
        new = [configuration for configuration in message.rounds if configuration.round not in rounds]
        if new and not self._reprice(spends, effort):
            new = []  # what was charged before must be known first; the next visit goes on where this one stopped
        charged = Charged(self.policy.budget, spends)
        for configuration in new:
            if configuration.round in rounds:
                continue
            if len(rounds) >= MOST_ROUNDS or not effort.looks():
                break
            decided = self._decided(configuration, charged, now, effort)
            if isinstance(decided, Terms):
                query, sealed = query_key(configuration), self._seal(decided, held)
                rounds[configuration.round] = Record("sealed", configuration.deadline, now, sealed, query=query)
                charged.record(query, self.policy.spend(decided, charged.get(query), now))
            elif decided is not None:
                # Nothing was sealed that would have to be kept until the deadline, which may be any number.
                rounds[configuration.round] = Record("refused", now, now, None, decided)
        spends = charged.spends
        # That spends wait with their answers needs no saving: each visit sees it from the answers.
        if rounds != self._kept.rounds or spends != counting or spends.keys() != self._kept.spends.keys():
            self._save(rounds=rounds, spends=spends)
        to_send = [name for name, record in rounds.items() if record.status == "sealed"]
        return to_send if len(to_send) <= REPORTS else _jitter.sample(to_send, REPORTS)

    def report_request(self, round: str) -> Request:
        """Hand in the sealed bytes of a round; `NotFound` where nothing waits to be sent."""
        record = self._record(round)
        if record.status != "sealed" or record.sealed is None:
            raise NotFound("Nothing of this round waits to be sent.")
        body = messages.encode(Report(sealed=record.sealed))
        return Request("POST", f"/v1/rounds/{round}/report", self._token(), body)

    def report_answered(self, round: str, status: int | None, retry_after: float | None = None) -> float | None:
        """Note the HTTP status of a report, None for no answer at all.

        Returns None where the round is over for this device, or else the seconds to wait before the same bytes are sent
        again: as long as the server asks, at least, and longer each time.
        """
        record = self._record(round)
        if record.status != "sealed":
            return None
        if ended := _ENDINGS.get(status):
            self._save(
                rounds={**self._kept.rounds, round: Record(ended, record.deadline, record.time)},
                spends=sent_until(self._kept.spends, {record.query}, self._clock.now()),
            )
            (self._attempts or {}).pop(round, None)
            return None
        self._attempts = self._attempts or {}
        attempt = self._attempts[round] = self._attempts.get(round, 0) + 1
        return back_off(attempt, retry_after)

    # Answering

    def _decided(
        self, configuration: RoundConfiguration, charged: Charged, now: float, effort: Effort
    ) -> Terms | str | None:
        """The terms on which a round is answered, or why it is not; None to decide at another visit.

        Cheap checks come first: a server must not be able to make devices compute for rounds that they would not
        answer anyway.
        """
        terms = read_terms(configuration)
        if terms is None:
            return _INCONSISTENT
        if reason := self.policy.refusal(terms, charged, now):
            return reason
        if is_cheap(terms) and self.policy.is_priced(terms):
            return self._computed(terms, charged)
        return effort.recomputes(lambda: self._computed(terms, charged))

    def _computed(self, terms: Terms, charged: Charged) -> Terms | str:
        """The same, by what has to be computed: what the query costs, and then whether what it states is true."""
        try:
            overspending = self.policy.overspending(terms, charged)
        except (ThresherError, TypeError, ValueError, ArithmeticError):  # the plan has not been verified yet
            return _INCONSISTENT
        return overspending or (terms if verified(terms) else _INCONSISTENT)

    def _reprice(self, spends: dict[str, Spend], effort: Effort) -> bool:
        """Charge all spends as the policy does now; False where that is too much work for one visit."""
        for query, spend in spends.items():
            if not self.policy.is_current(spend):
                compute = partial(self.policy.repriced, spend)
                priced = compute() if self.policy.is_cheap(spend) else effort.recomputes(compute)
                if priced is None:
                    return False
                spends[query] = priced
        return True

    def _seal(self, terms: Terms, held: Visit) -> bytes:
        """Toss, answer and seal, once for each contribution. All is done whatever the coins and the values are."""
        configuration, size = terms.configuration, terms.configuration.bucket_size
        contributions = terms.plan.contributions
        randomness = self._randomness or _randomness_of_thread()
        # All random bits are drawn before any value is read, and always the same number of them.
        heads = [True] * contributions
        if configuration.device_rate != ONE:
            heads = coins(contributions, configuration.device_rate / ONE, randomness).tolist()
        numbers = _numbers(contributions, randomness)
        draw = _draw(randomness) if terms.question.randomised else None
        real = held.plaintexts(terms.question, size, contributions, numbers, draw)
        decoys = [plaintext.decoy(size) for _ in range(contributions)]
        return b"".join(
            sealing.seal(each if head and each is not None else decoy, terms.public, configuration.hash)
            for each, head, decoy in zip(real, heads, decoys, strict=True)
        )

    # Keeping

    def _aged(self, name: str, record: Record, listed: set[str], now: float) -> Record:
        """A record as of now: the sealed bytes of a round that is over are dropped.

        A round that the server lists is open, also if its deadline has passed on this device's clock. Bytes that 0.1.0
        sealed a period ago or more are dropped too: the charge that they belong to may have been forgotten.
        """
        if record.status != "sealed":
            return record
        is_open = name in listed or now < record.deadline
        is_charged = record.query is not None or now - record.time < self.policy.period
        return record if is_open and is_charged else Record("closed", record.deadline, record.time)

    def _save(self, **changes: Any) -> None:
        changed = msgspec.structs.replace(self._kept, **changes)
        self._state.save(changed)
        self._kept = changed

    def _record(self, round: str) -> Record:
        try:
            return self._kept.rounds[round]
        except KeyError:
            raise NotFound("This device has not been asked in such a round.") from None

    def _token(self) -> str:
        if self._kept.token is None:
            raise Unauthorised("This device has no token yet.", hint="Enrol it with an enrolment key.")
        return self._kept.token


def back_off(attempt: int, retry_after: float | None = None) -> float:
    """Seconds to wait after the given failed attempt.

    The wait doubles with each attempt. It is random, between half and the whole of that, so that devices that failed
    together do not come back together. What the server asks for, a day at most, is added.
    """
    longest = min(FIRST_WAIT * 2.0 ** min(attempt - 1, 30), LARGEST_WAIT)
    wait = longest * _jitter.uniform(0.5, 1.0)
    return wait if retry_after is None else min(retry_after, _COME_BACK[1]) + wait


def _numbers(contributions: int, randomness: Randomness) -> list[int]:
    """The random numbers that choose among what is held: their remainders by n choose one of n, with a tiny bias.

    For one contribution it is one number of 256 bits. For several, it is one more than there are of them, of 1,024 bits
    each: a combination of many columns is one of very many.
    """
    number, words = (1, 4) if contributions == 1 else (contributions + 1, 16)
    drawn = np.empty((number, words), dtype=np.uint64)
    randomness.fill(drawn)
    return [int.from_bytes(row.tobytes(), "little") for row in drawn]


def _draw(randomness: Randomness) -> float:
    """A uniform random number in [0, 1): one of the 2^53 multiples of 2^-53."""
    drawn = np.empty(1, dtype=np.uint64)
    randomness.fill(drawn)
    return int(drawn[0] >> np.uint64(11)) * 2.0**-53


@functools.lru_cache(maxsize=16)
def _checked_in(answer: bytes) -> CheckedIn:
    """A check-in's answer, decoded once for all devices of the process that get the same bytes."""
    return messages.decode(CheckedIn, answer)


def _randomness_of_thread() -> SecureRandomness:
    """The source of randomness that all devices of this thread share."""
    if not hasattr(_of_thread, "randomness"):
        _of_thread.randomness = SecureRandomness()
    randomness: SecureRandomness = _of_thread.randomness
    return randomness

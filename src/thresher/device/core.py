"""A device without its network: the requests that it sends, and what answers mean. See docs/protocol/rounds.md.

`Device` drives it over HTTP; the simulator drives many thousands of them in one process.
"""

from __future__ import annotations

import functools
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from thresher.clock import Clock, SystemClock
from thresher.device import held_values as reading
from thresher.device.effort import ROUNDS, Effort
from thresher.device.held_values import Attributes, Visit
from thresher.device.policy import Policy
from thresher.device.spending import Charged, sent_until
from thresher.device.state import DeviceState, MemoryState, Record, State, Status
from thresher.device.terms import Terms, query_key
from thresher.errors import InvalidFormat, NotFound, Unauthorised
from thresher.privacy.whole_numbers import ONE
from thresher.protocol import messages, plaintext, sealing
from thresher.protocol.identity import new_nonce, proves
from thresher.protocol.messages import DEVICE_VERSION, LARGEST_VISIT, MOST_REPORTS, Enrol, Enrolled
from thresher.protocol.readable import SHORT, ReadableRound, ShownRound, read_round

FIRST_WAIT = 0.5
LARGEST_WAIT = 300.0
MOST_ROUNDS = 10_000
"""Rounds that a device remembers at a time: more than a period has. The limit keeps a server from filling its disk."""
MOST_SEALED = 1 << 20
"""Bytes of reports that wait at a time: over 9,000 of the usual size, 21 of the largest.

What a server asks for and never takes must not fill the disk, and the state is written whole each time.
"""
_COME_BACK = (1.0, 86_400.0)
_LATER = "later"
_DEFAULT_POLICY = Policy()
_ENDINGS: dict[str, Status] = {status: status for status in ("taken", "closed", "conflict", "rejected")}
"""The statuses of a report after which the device is done with its round."""
_AROUND = 64
"""More than the bytes that a request has beside its reports, and a report beside its name and its sealed bytes."""
_TOKEN = re.compile(r"[!-~]{1,200}")
_jitter = secrets.SystemRandom()
RandomBytes: TypeAlias = Callable[[int], bytes]
"""Gives so many random bytes; `os.urandom` but in tests."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the server; `token` goes into the Authorization header, `nonce` into one of its own.

    `reports` are the rounds whose reports a visit hands in, and `rounds` says whether it asks for rounds.
    """

    method: str
    path: str
    token: str
    body: bytes
    nonce: str = ""
    reports: tuple[str, ...] = ()
    rounds: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where the device stands with one round, and why if it was refused."""

    round: str
    status: Status
    reason: str | None = None


class DeviceCore:
    """One device: what it holds, its policy and its state.

    Guarantee: a round's coin is tossed once, and where several values count, one coin for each. The sealed bytes, which
    hide the outcome, are saved before a request has them, and every request has the same bytes, also after a crash.
    Whether a round is answered, and with how many bytes, never depends on what the device holds: a device without a
    value sends a decoy.
    Edge cases: if saving fails, nothing was sealed, and the round is decided anew at the next visit.
    """

    __slots__ = ("_clock", "_fresh", "_kept", "_randomness", "_reader", "_state", "come_back", "policy")

    def __init__(
        self,
        attributes: Attributes,
        policy: Policy = _DEFAULT_POLICY,
        state: State | None = None,
        randomness: RandomBytes = os.urandom,
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
        self._fresh: list[str] = []

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
        return Request("POST", "/v2/devices", enrolment_key, messages.encode(Enrol(versions=[DEVICE_VERSION])))

    def enrolled(self, answer: Enrolled | bytes) -> None:
        """Save the token and the public key of the server that gave it."""
        message = messages.decode(Enrolled, answer) if isinstance(answer, bytes) else answer
        if not _TOKEN.fullmatch(message.token):
            raise InvalidFormat("The server's answer has a token that fits into no header.")
        self._save(token=message.token, identity=message.identity)

    # A visit

    def visit_request(self, rounds: bool) -> Request | None:
        """The next request of a visit.

        With `rounds` it begins a visit: it hands in what waits, and asks which rounds the device was chosen for. The
        other requests hand in what was sealed since then, and what did not fit; None where nothing is left.
        Edge cases: a request has `MOST_REPORTS` reports and `LARGEST_VISIT` bytes at most. If more wait, they are
        chosen at random, so that none waits for ever.
        """
        if rounds:
            now = self._clock.now()
            waiting = [name for name, kept in self._kept.rounds.items() if self._waits(kept, now)]
        else:
            waiting = self._fresh
            if not waiting:
                return None
        names = self._fitting(waiting)
        chosen = set(names)
        self._fresh = [name for name in waiting if name not in chosen]
        reports = [{"round": name, "sealed": self._kept.rounds[name].sealed} for name in names]
        body = msgspec.json.encode({"versions": [DEVICE_VERSION], "reports": reports, "rounds": rounds})
        return Request("POST", "/v2/visit", self._token(), body, new_nonce(), tuple(names), rounds)

    def _fitting(self, waiting: list[str]) -> list[str]:
        """Those of some rounds whose reports fit one request."""
        sizes = {
            name: _AROUND + len(name) + -(-len(self._kept.rounds[name].sealed or b"") // 3) * 4 for name in waiting
        }
        room = LARGEST_VISIT - _AROUND
        if len(waiting) <= MOST_REPORTS and sum(sizes.values()) <= room:
            return waiting
        fitting = []
        for name in _jitter.sample(waiting, min(len(waiting), MOST_REPORTS)):
            room -= sizes[name]
            if room < 0:
                break
            fitting.append(name)
        return fitting

    def is_unknown(self, request: Request, proof: str) -> bool:
        """Whether the proof shows that the server that enrolled this device does not know the token of a request.

        Guarantee: nobody else can make the proof. False for devices whose server had no identity when they enrolled.
        """
        identity = self._kept.identity
        return identity is not None and proves(identity, request.nonce, request.token, proof)

    def visited(self, request: Request, answer: bytes) -> list[Outcome]:
        """Note what became of the reports of a request. Decide every new round, if it asked for them. Save all of it.

        Returns where the device now stands with the rounds of these reports.

        Guarantee: what is noted, sealed, charged and refused is saved in one write. A report whose status is missing or
        unknown stays, and is handed in again at the next visit.
        Edge cases: `InvalidFormat` if the answer cannot be read, and nothing has changed then. While `MOST_ROUNDS` are
        remembered, or `MOST_SEALED` bytes wait, new rounds are left for later visits. So is work that exceeds one
        visit's limits (`thresher.device.effort`).
        """
        effort, held = Effort(), self._reader.visit()
        message = _answered(answer)
        now = self._clock.now()
        ended = {
            name: Record(status, record.deadline, record.time)
            for name, status in message.endings.items()
            if name in request.reports and (record := self._record(name)).status == "sealed"
        }
        if request.rounds:
            self.come_back = min(max(message.come_back, _COME_BACK[0]), _COME_BACK[1])
            self._decide(message.shown, ended, effort, held, now)
        elif ended:
            queries = {self._kept.rounds[name].query for name in ended}
            self._save(rounds=self._kept.rounds | ended, spends=sent_until(self._kept.spends, queries, now))
        return [self.outcome(name) for name in request.reports if name in self._kept.rounds]

    # Deciding

    def _decide(
        self, shown: tuple[ShownRound, ...], ended: dict[str, Record], effort: Effort, held: Visit, now: float
    ) -> None:
        """Decide the new rounds of those that the server lists, and save what was decided and what has ended."""
        listed = {each.name for each in shown}
        rounds = {
            name: self._aged(name, record, listed, now)
            for name, record in (self._kept.rounds | ended).items()
            if now < max(record.deadline, record.time + self.policy.period) or name in listed
        }
        # Answers that have ended now were waiting until now.
        waiting = {record.query for record in self._kept.rounds.values() if record.status == "sealed"}
        counting = self.policy.counting(self._kept.spends, waiting, now)
        new = [each for each in shown if each.name not in rounds]
        spends, fresh = counting, []
        # What was charged before must be known first; where it is not, the next visit goes on where this one stopped.
        if new and all(self._remembers(spend.terms, effort) for spend in counting.values()):
            charged = self.policy.charged(counting)
            fresh = self._answer(new, rounds, charged, effort, held, now)
            spends = charged.spends
        # That spends wait with their answers needs no saving: each visit sees it from the answers.
        if rounds != self._kept.rounds or spends != counting or spends.keys() != self._kept.spends.keys():
            self._save(rounds=rounds, spends=spends)
        # What did not fit into the request, unless its round has ended meanwhile, and what was sealed now.
        left = [name for name in self._fresh if name in rounds and rounds[name].status == "sealed"]
        self._fresh = [*left, *fresh]

    def _answer(
        self,
        new: list[ShownRound],
        rounds: dict[str, Record],
        charged: Charged,
        effort: Effort,
        held: Visit,
        now: float,
    ) -> list[str]:
        """Add a record to `rounds` for each new round that is decided now, and charge what is answered: the result."""
        answered = []
        room = MOST_SEALED - sum(len(record.sealed) for record in rounds.values() if record.sealed is not None)
        for each in new:
            if each.name is None or each.name in rounds:
                continue  # listed twice
            if len(rounds) >= MOST_ROUNDS or not effort.looks():
                break
            reason = self._reason(each.round, charged, now, effort)
            if reason == _LATER:
                continue
            if reason is None and each.round is not None:
                room -= each.round.report_size
                if room < 0:
                    break
                sealed, query = self._seal(each.round, held), query_key(each.round)
                rounds[each.name] = Record("sealed", each.round.deadline, now, sealed, query=query)
                self.policy.charge(each.round, charged, now)
                answered.append(each.name)
            else:
                # Nothing was sealed that would have to be kept until the deadline, which may be any number.
                rounds[each.name] = Record("refused", now, now, None, reason)
        return answered

    def _reason(self, round: ReadableRound | None, charged: Charged, now: float, effort: Effort) -> str | None:
        """Why a round is not answered; None if it is, and `_LATER` to decide it at another visit.

        What needs no table comes first: a server must not be able to make devices compute for rounds that they would
        not answer anyway.
        """
        if round is None:
            return "unreadable"
        if outright := self.policy.refusal_outright(round, now):
            return outright
        if not self._knows(Terms.of(round), effort):
            return _LATER
        return self.policy.refusal(round, charged, now)

    def _remembers(self, terms: Terms, effort: Effort) -> bool:
        """The same for a query that was charged before."""
        return self.policy.knows(terms) or effort.remembers(lambda: self.policy.compute(terms)) is not None

    def _knows(self, terms: Terms, effort: Effort) -> bool:
        """Whether limit and cost of a query are known, or can be computed in this visit."""
        return self.policy.knows(terms) or effort.recomputes(lambda: self.policy.compute(terms)) is not None

    # Answering

    def _seal(self, round: ReadableRound, held: Visit) -> bytes:
        """Toss, answer and seal, once for each contribution. All is done whatever the coins and the values are."""
        size, contributions = round.bucket_size, round.contributions
        # All random bits are drawn before any value is read, and always the same number of them.
        heads = [True] * contributions
        if round.device_rate != ONE:
            heads = [is_heads(_whole(4, self._randomness), round.device_rate) for _ in range(contributions)]
        numbers = _numbers(contributions, self._randomness)
        draw = (_whole(8, self._randomness) >> 11) * 2.0**-53 if round.question.randomised else None
        real = held.plaintexts(round.question, size, contributions, numbers, draw)
        decoys = [plaintext.decoy(size) for _ in range(contributions)]
        return b"".join(
            sealing.seal(each if head and each is not None else decoy, round.public, round.hash)
            for each, head, decoy in zip(real, heads, decoys, strict=True)
        )

    # Keeping

    def _aged(self, name: str, record: Record, listed: set[str | None], now: float) -> Record:
        """A record as of now: the sealed bytes of a round that is over are dropped.

        A round that the server lists is open, also if its deadline has passed on this device's clock.
        """
        if record.status != "sealed":
            return record
        is_open = name in listed or now < record.deadline
        return record if is_open and self._waits(record, now) else Record("closed", record.deadline, record.time)

    def _waits(self, record: Record, now: float) -> bool:
        """Whether a report waits to be sent, and its query is charged.

        0.1.0 did not record to which query sealed bytes belong, and may have forgotten its charge. They are not sent if
        they are a period old, or older than every charge: the time of a charge was that of its latest answer.
        """
        if record.status != "sealed" or record.query is not None:
            return record.status == "sealed"
        spends = self._kept.spends.values()
        return now - record.time < self.policy.period and any(spend.time >= record.time for spend in spends)

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


def is_heads(bits: int, rate: int) -> bool:
    """Whether a coin of this rate is heads: 32 random bits, read as a whole number, are below the rate."""
    return bits < rate


def _whole(size: int, randomness: RandomBytes) -> int:
    """A random whole number of so many bytes."""
    return int.from_bytes(randomness(size), "big")


def _numbers(contributions: int, randomness: RandomBytes) -> list[int]:
    """The random numbers that choose among what is held: their remainders by n choose one of n, with a tiny bias.

    For one contribution it is one number of 256 bits. For several, it is one more than there are of them, of 1,024 bits
    each: a combination of many columns is one of very many.
    """
    number, size = (1, 32) if contributions == 1 else (contributions + 1, 128)
    return [_whole(size, randomness) for _ in range(number)]


class _Answer(msgspec.Struct, frozen=True):
    """The answer to a visit, as far as a device must be able to read it. It may have further members."""

    version: Literal[2]
    come_back: float
    reports: list[Any]
    rounds: list[Any]


@dataclass(frozen=True, slots=True)
class _Answered:
    """The answer to a visit: what became of reports, which rounds are listed, and when to come back."""

    endings: dict[str, Status]
    shown: tuple[ShownRound, ...]
    come_back: float


def _answered(answer: bytes) -> _Answered:
    """The answer to a visit, read once for all devices of the process that get the same bytes."""
    return _short_answer(answer) if len(answer) <= SHORT else _long_answer(answer)


def _read_answer(answer: bytes) -> _Answered:
    try:
        message = msgspec.json.decode(answer, type=_Answer)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise InvalidFormat("The server's answer to a visit cannot be read.") from None
    endings = {
        each["round"]: status
        for each in message.reports
        if isinstance(each, dict)
        and isinstance(each.get("round"), str)
        and isinstance(each.get("status"), str)
        and (status := _ENDINGS.get(each["status"])) is not None
    }
    texts = (text for text in message.rounds[: MOST_ROUNDS + ROUNDS] if isinstance(text, str))
    shown = tuple(each for text in texts if (each := read_round(text)).name is not None)
    return _Answered(endings, shown, message.come_back)


# A server may send answers of many MiB: of the long ones, one is kept at a time.
_short_answer = functools.lru_cache(maxsize=16)(_read_answer)
_long_answer = functools.lru_cache(maxsize=1)(_read_answer)

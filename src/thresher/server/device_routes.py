"""The device's three routes. Most requests to a fleet's server are for these, so they are served in a short way.

No router is asked. The device is found by its token (remembered), the body is decoded, a group commit stores it, and
the answer is bytes that were made once. A report is answered after the commit that holds it (docs/protocol.md, section
7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
from starlette.types import Receive, Scope, Send

from thresher.errors import Conflict, InvalidFormat, NotFound, ThresherError
from thresher.protocol.identity import NONCE_HEADER, PROOF_HEADER
from thresher.protocol.messages import Accepted, CheckedIn, CheckIn, Enrol, Enrolled, Report, decode, encode
from thresher.roles.collector.enrolment import Entry
from thresher.roles.collector.reports import NewReport, Outcome
from thresher.roles.tokens import token_hash
from thresher.server.auth import bearer, check_kind, unknown
from thresher.server.group_commit import GroupCommit
from thresher.server.limits import KIB, TokenBuckets, read_body
from thresher.server.networks import Addresses
from thresher.server.problem import Headers, Refused, answer_of, http_refusal
from thresher.server.routing import Route, respond
from thresher.server.services import Services

HOUR = 3600

Item = TypeVar("Item")
Result = TypeVar("Result")

LARGEST = 64 * KIB
_NONCE, _PROOF = NONCE_HEADER.encode(), PROOF_HEADER.encode()
_DEVICE = ("device",)
_ENROLMENT = ("enrolment",)

ROUTES = (
    Route(
        "POST", "/v1/devices", "enrol", "Enrol: returns a device's token, once.", _ENROLMENT, "collector",
        body=Enrol, answer=Enrolled, largest_body=LARGEST, problems=(400,),
    ),
    Route(
        "POST", "/v1/check-in", "check_in", "The open rounds that this device was chosen for.", _DEVICE, "collector",
        body=CheckIn, answer=CheckedIn, largest_body=LARGEST, problems=(400,),
    ),
    Route(
        "POST", "/v1/rounds/{round}/report", "report", "Hand in a sealed report; again, if the answer was lost.",
        _DEVICE, "collector",
        body=Report, answer=Accepted, largest_body=LARGEST, problems=(400, 404, 409, 410),
    ),
)  # fmt: skip

_ENROL_PATH, _CHECK_IN_PATH, _REPORT_PATH = (route.path for route in ROUTES)
_BEFORE, _AFTER = _REPORT_PATH.split("{round}")


def _json_headers(body: bytes) -> Headers:
    return [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"content-length", str(len(body)).encode()),
    ]


_ACCEPTED = encode(Accepted())
_TAKEN = (200, _json_headers(_ACCEPTED), _ACCEPTED)

Answer = tuple[int, Headers, bytes]
Handler = tuple[str, Callable[[Scope, Receive], Awaitable[Answer]]]


class DeviceFront:
    """Serves the requests of devices.

    Guarantee: a report is answered with 200 only after its commit. Nothing is raised except by `send`.
    """

    def __init__(self, services: Services, buckets: Mapping[str, TokenBuckets]) -> None:
        collector = services.the_collector
        self._services = services
        self._device_bucket = buckets["device"]
        self._enrolment_bucket = buckets["enrolment"]
        self._addresses = Addresses(services.limits.enrolments_per_address)
        self._seconds = services.limits.body_seconds
        self._collector = collector
        self._report_decoder = msgspec.json.Decoder(Report)
        self._check_in_handler = (_CHECK_IN_PATH, self._check_in)
        self._enrol_handler = (_ENROL_PATH, self._enrol)
        self._report_handler = (_REPORT_PATH, self._report)
        self._enrolments: GroupCommit[str, Enrolled | Entry] = self._committing("enrolment", collector.enrol)
        self._identities: GroupCommit[str, str | None] = self._committing("identity", collector.identify)
        self._check_ins: GroupCommit[str, bytes | None] = self._committing("check-in", self._visits)
        self._reports: GroupCommit[NewReport, Outcome] = self._committing("report", self._accept)

    def handler(self, path: str) -> Handler | None:
        """The handler of a path, if it is one of the device's."""
        if path.endswith(_AFTER) and path.startswith(_BEFORE) and "/" not in path[len(_BEFORE) : -len(_AFTER)]:
            return self._report_handler
        if path == _CHECK_IN_PATH:
            return self._check_in_handler
        return self._enrol_handler if path == _ENROL_PATH else None

    def close(self) -> None:
        """Finish what is waiting and stop the commit threads."""
        for commit in (self._enrolments, self._identities, self._check_ins, self._reports):
            commit.close()

    async def serve(self, handler: Handler, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        route, answer = handler
        method = scope["method"]
        try:
            if method != "POST":
                raise http_refusal(405, "POST")
            status, headers, body = await answer(scope, receive)
        except ConnectionResetError:
            return
        except Exception as error:
            status, headers, body = answer_of(error)
        self._services.metrics.request("POST" if method == "POST" else "other", route, status)
        await respond(send, status, headers, body)

    async def _report(self, scope: Scope, receive: Receive) -> Answer:
        device = await self._device(scope["headers"])
        body = await read_body(scope["headers"], receive, LARGEST, self._seconds)
        try:
            report = self._report_decoder.decode(body)
        except msgspec.MsgspecError:
            report = decode(Report, body)  # raises, and says which field
        round = scope["path"][len(_BEFORE) : -len(_AFTER)]
        outcome = await self._reports.submit(NewReport(round, device, report.sealed))
        if outcome is Outcome.ACCEPTED or outcome is Outcome.AGAIN:
            return _TAKEN
        raise _refusal(outcome)

    async def _check_in(self, scope: Scope, receive: Receive) -> Answer:
        device = await self._device(scope["headers"])
        decode(CheckIn, await read_body(scope["headers"], receive, LARGEST, self._seconds))
        body = await self._check_ins.submit(device)
        if body is None:
            raise unknown()  # it was revoked; it gets no proof, so that it does not enrol again
        return 200, _json_headers(body), body

    async def _enrol(self, scope: Scope, receive: Receive) -> Answer:
        token = bearer(scope["headers"])
        check_kind(token, _ENROLMENT)
        self._enrolment_bucket.take(token_hash(token))
        decode(Enrol, await read_body(scope["headers"], receive, LARGEST, self._seconds))
        try:
            self._addresses.take(scope.get("client"))
        except Refused as refused:
            raise self._too_many("address", refused.retry_after) from None
        enrolled = await self._enrolments.submit(token)
        if enrolled is Entry.LATER:
            raise self._too_many("key", HOUR - self._services.clock.now() % HOUR)
        if not isinstance(enrolled, Enrolled):
            raise unknown()
        self._services.metrics.count("thresher_enrolled_total")
        body = encode(enrolled)
        return 200, _json_headers(body), body

    def _too_many(self, reason: str, seconds: float | None) -> Refused:
        self._services.metrics.count("thresher_enrolments_refused_total", reason=reason)
        return Refused(
            429,
            "too-many-enrolments",
            f"As many devices have enrolled with this {reason} in the last hour as may.",
            hint="Wait as long as Retry-After says.",
            retry_after=seconds,
        )

    async def _device(self, headers: list[tuple[bytes, bytes]]) -> str:
        """The device that a token belongs to, after its rate limit was checked."""
        token = bearer(headers)
        hashed = token_hash(token)
        device = self._collector.remembered(hashed)
        if device is None:
            check_kind(token, _DEVICE)
        self._device_bucket.take(hashed)
        if device is None:
            device = await self._identities.submit(token)
        if device is None:
            # No device has this token: it enrolled after the backup was made that this server was restored from.
            # With the proof, the device enrols again by itself. So a device that was revoked must not get one.
            nonce = dict(headers).get(_NONCE, b"").decode("latin-1")
            proof, error = self._collector.proof(nonce, token), unknown()
            raise Refused(
                401, error.code, error.message, hint=error.hint, headers=[(_PROOF, proof.encode())] if proof else None
            )
        return device

    def _visits(self, devices: list[str]) -> list[bytes | None]:
        """Check devices in; the answer for each, None for one that was revoked. Most answers are the same bytes."""
        written: dict[tuple[str, ...], bytes] = {}
        bodies: list[bytes | None] = []
        for rounds in self._collector.check_in(devices):
            if rounds is None:
                bodies.append(None)
                continue
            key = tuple(rounds)
            if key not in written:
                written[key] = self._collector.checked_in(rounds, self._services.come_back)
            bodies.append(written[key])
        return bodies

    def _accept(self, reports: list[NewReport]) -> list[Outcome]:
        outcomes = self._collector.accept(reports)
        for outcome, number in Counter(outcomes).items():
            self._services.metrics.count("thresher_reports_total", number, outcome=outcome.value)
            if outcome is Outcome.ACCEPTED:
                self._services.wake.set()  # a round may have reached its number of completions
        return outcomes

    def _committing(self, kind: str, function: Callable[[list[Item]], Sequence[Result]]) -> GroupCommit[Item, Result]:
        """A group commit whose sizes are in the metrics."""

        def measured(items: list[Item]) -> Sequence[Result]:
            self._services.metrics.size(kind, len(items))
            return function(items)

        return GroupCommit(measured)


def _refusal(outcome: Outcome) -> ThresherError:
    """A new error each time, because an error that is raised again and again keeps all its tracebacks."""
    match outcome:
        case Outcome.REVOKED:
            return unknown()
        case Outcome.CLOSED:
            return Refused(410, "closed", "This round has closed.", hint="Nothing more to do for it.")
        case Outcome.CONFLICT:
            return Conflict(
                "This device has handed in another report for this round.", hint="Send the first bytes again."
            )
        case Outcome.NOT_CONTACTED:
            return Refused(403, "not-chosen", "This device was not chosen for this round.")
        case Outcome.WRONG_SIZE:
            return InvalidFormat("Every report of this round has the same length; this one has another.")
        case _:
            return NotFound("There is no such round.")

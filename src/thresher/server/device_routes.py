"""The device's two routes. Most requests to a fleet's server are for these, so they are served in a short way.

No router is asked. The device is found by its token (remembered), the body is decoded, a group commit stores it, and
the answer is bytes that were made once for all devices of the commit that get the same. A report is answered after the
commit that holds it (docs/protocol/rounds.md, section 1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
from starlette.types import Receive, Scope, Send

from thresher.errors import InvalidFormat
from thresher.protocol.identity import NONCE_HEADER, PROOF_HEADER
from thresher.protocol.messages import (
    DEVICE_VERSION,
    LARGEST_VISIT,
    Enrol,
    Enrolled,
    Versions,
    Visit,
    Visited,
    decode,
    encode,
)
from thresher.roles.collector.enrolment import Entry
from thresher.roles.collector.reports import NewVisit, Outcome
from thresher.roles.collector.reports import Visited as Served
from thresher.roles.tokens import token_hash
from thresher.server.auth import bearer, check_kind, unknown
from thresher.server.cross_origin import origin_of
from thresher.server.group_commit import GroupCommit
from thresher.server.limits import KIB, TokenBuckets, read_body
from thresher.server.networks import Addresses
from thresher.server.problem import Headers, Refused, answer_of, http_refusal
from thresher.server.routing import Route, respond
from thresher.server.services import Services

HOUR = 3600

Item = TypeVar("Item")
Result = TypeVar("Result")
M = TypeVar("M", Enrol, Visit)

_NONCE, _PROOF = NONCE_HEADER.encode(), PROOF_HEADER.encode()
_DEVICE = ("device",)
_ENROLMENT = ("enrolment",)
_LARGEST_ENROLMENT = 64 * KIB

ROUTES = (
    Route(
        "POST", "/v2/devices", "enrol", "Enrol: returns a device's token, once.", _ENROLMENT, "collector",
        body=Enrol, answer=Enrolled, largest_body=_LARGEST_ENROLMENT, problems=(400,),
    ),
    Route(
        "POST", "/v2/visit", "visit", "Hand in sealed reports; the open rounds that this device was chosen for.",
        _DEVICE, "collector",
        body=Visit, answer=Visited, largest_body=LARGEST_VISIT, problems=(400,),
    ),
)  # fmt: skip

_ENROL_PATH, _VISIT_PATH = (route.path for route in ROUTES)


def _json_headers(body: bytes) -> Headers:
    return [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"content-length", str(len(body)).encode()),
    ]


Answer = tuple[int, Headers, bytes]
Handler = tuple[str, Callable[[Scope, Receive], Awaitable[Answer]]]


class DeviceFront:
    """Serves the requests of devices.

    Guarantee: a visit is answered with 200 only after the commit that holds its reports. Nothing is raised except by
    `send`.
    """

    def __init__(self, services: Services, buckets: Mapping[str, TokenBuckets]) -> None:
        collector = services.the_collector
        self._services = services
        self._device_bucket = buckets["device"]
        self._enrolment_bucket = buckets["enrolment"]
        self._addresses = Addresses(services.limits.enrolments_per_address)
        self._seconds = services.limits.body_seconds
        self._collector = collector
        self._handlers: dict[str, Handler] = {
            _VISIT_PATH: (_VISIT_PATH, self._visit),
            _ENROL_PATH: (_ENROL_PATH, self._enrol),
        }
        self._enrolments: GroupCommit[str, Enrolled | Entry] = self._committing("enrolment", collector.enrol)
        self._identities: GroupCommit[str, str | None] = self._committing("identity", collector.identify)
        self._visits: GroupCommit[NewVisit, Answer | None] = self._committing(
            "visit", self._serve_visits, size=lambda visit: 1 + len(visit.reports)
        )

    def handler(self, path: str) -> Handler | None:
        """The handler of a path, if it is one of the device's."""
        return self._handlers.get(path)

    def close(self) -> None:
        """Finish what is waiting and stop the commit threads."""
        for commit in (self._enrolments, self._identities, self._visits):
            commit.close()

    async def serve(self, handler: Handler, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        route, answer = handler
        method = scope["method"]
        origins = self._services.origins
        try:
            if method == "POST":
                status, headers, body = await answer(scope, receive)
            else:
                status, headers, body = self._preflight(scope)
        except ConnectionResetError:
            return
        except Exception as error:
            status, headers, body = answer_of(error)
        self._services.metrics.request("POST" if method == "POST" else "other", route, status)
        if origins:
            headers = [*headers, *origins.answer(scope["headers"])]
        await respond(send, status, headers, body)

    def _preflight(self, scope: Scope) -> Answer:
        """The answer to a browser that asks whether a page may send a request; any other method is refused."""
        origins, headers = self._services.origins, scope["headers"]
        if scope["method"] == "OPTIONS" and origins and origin_of(headers) is not None:
            allowed = origins.preflight(headers)
            if allowed is None:
                raise Refused(403, "origin-not-allowed", "Pages of this origin may not use this server.")
            return 204, allowed, b""
        raise http_refusal(405, "POST")

    async def _visit(self, scope: Scope, receive: Receive) -> Answer:
        device = await self._device(scope["headers"])
        visit = _read(Visit, await read_body(scope, receive, LARGEST_VISIT, self._seconds))
        reports = [(report.round, report.sealed) for report in visit.reports]
        answer = await self._visits.submit(NewVisit(device, reports, visit.rounds))
        if answer is None:
            raise unknown()  # it was revoked; it gets no proof, so that it does not enrol again
        return answer

    async def _enrol(self, scope: Scope, receive: Receive) -> Answer:
        token = bearer(scope["headers"])
        check_kind(token, _ENROLMENT)
        self._enrolment_bucket.take(token_hash(token))
        _read(Enrol, await read_body(scope, receive, _LARGEST_ENROLMENT, self._seconds))
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

    def _serve_visits(self, visits: list[NewVisit]) -> list[Answer | None]:
        """Serve visits in one commit; the answer to each, None for a device that was revoked.

        Most answers are the same bytes: those of devices with the same rounds that hand in nothing, or the same.
        """
        written: dict[tuple[tuple[str, ...], Served], Answer] = {}
        answers: list[Answer | None] = []
        counted: Counter[Outcome] = Counter()
        for visit, served in zip(visits, self._collector.visit(visits), strict=True):
            if served is None:
                answers.append(None)
                continue
            counted.update(served.outcomes)
            key = tuple(round for round, _ in visit.reports), served
            if key not in written:
                body = self._collector.written(*key, self._services.come_back)
                written[key] = 200, _json_headers(body), body
            answers.append(written[key])
        for outcome, number in counted.items():
            self._services.metrics.count("thresher_reports_total", number, outcome=outcome.value)
        if counted[Outcome.ACCEPTED]:
            self._services.wake.set()  # a round may have reached its number of completions
        return answers

    def _committing(
        self,
        kind: str,
        function: Callable[[list[Item]], Sequence[Result]],
        size: Callable[[Item], int] = lambda item: 1,
    ) -> GroupCommit[Item, Result]:
        """A group commit whose sizes are in the metrics."""

        def measured(items: list[Item]) -> Sequence[Result]:
            self._services.metrics.size(kind, len(items))
            return function(items)

        return GroupCommit(measured, size=size)


class _Spoken(msgspec.Struct):
    """What every version of a request has."""

    versions: Versions


def _read(kind: type[M], body: bytes) -> M:
    """A request of a device. One that speaks other versions only may have other members, too."""
    try:
        message = decode(kind, body)
        versions = message.versions
    except InvalidFormat:
        try:
            versions = msgspec.json.decode(body, type=_Spoken).versions
        except (msgspec.MsgspecError, ValueError, RecursionError):
            versions = [DEVICE_VERSION]
        if DEVICE_VERSION in versions:
            raise
    if DEVICE_VERSION not in versions:
        raise Refused(
            400,
            "unsupported-version",
            f"This server speaks version {DEVICE_VERSION} of the protocol between devices and server.",
            hint="Update the client, or the server.",
            versions=[DEVICE_VERSION],
        )
    return message

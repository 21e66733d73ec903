"""The ports of `thresher.roles.ports` over HTTP, for roles that run on other machines.

Guarantee: whatever goes wrong on the way, a refused key included, is `ServerUnavailable`: the caller keeps its state
and tries again. Only the peer's own verdicts on the request (`NotFound`, `Conflict`, `InvalidFormat`) come through;
the same status from a proxy in between, which is no problem document of ours, is not a verdict.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections.abc import Collection
from typing import TypeVar
from urllib.parse import quote

import httpx

from thresher.addresses import checked_address
from thresher.errors import Conflict, InvalidFormat, NotFound, ServerUnavailable, ThresherError
from thresher.mechanism.response import Response, RoundNumbers
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.messages import Message, Problem, decode, encode
from thresher.protocol.sealing import PublicKey
from thresher.roles.collector.enrolment import Overview
from thresher.server import peer_messages as messages
from thresher.server.peer_routes import ROUTES
from thresher.server.routing import JSON
from thresher.unreachable import Failure, failure_of

log = logging.getLogger("thresher.server")

M = TypeVar("M", bound=Message)

_VERDICTS: dict[int, type[ThresherError]] = {400: InvalidFormat, 404: NotFound, 409: Conflict, 422: InvalidFormat}
_TIMEOUT = httpx.Timeout(30.0, connect=5.0, read=30.0)
_LONG = httpx.Timeout(30.0, connect=5.0, read=3600.0)
# Opening millions of reports takes minutes, and asking again meanwhile would only open them twice.
_LONG_ROUTES = ("forward_round", "release_round")
_ROUTES = {route.name: route for route in ROUTES}


class _Peer:
    """One role elsewhere."""

    def __init__(self, url: str, key: str, *, verify: ssl.SSLContext | bool = True) -> None:
        self.url = checked_address("peer", url)
        self._said: Failure | None = None
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=_TIMEOUT,
            verify=verify,
            follow_redirects=False,
            trust_env=False,
        )

    def disconnect(self) -> None:
        """Close the connections."""
        self._client.close()

    def ping(self) -> None:
        """Nothing if the peer is ready, `ServerUnavailable` otherwise."""
        self._send("GET", "/readyz", b"", JSON)

    def _send(self, method: str, path: str, body: bytes, media: str, *, long: bool = False) -> bytes:
        try:
            answer = self._client.request(
                method,
                path,
                content=body,
                headers={"Content-Type": media} if body else {},
                timeout=_LONG if long else _TIMEOUT,
            )
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise self._unreachable(failure_of(self.url, error)) from None
        self._said = None
        if answer.is_success:
            return answer.content
        kind, problem = _VERDICTS.get(answer.status_code), None
        with contextlib.suppress(InvalidFormat):
            problem = decode(Problem, answer.content)
        if kind is None or problem is None:
            after = answer.headers.get("Retry-After", "")
            raise ServerUnavailable(
                f"Another role of this fleet answers {answer.status_code}.",
                retry_after=float(after) if after.isdigit() else None,
            )
        raise kind(problem.detail, hint=problem.hint)

    def _unreachable(self, failure: Failure) -> ServerUnavailable:
        """The error; a reason that differs from the last one is also logged, because callers only try again."""
        if failure != self._said:
            self._said = failure
            log.warning("another role cannot be reached: %s %s", failure.words, failure.hint)
        return failure.error()

    def _tell(self, name: str, body: Message | bytes = b"", **path: object) -> bytes:
        """Send the request of a route of the table; the body of the answer."""
        route = _ROUTES[name]
        filled = route.path.format(**{key: quote(str(value), safe="") for key, value in path.items()})
        content = body if isinstance(body, bytes) else encode(body)
        return self._send(route.method, filled, content, route.takes, long=name in _LONG_ROUTES)

    def _ask(self, kind: type[M], name: str, body: Message | bytes = b"", **path: object) -> M:
        """Send the request of a route of the table; the message in the answer."""
        content = self._tell(name, body, **path)
        try:
            return decode(kind, content)
        except InvalidFormat:
            raise ServerUnavailable("Another role of this fleet speaks another version.") from None


class HttpCollector(_Peer):
    """A collector on another machine, for the coordinator: see `CollectorPort`."""

    def open(self, configuration: RoundConfiguration, target: int | None = None) -> None:
        """See `CollectorPort`."""
        self._tell("open_round", messages.OpenRound(configuration=configuration.text, target=target))

    def progress(self, round: str) -> RoundNumbers:
        """See `CollectorPort`."""
        return self._ask(messages.NumbersStated, "round_progress", round=round).stated

    def waited_for(self, round: str) -> int:
        """See `CollectorPort`."""
        return self._ask(messages.WaitedFor, "round_waits", round=round).devices

    def close(self, round: str) -> RoundNumbers:
        """See `CollectorPort`."""
        return self._ask(messages.NumbersStated, "close_round", round=round).stated

    def forward(self, round: str) -> int:
        """See `CollectorPort`."""
        return self._ask(messages.Forwarded, "forward_round", round=round).batches

    def forget(self, round: str) -> None:
        """See `CollectorPort`."""
        self._tell("forget_collected", round=round)

    def overview(self) -> Overview:
        """See `CollectorPort`."""
        stated = self._ask(messages.Overview, "collector_overview")
        return Overview(stated.enrolled, stated.active, stated.check_ins)


class HttpAggregator(_Peer):
    """An aggregator on another machine, for coordinator and collector: see `AggregatorPort`."""

    def public_key(self) -> PublicKey:
        """See `AggregatorPort`."""
        return self._ask(messages.AggregatorKey, "aggregator_key").stated

    def retire_keys(self, in_use: Collection[str]) -> list[str]:
        """Delete the private halves of old keys that no round needs; returns their ids."""
        return self._ask(messages.KeysRetired, "retire_keys", messages.RetireKeys(in_use=sorted(in_use))).retired

    def add_batch(self, round: str, number: int, blob: bytes) -> None:
        """See `AggregatorPort`."""
        self._tell("add_batch", blob, round=round, number=number)

    def release(self, configuration: RoundConfiguration, batches: int, response: Response) -> str:
        """See `AggregatorPort`."""
        numbers = messages.NumbersStated.of(response)
        message = messages.ReleaseRound(configuration=configuration.text, batches=batches, response=numbers)
        return self._ask(messages.Released, "release_round", message, round=configuration.round).release

    def forget(self, round: str) -> None:
        """See `AggregatorPort`."""
        self._tell("forget_aggregated", round=round)

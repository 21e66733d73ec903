"""The other roles, when they run elsewhere: the ports of `thresher.roles.ports` over HTTP.

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
from thresher.protocol.messages import Message, Problem, RoundConfiguration, decode, encode
from thresher.protocol.sealing import PublicKey
from thresher.roles.collector.enrolment import Overview
from thresher.server import peer_messages as messages
from thresher.unreachable import Failure, failure_of

log = logging.getLogger("thresher.server")

M = TypeVar("M", bound=Message)

_VERDICTS: dict[int, type[ThresherError]] = {400: InvalidFormat, 404: NotFound, 409: Conflict, 422: InvalidFormat}
# Opening millions of reports takes minutes, and asking again meanwhile would only open them twice.
_TIMEOUT = httpx.Timeout(30.0, connect=5.0, read=30.0)
_LONG = httpx.Timeout(30.0, connect=5.0, read=3600.0)


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
        self._send("GET", "/readyz")

    def _send(
        self, method: str, path: str, body: bytes = b"", media: str = "application/json", *, long: bool = False
    ) -> bytes:
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
        """The error, and a line in the log when the reason is a new one: whoever calls does not hear of it."""
        if failure != self._said:
            self._said = failure
            log.warning("another role cannot be reached: %s %s", failure.words, failure.hint)
        return failure.error()

    def _ask(self, kind: type[M], method: str, path: str, body: Message | None = None, *, long: bool = False) -> M:
        content = self._send(method, path, b"" if body is None else encode(body), long=long)
        try:
            return decode(kind, content)
        except InvalidFormat:
            raise ServerUnavailable("Another role of this fleet speaks another version.") from None


class HttpCollector(_Peer):
    """A collector elsewhere, as the coordinator sees it."""

    def open(self, configuration: RoundConfiguration, target: int | None = None) -> None:
        """Show a round to devices from now until its deadline."""
        message = messages.OpenRound(configuration=configuration, target=target)
        self._send("POST", "/v1/peer/collector/rounds", encode(message))

    def progress(self, round: str) -> RoundNumbers:
        """A round's numbers so far."""
        return self._ask(messages.NumbersStated, "GET", self._path(round)).stated

    def close(self, round: str) -> RoundNumbers:
        """Take no more reports."""
        return self._ask(messages.NumbersStated, "POST", f"{self._path(round)}/close").stated

    def forward(self, round: str) -> int:
        """Hand all reports of a closed round to the aggregator; how many batches there are."""
        return self._ask(messages.Forwarded, "POST", f"{self._path(round)}/forward", long=True).batches

    def forget(self, round: str) -> None:
        """Delete all that is left of a round's reports."""
        self._send("POST", f"{self._path(round)}/forget")

    def overview(self) -> Overview:
        """Devices enrolled and active."""
        stated = self._ask(messages.Overview, "GET", "/v1/peer/collector/overview")
        return Overview(stated.enrolled, stated.active, stated.check_ins)

    @staticmethod
    def _path(round: str) -> str:
        return f"/v1/peer/collector/rounds/{quote(round, safe='')}"


class HttpAggregator(_Peer):
    """An aggregator elsewhere, as coordinator and collector see it."""

    def public_key(self) -> PublicKey:
        """The key that new rounds are sealed to."""
        stated = self._ask(messages.AggregatorKey, "GET", "/v1/peer/aggregator/key")
        return PublicKey(stated.key_id, bytes.fromhex(stated.public_key))

    def retire_keys(self, in_use: Collection[str]) -> list[str]:
        """Delete the private halves of old keys that no round needs; returns their ids."""
        message = messages.RetireKeys(in_use=sorted(in_use))
        return self._ask(messages.KeysRetired, "POST", "/v1/peer/aggregator/keys/retire", message).retired

    def add_batch(self, round: str, number: int, blob: bytes) -> None:
        """Store one batch durably."""
        self._send("PUT", f"{self._path(round)}/batches/{number}", blob, "application/octet-stream")

    def release(self, configuration: RoundConfiguration, batches: int, response: Response) -> str:
        """Open, count, thin, threshold; the release as `Release.to_json` writes it."""
        numbers = messages.NumbersStated.of(response)
        message = messages.ReleaseRound(configuration=configuration, batches=batches, response=numbers)
        path = f"{self._path(configuration.round)}/release"
        return self._ask(messages.Released, "POST", path, message, long=True).release

    def forget(self, round: str) -> None:
        """Delete all that is left of a round's reports."""
        self._send("POST", f"{self._path(round)}/forget")

    @staticmethod
    def _path(round: str) -> str:
        return f"/v1/peer/aggregator/rounds/{quote(round, safe='')}"

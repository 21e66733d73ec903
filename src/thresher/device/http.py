"""A device's HTTP requests. The result is the server's own answer, or the reason why there is none.

A proxy, or a network that wants a login, may answer in the server's place with any status. An answer counts as the
server's own if it is JSON for success, and a problem document of ours for everything else.
"""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thresher.addresses import checked_address
from thresher.clock import Clock
from thresher.device.core import LARGEST_WAIT, Request
from thresher.errors import InvalidFormat, ServerUnavailable
from thresher.protocol.identity import NONCE_HEADER, PROOF_HEADER
from thresher.protocol.messages import LARGEST_ANSWER, Problem, decode
from thresher.unreachable import Failure, failure_of, stranger, trusted

if TYPE_CHECKING:
    import httpx

_DATE = r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
TIMEOUT = 30.0
"""Seconds for a connection, and for each piece of an answer."""
SLOWEST = 120.0
"""Seconds within which the whole answer must arrive, however small its pieces are."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a request. A status of None means that the server itself gave none, and `failure` says why."""

    status: int | None
    body: bytes = b""
    retry_after: float | None = None
    proof: str = ""
    failure: Failure | None = None


class Channel:
    """One device's connection to its server."""

    def __init__(self, url: str, clock: Clock, transport: Any = None, ca_file: str | Path | None = None) -> None:
        self.url = checked_address("server_url", url)
        self.read = 0
        """Bytes of all answers so far."""
        self._clock = clock
        self._transport = transport
        self._ca_file = ca_file
        if ca_file is not None:
            trusted(ca_file)  # a wrong file is an error now, not at the first visit
        self._client: httpx.Client | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def ask(self, request: Request) -> Answer:
        """Send a request once."""
        import httpx

        if self._client is None:
            self._client = httpx.Client(**self._settings())
        try:
            with self._client.stream(**self._arguments(request)) as response:
                _check_plain(response)
                return self._answer(response, self._gathered(response.iter_bytes()))
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
            return Answer(None, failure=failure_of(self.url, error))

    def asynchronous(self) -> httpx.AsyncClient:
        """A client for `ask_async`."""
        import httpx

        return httpx.AsyncClient(**self._settings())

    async def ask_async(self, client: httpx.AsyncClient, request: Request) -> Answer:
        """The same without blocking."""
        import httpx

        try:
            async with client.stream(**self._arguments(request)) as response:
                _check_plain(response)
                return self._answer(response, await self._gathered_async(response.aiter_bytes()))
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
            return Answer(None, failure=failure_of(self.url, error))

    def _settings(self) -> dict[str, Any]:
        """Client settings. Redirects are not followed, since the token would be sent along; no cookie is kept."""
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        return {
            "transport": self._transport,
            "timeout": TIMEOUT,
            "verify": trusted(self._ca_file),
            "cookies": CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        }

    def _arguments(self, request: Request) -> dict[str, Any]:
        headers = {
            "authorization": f"Bearer {request.token}",
            "content-type": "application/json",
            "accept-encoding": "identity",
        }
        if request.nonce:
            headers[NONCE_HEADER] = request.nonce
        return {"method": request.method, "url": self.url + request.path, "content": request.body, "headers": headers}

    def _answer(self, response: httpx.Response, body: bytes) -> Answer:
        status, headers = response.status_code, response.headers
        later = self._retry_after(headers.get("retry-after")) if status >= 400 else None
        if is_own(status, headers.get("content-type", ""), body):
            return Answer(status, body, later, headers.get(PROOF_HEADER, ""))
        # A stranger cannot keep the device away for long.
        later = None if later is None else min(later, LARGEST_WAIT)
        return Answer(None, retry_after=later, failure=stranger(self.url, status))

    def _gathered(self, chunks: Iterator[bytes]) -> bytes:
        body, end = bytearray(), time.monotonic() + SLOWEST
        for chunk in chunks:
            self._add(body, chunk, end)
        return bytes(body)

    async def _gathered_async(self, chunks: AsyncIterator[bytes]) -> bytes:
        body, end = bytearray(), time.monotonic() + SLOWEST
        async for chunk in chunks:
            self._add(body, chunk, end)
        return bytes(body)

    def _add(self, body: bytearray, chunk: bytes, end: float) -> None:
        """Add a piece of an answer; raises if the answer is too long or too slow by now."""
        body += chunk
        self.read += len(chunk)
        if len(body) > LARGEST_ANSWER:
            raise InvalidFormat("The server's answer is longer than any that the protocol has.")
        if not time.monotonic() < end:
            raise ServerUnavailable("The server's answer takes too long to arrive.", hint="Try again later.")

    def _retry_after(self, header: str | None) -> float | None:
        """Seconds, from a number or a date; None for anything else."""
        if header is None:
            return None
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", header.strip()):
            return float(header)
        if not re.fullmatch(_DATE, header.strip()):
            return None
        try:
            return max(email.utils.parsedate_to_datetime(header).timestamp() - self._clock.now(), 0.0)
        except (ValueError, TypeError, OverflowError, OSError):
            return None


def is_own(status: int, content_type: str, body: bytes) -> bool:
    """Whether an answer has the form that the server's own answers have."""
    media = content_type.partition(";")[0].strip().lower()
    if 200 <= status < 300:
        return media == "application/json"
    if media != "application/problem+json":
        return False
    try:
        problem = decode(Problem, body)
    except InvalidFormat:
        return False
    return problem.status == status and problem.type == f"urn:thresher:problem:{problem.code}"


def _check_plain(response: httpx.Response) -> None:
    """Refuse compressed answers, which the device did not ask for: few bytes could expand to very many."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise InvalidFormat("The server's answer is compressed, which this device does not read.")

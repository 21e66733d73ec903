"""The analyst's connection to a server: a token, retries that do nothing twice, errors of the class raised there.

The HTTP library is imported with the first connection, so that importing Thresher stays light.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from thresher import errors
from thresher.addresses import checked_address, checked_token
from thresher.errors import InvalidSetting, ServerUnavailable, ThresherError, Unauthorised
from thresher.unreachable import failure_of, stranger, trusted

_TIMEOUT = 60.0
_CONNECT_TIMEOUT = 10.0
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 10.0
_PASSING = (408, 429, 502, 503, 504)
_log = logging.getLogger("thresher.fleet")


class Connection:
    """Requests to one server.

    Every request of an analyst may be sent again: reading changes nothing, and a query is known by its name. Failures
    that may pass are therefore retried for up to `patience` seconds, after the pause that the server asks for. The
    first failure of a request is logged, so that people know what they wait for. Failures that do not pass, such as a
    certificate that is not trusted or another machine that answers in the server's place, are raised at once.

    Guarantee: the token is in no repr and no error. Redirects are not followed, since the token would be sent along.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca_file: str | Path | None = None,
        patience: float = 60.0,
        transport: Any = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = checked_address("server", url)
        self._patience = patience
        self._sleep = sleep
        import httpx

        try:
            self._client = httpx.Client(
                base_url=self.url,
                headers={"authorization": f"Bearer {checked_token('key', token)}"},
                timeout=httpx.Timeout(_TIMEOUT, connect=_CONNECT_TIMEOUT),
                transport=transport,
                verify=trusted(ca_file),
            )
        except httpx.InvalidURL:
            raise InvalidSetting("server", "is not an address that can be used") from None

    def get(self, path: str) -> bytes:
        """The answer to a GET."""
        return self._send("GET", path, None)

    def post(self, path: str, body: bytes = b"") -> bytes:
        """The answer to a POST, which must be safe to repeat."""
        return self._send("POST", path, body)

    def delete(self, path: str) -> bytes:
        """The answer to a DELETE, which must be safe to repeat."""
        return self._send("DELETE", path, None)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _send(self, method: str, path: str, body: bytes | None) -> bytes:
        import httpx

        headers = {"content-type": "application/json"} if body else {}
        waited, pause = 0.0, _FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                answer = self._client.request(method, path, content=body, headers=headers)
            except httpx.HTTPError as broken:
                waited += time.monotonic() - began
                why = failure_of(self.url, broken)
                error = why.error()
                if why.lasting:
                    raise error from None
            else:
                own = is_own(answer.status_code, answer.headers.get("content-type", ""))
                if own and 200 <= answer.status_code < 300:
                    content: bytes = answer.content
                    return content
                if not own and answer.status_code not in _PASSING:
                    raise stranger(self.url, answer.status_code).error()
                failure = error_of(answer.status_code, answer.content, answer.headers.get("retry-after"))
                if not isinstance(failure, ServerUnavailable):
                    raise failure
                error = failure
            wait = max(pause, error.retry_after or 0.0)
            if waited + wait > self._patience:
                raise error
            if pause == _FIRST_PAUSE:
                _log.warning("%s Trying again for up to %.0f s.", error.message, self._patience)
            self._sleep(wait)
            waited, pause = waited + wait, min(2 * pause, _LONGEST_PAUSE)


def is_own(status: int, content_type: str) -> bool:
    """Whether an answer has a media type of the server's own; a network or a proxy answers with a page instead."""
    media = content_type.partition(";")[0].strip().lower()
    if status == 204:
        return media == ""
    return media == ("application/json" if 200 <= status < 300 else "application/problem+json")


def error_of(status: int, body: bytes, retry_after: str | None = None) -> ThresherError:
    """The error of a server's problem document: its code tells the class that was raised at the server."""
    code, detail, hint = _problem(body)
    if status in _PASSING:
        message = detail or "The server cannot do this now."
        return ServerUnavailable(message, hint=hint, retry_after=_seconds(retry_after))
    kind = _KINDS.get(code) or (Unauthorised if status in (401, 403) else ThresherError)
    error = kind.__new__(kind)
    if isinstance(error, InvalidSetting):
        setting, _, problem = detail.partition(" ")
        InvalidSetting.__init__(error, setting, problem.removesuffix("."), hint=hint)
    else:
        ThresherError.__init__(error, detail or f"The server answered with status {status}.", hint=hint)
    if kind is ThresherError and code:
        error.code = code
    return error


def _problem(body: bytes) -> tuple[str, str, str]:
    try:
        content = json.loads(body)
        code, detail, hint = (content.get(name, "") for name in ("code", "detail", "hint"))
    except (ValueError, AttributeError, RecursionError):
        return "", "", ""
    return str(code), str(detail), str(hint)


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < 86_400 else None


_KINDS: dict[str, type[ThresherError]] = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ThresherError)
}
"""The classes of the public error tree by their codes."""

"""Errors on the wire: one shape, application/problem+json, made from the `code` of what was raised.

Statuses stand in the table of `thresher.errors`. Those that only exist on the wire are 403 (a token of another role),
405, 408 (a body that is too slow), 413 (a body that is too large), 429 (too many requests) and 431 (headers that are
too long).

Any other exception is a 500 with an opaque number. The log gets that number and the exception's type, because a message
or a traceback could hold what a person sent.
"""

from __future__ import annotations

import ast
import json
import logging
import math
import secrets
from collections.abc import Sequence

import msgspec

from thresher.errors import LedgerUnavailable, ServerUnavailable, StoreUnavailable, ThresherError, http_status
from thresher.protocol.messages import Problem, VersionProblem, encode

log = logging.getLogger("thresher.server")

MEDIA_TYPE = b"application/problem+json"
RETRY_SECONDS = 1
"""The default of `Retry-After`. It may be short, since the same sealed bytes can safely be sent again at any time."""

_TITLES = {
    400: "Not a valid message",
    401: "Not authorised",
    402: "Budget exceeded",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "Conflict",
    410: "Closed",
    413: "Too large",
    422: "Not possible",
    429: "Too many requests",
    431: "Headers too long",
    500: "Internal error",
    501: "Not installed",
    503: "Not available",
}
# The messages of these errors may name files or hosts of the server's machine.
_HIDDEN: tuple[type[ThresherError], ...] = (LedgerUnavailable, StoreUnavailable, ServerUnavailable)
_UNAVAILABLE = "The server cannot do this now. Nothing was acknowledged, nothing is lost."

Headers = list[tuple[bytes, bytes]]


class Refused(ThresherError):
    """A request is refused for a reason that only exists on the wire: its size, its rate, its token's role."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str = "",
        retry_after: float | None = None,
        headers: Headers | None = None,
        versions: Sequence[int] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.versions = tuple(versions)
        self.code = code  # one class for all: the code belongs to the instance
        self.retry_after = retry_after
        self.headers = headers or []


def status_of(error: ThresherError) -> int:
    """The HTTP status of an error of ours."""
    return error.status if isinstance(error, Refused) else http_status(error)


def problem_of(error: BaseException) -> Problem:
    """What the client may know of an error.

    Guarantee: of an exception that is not a `ThresherError`, nothing but an opaque number.
    """
    if not isinstance(error, ThresherError):
        number = secrets.token_hex(6)
        log.error("internal error %s: %s", number, type(error).__name__)
        return problem(500, "internal", f"Something went wrong here. The log has it under {number}.", "")
    status = status_of(error)
    if isinstance(error, _HIDDEN):
        return problem(status, error.code, _UNAVAILABLE, "Try again later.")
    found = problem(status, error.code, *error.worded("wire", on_the_wire))
    if isinstance(error, Refused) and error.versions:
        return VersionProblem(**msgspec.structs.asdict(found), versions=list(error.versions))
    return found


def on_the_wire(name: str, value: str | None) -> str:
    """A setting in a message or a hint, as JSON has it; still marked, so that a client can write it in its own way."""
    if value is None:
        return name
    try:
        return f"`{json.dumps(name)}: {json.dumps(ast.literal_eval(value))}`"
    except (ValueError, SyntaxError, TypeError):
        return f"`{json.dumps(name)}: {value}`"


def answer_of(error: BaseException) -> tuple[int, Headers, bytes]:
    """Status, headers and body of the answer to an error."""
    found = problem_of(error)
    headers = [(b"content-type", MEDIA_TYPE), (b"cache-control", b"no-store")]
    if found.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if found.status in (429, 503):
        headers.append((b"retry-after", str(retry_seconds(error)).encode()))
    if isinstance(error, Refused):
        headers += error.headers
    body = encode(found)
    headers.append((b"content-length", str(len(body)).encode()))
    return found.status, headers, body


def retry_seconds(error: BaseException) -> int:
    """Whole seconds for `Retry-After`, at least 1."""
    asked: float | None = getattr(error, "retry_after", None)
    if asked is None or not 0 < asked < math.inf:
        return RETRY_SECONDS
    return max(1, math.ceil(asked))


def problem(status: int, code: str, detail: str, hint: str) -> Problem:
    """A problem in the one shape that the API and the command have."""
    return Problem(
        type=f"urn:thresher:problem:{code}",
        title=_TITLES.get(status, "Error"),
        status=status,
        code=code,
        detail=detail,
        hint=hint,
    )


def http_refusal(status: int, allowed: str = "") -> Refused:
    """The refusal of an unknown path, or of a method that the path does not have; `allowed` names those it has."""
    if status == 404:
        return Refused(404, "not-found", "There is nothing at this path.", hint="See /openapi.json.")
    if status == 405:
        message = f"This path takes {allowed}."
        return Refused(405, "method-not-allowed", message, headers=[(b"allow", allowed.encode())])
    return Refused(status, "refused", "This request cannot be answered.")

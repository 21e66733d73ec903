"""Why a server could not be reached, and what to do about it: a certificate, a name, a port, a network."""

from __future__ import annotations

import functools
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from thresher.errors import InvalidSetting, ServerUnavailable

_WRONG_NAME = frozenset({62, 63, 64})  # OpenSSL: the name, the mail address, the network address
_WRONG_TIME = frozenset({9, 10})
_CA_HINT = "If your own authority signed it, give its certificate: `ca_file='authority.pem'`."


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a server could not be reached. `lasting` says that trying again does not help."""

    words: str
    hint: str
    lasting: bool = False

    def error(self, retry_after: float | None = None) -> ServerUnavailable:
        """The error that says so."""
        return ServerUnavailable(self.words, hint=self.hint, retry_after=retry_after)


def failure_of(url: str, error: BaseException) -> Failure:
    """What an error of the HTTP library means. Its own message is not repeated: it might quote a header."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _certificate(url, cause.verify_code, cause.verify_message)
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return Failure(
                f"No secure connection to {url} can be made.",
                "Check that the address has the right port, and https:// only where the server has a certificate.",
                lasting=True,
            )
        if isinstance(cause, socket.gaierror):
            return Failure(f"The name in {url} is not known.", "Check the address and the network.")
        if isinstance(cause, ConnectionRefusedError):
            return Failure(f"No server listens at {url}.", "Check the port, and that the server is running.")
    if any(isinstance(cause, TimeoutError) or type(cause).__name__.endswith("Timeout") for cause in causes):
        return Failure(f"The server {url} does not answer in time.", "Check the address, or try again later.")
    return Failure(
        f"The connection to {url} cannot be made, or breaks.",
        "Check the address, http:// or https:// included, or try again later.",
    )


def stranger(url: str, status: int) -> Failure:
    """The failure where a proxy, or a network that wants a login, answered in place of the server."""
    return Failure(
        f"Something between here and {url} answered in its place (status {status}).",
        "Check the address. A network may want you to sign in first, or a proxy may be in between.",
    )


@functools.lru_cache(maxsize=8)
def trusted(ca_file: str | Path | None = None) -> ssl.SSLContext:
    """The trusted certificates: the system's, or those in a file. They are read once, since that takes a while."""
    import httpx

    if ca_file is None:
        return httpx.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        raise InvalidSetting(
            "ca_file",
            f"{str(ca_file)!r} is not a file with certificates that can be read",
            hint="Give certificates in PEM form.",
        ) from None


def _certificate(url: str, code: int, words: str) -> Failure:
    if code in _WRONG_NAME:
        return Failure(
            f"The certificate of {url} is for another name.", "Use the name that the certificate has.", lasting=True
        )
    if code in _WRONG_TIME:
        return Failure(
            f"The certificate of {url} is not valid at this time: {words}.",
            "Renew it at the server, or set the clock of this machine.",
            lasting=True,
        )
    return Failure(f"The certificate of {url} is not trusted: {words}.", _CA_HINT, lasting=True)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error with all its causes and contexts, and the members of exception groups."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            waiting.extend(each.exceptions)
        waiting += [each.__context__, each.__cause__]

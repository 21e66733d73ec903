"""What one connection may use before any route is asked: bytes of a head, seconds for head, body and answer.

uvicorn reads requests with the class of this module, which closes a connection

- whose request line and headers are longer than `Limits.head_bytes`: the parser never sees more of them,
- whose head takes longer than `head_seconds`, or whose body takes longer than `body_seconds`,
- whose client does not take the answer for `stall_seconds`,
- that is one too many for its address, or for the server (`door`).

It speaks HTTP/1.1 and nothing else: a request that asks for another protocol (`Upgrade`) is read as if it did not.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from thresher.server.door import Door, Guest
from thresher.server.limits import ARRIVED, KIB
from thresher.server.problem import Refused, answer_of

_PIECE: Final = 4 * KIB
"""While a head is read, the parser gets at most this many bytes at a time."""
_BODY_PIECE: Final = 16 * KIB
_DRAINED: Final = 256 * KIB
"""How many bytes of a body are still read after its answer was sent."""
_GRACE_SECONDS: Final = 5.0
"""How much longer than a route this waits for a body, so that the route's own answer comes first."""
_BETWEEN, _HEAD, _BODY = range(3)


class GuardedProtocol(Guest, HttpToolsProtocol):
    """One connection, behind the door. httptools' parser itself has no limit for a head."""

    cycle: Any
    """The request that is answered now or was answered last; None before the first."""

    def __init__(self, door: Door, **settings: Any) -> None:
        super().__init__(**settings)
        self.door = door
        self.parser = _Parser(self)
        self._phase = _BETWEEN
        self._completed = False
        # Bytes: of the head that is read now, of a body after its answer, and around the content of a body.
        self._head = self._drained = self._around = 0

    def at_work(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Let uvicorn have the connection, if the door does."""
        if self.arriving is not None:
            self.door.succeed(self.arriving, self)
            self.arriving = None
        if self.door.enter(self, transport):
            super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self.door.leave(self)
        if self.cycle is not None or self.flow is not None:  # uvicorn had it
            super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Say that a request cannot be read, unless an answer is on its way; then close the connection."""
        answering = bool(self.pipeline)
        if self.at_work():
            answering = answering or self.cycle.response_started
            self.cycle.disconnected = True  # what its route still sends goes nowhere
            self.cycle.message_event.set()
        if answering:
            self.transport.close()
        else:
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        """The client does not take what it is sent."""
        self.stalled = self.door.now() + self.door.limits.stall_seconds
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client goes on."""
        self.stalled = math.inf
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, a little at a time while it reads a head."""
        if self._phase == _BETWEEN and self.due == math.inf:
            self._await_head()
        start = 0
        while start < len(data) and not self.transport.is_closing():
            before, self._completed = self._phase, False
            room = _BODY_PIECE if before == _BODY else min(_PIECE, self.door.limits.head_bytes - self._head)
            piece = data[start : start + room]
            start += len(piece)
            super().data_received(piece)
            if self.transport.is_closing():
                return  # it was refused, and there may be no request
            if self._phase == _BODY:
                if self.cycle.response_complete and self._is_endless(len(piece)):
                    return
                if self._goes_around(len(piece)):
                    return
            # Nobody says how much of a piece that held the end of a request belongs to the next one.
            elif before == _BODY or self._completed:
                self._head = 0
            elif self._is_too_long(len(piece)):
                return
        if self._phase == _HEAD and self.due == math.inf:
            self._await_head()

    def _await_head(self) -> None:
        """Something of the next request has come: the rest of its head must follow."""
        self.expect("head-seconds", self.door.now() + self.door.limits.head_seconds)

    def _is_too_long(self, more: int) -> bool:
        self._head += more
        if self._head < self.door.limits.head_bytes:
            return False
        refused = Refused(431, "headers-too-large", "The request line and headers are too long.")
        status, headers, body = answer_of(refused)
        lines = [f"HTTP/1.1 {status} Request Header Fields Too Large".encode()]
        lines += [name + b": " + value for name, value in (*headers, (b"connection", b"close"))]
        self.transport.write(b"\r\n".join([*lines, b"", body]))
        self.door.leave(self)
        self.door.tell("head-bytes")
        self.transport.close()
        return True

    def _is_endless(self, more: int) -> bool:
        self._drained += more
        if self._drained <= _DRAINED:
            return False
        self.door.close(self, "body-bytes")
        return True

    def _goes_around(self, more: int) -> bool:
        """Extensions of a chunk and trailers: the parser keeps a line of them whole, and copies it with every piece."""
        self._around += more
        if self._around <= self.door.limits.head_bytes + _BODY_PIECE:
            return False
        self.door.close(self, "around-body")
        return True

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the head. One that follows the body must not join those that were read."""
        if self._phase != _BODY:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Some of a body's content."""
        self._around = 0
        super().on_body(body)

    def on_message_begin(self) -> None:
        """The parser has seen the first byte of a request."""
        self._phase = _HEAD
        super().on_message_begin()

    def plain_head(self) -> bytes:
        """The head that was read last, without the header that asks for another protocol."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            raise httptools.HttpParserError("CONNECT")
        lines = [method + b" " + self.url + b" HTTP/" + self.parser.get_http_version().encode()]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def on_headers_complete(self) -> None:
        """The parser has a whole head."""
        if self.parser.should_upgrade():
            return  # the head is read again without that
        self._phase, self._head, self._drained, self._around = _BODY, 0, 0, 0
        self.door.waiting.pop(self, None)
        self.expect("body-seconds", self.door.now() + self.door.limits.body_seconds + _GRACE_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The parser has a whole request."""
        if self.parser.should_upgrade():
            return
        self._phase, self._completed = _BETWEEN, True
        self.door.waiting.pop(self, None)
        self.due = math.inf
        self.scope[ARRIVED] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is sent; uvicorn closes the connection if no other request comes in time."""
        super().on_response_complete()
        if self._phase != _BODY and not self.at_work():
            self.door.waiting[self] = None


class _Parser(httptools.HttpRequestParser):
    """httptools' parser for a server that speaks HTTP/1.1 alone.

    By itself it takes a request that asks for another protocol to have no body, whatever its length says, and what
    follows for that protocol. uvicorn goes on to read HTTP: bytes of a body would be the next request. So the head of
    such a request is read once more, without the header that asks for another protocol.
    """

    def __init__(self, protocol: GuardedProtocol) -> None:
        super().__init__(protocol)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self._protocol = protocol

    def feed_data(self, data: Any) -> None:
        """Parse."""
        while True:
            try:
                super().feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._protocol.plain_head() + data[upgrade.args[0] :]
            else:
                return


def configured(config: Config, door: Door) -> None:
    """Make uvicorn read requests behind a door; `config` must not be loaded yet."""
    config.load()
    config.http_protocol_class = functools.partial(GuardedProtocol, door)  # type: ignore[assignment]

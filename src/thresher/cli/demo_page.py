"""The page of `thresher serve --demo` that is a device (`examples/web`), on an origin of its own.

A process of its own serves it: whatever is done to the page's server, the fleet's server goes on.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thresher.console.headers import HEADERS
from thresher.errors import InvalidSetting
from thresher.files import write_whole
from thresher.roles.aggregator.processes import end_with_parent
from thresher.roles.tokens import new_token
from thresher.simulator.population import Column, ListColumn, Population

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from thresher.server.assembly import Settings
    from thresher.server.services import Services

HOW_TO_BUILD = "To be one of the devices in your browser, run `make web` first (it needs Node.js)."

_DEVICE = "device.js"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_KEY_FILE, _KEY_NAME = "page.key", "web page"
_HOURLY = 1_000
"""Devices that enrol with the page's key in an hour: everybody who opens the page can read the key."""
_EXAMPLES = 40
_CONNECTIONS = 100
_PATIENCE = 5.0
_EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound


def page_directory() -> Path | None:
    """Where the page's files are: in the installed package or in a checkout; None where the device was not built."""
    package = Path(__file__).parents[1]
    for directory in (package / "web", package.parents[1] / "examples" / "web"):
        if (directory / _DEVICE).is_file():
            return directory
    return None


def page_headers(server: str) -> dict[str, str]:
    """The headers of the page: those of the console, with a policy that lets it talk to its own server and no other."""
    return HEADERS | {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
            f"connect-src 'self' {server}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            "require-trusted-types-for 'script'; trusted-types 'none'"
        )
    }


def page_settings(server: str, enrolment_key: str, population: Population) -> dict[str, Any]:
    """What the page reads as `settings.json`: its server, the key to enrol with, and what a device may hold."""
    attributes = [_attribute(name, column) for name, column in population.columns.items()]
    return {"server": server, "enrolmentKey": enrolment_key, "attributes": attributes}


def _attribute(name: str, column: Column | ListColumn) -> dict[str, Any]:
    common = [value for value, _ in column.truth().most_common(_EXAMPLES)]
    if isinstance(column, ListColumn):
        return {"name": name, "kind": "several", "values": sorted(common)}
    kind = "number" if all(isinstance(value, int | float) for value in common) else "one"
    return {"name": name, "kind": kind, "values": common}


def page_app(directory: Path, settings: Mapping[str, Any]) -> ASGIApp:
    """The page as an application: a few files, read once, and `settings.json`. Any other address is not found."""
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    headers = page_headers(settings["server"])
    contents: dict[str, tuple[bytes, str]] = {
        path.name: (path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(directory.iterdir())
        if path.suffix in _TYPES
    }
    contents["settings.json"] = (json.dumps(settings).encode(), "application/json")

    async def serve(request: Request) -> Response:
        content, kind = contents.get(request.path_params["name"] or "index.html", (b"Not found", "text/plain"))
        status = 404 if kind == "text/plain" else 200
        return Response(content, status, headers, media_type=f"{kind}; charset=utf-8")

    return Starlette(routes=[Route("/{name:path}", serve, methods=["GET"])])


@dataclass(frozen=True, slots=True)
class _Serving:
    """What the page's process needs."""

    directory: Path
    settings: Mapping[str, Any]
    tls_cert: Path | None
    tls_key: Path | None


def _serve(listener: socket.socket, serving: _Serving) -> None:
    """Serve the page until told to stop. Ctrl-C in a terminal is for the fleet's server, which then ends this one."""
    import uvicorn

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    config = uvicorn.Config(
        page_app(serving.directory, serving.settings),
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
        ssl_certfile=serving.tls_cert,
        ssl_keyfile=serving.tls_key,
    )
    uvicorn.Server(config).run(sockets=[listener])


class DemoPage:
    """The page of one demo. Its port is bound when this is made, so that its origin can be allowed before the start."""

    def __init__(self, settings: Settings, directory: Path) -> None:
        self._settings = settings
        self._directory = directory
        self._key = ""
        self._process: multiprocessing.process.BaseProcess | None = None
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._listener.bind((settings.host, 0))
        except OSError as error:
            self._listener.close()
            raise InvalidSetting("host", f"{settings.host} cannot be used: {error.strerror}") from None
        self.url = self._reached(self._listener.getsockname()[1])
        """Where the page is, and its origin."""

    def make_key(self, services: Services, directory: Path) -> None:
        """Let devices of the page enrol with a key of their own, which is kept in the data directory."""
        path = directory / _KEY_FILE
        if not path.exists():
            write_whole(path, new_token("enrolment") + "\n")
        self._key = path.read_text().strip()
        services.operations.issue("enrolment", _KEY_NAME, token=self._key, hourly=_HOURLY)

    def start(self, url: str, population: Population) -> None:
        """Serve the page, for the server at this address."""
        server = self._reached(int(url.rpartition(":")[2]))
        settings = page_settings(server, self._key, population)
        serving = _Serving(self._directory, settings, self._settings.tls_cert, self._settings.tls_key)
        self._listener.listen(_CONNECTIONS)  # who comes before the process has started waits, and is not refused
        self._process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(self._listener, serving), daemon=True, name="page"
        )
        self._process.start()
        self._listener.close()  # the other process has its own

    def end(self) -> None:
        """Stop serving."""
        self._listener.close()
        if self._process is not None:
            self._process.terminate()
            self._process.join(_PATIENCE)
            if self._process.is_alive():
                self._process.kill()
                self._process.join(_PATIENCE)

    def _reached(self, port: int) -> str:
        """How a browser on this machine reaches a port: a server that listens at every address is at localhost too."""
        scheme = "http" if self._settings.tls_cert is None else "https"
        host = "localhost" if self._settings.host in _EVERY_ADDRESS else self._settings.host
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

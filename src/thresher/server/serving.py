"""`serve` runs a server process from start to stop.

A start needs no step by hand, however the last run ended: the directory's lock ends with its process, stores recover by
themselves, and queries are replayed from their releases.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import uvicorn

from thresher.errors import InvalidSetting
from thresher.server.app import App
from thresher.server.assembly import Settings, assembled
from thresher.server.connections import configured
from thresher.server.coordinator_loop import CoordinatorLoop
from thresher.server.data_directory import DataDirectory, read_key_file
from thresher.server.door import Door
from thresher.server.memory import bound_heaps
from thresher.server.rare_log import Seldom
from thresher.server.services import Services
from thresher.server.tls_listener import Acceptor
from thresher.server.webhook_sender import WebhookSender

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

Pages = Callable[[Services], Sequence["BaseRoute"]]
Announce = Callable[[str], None]

_THREADS = 32
_SWITCH_SECONDS = 0.0005
_GRACE_SECONDS = 5
_OTHER_FILES = 256
"""Open files that are not connections of this server: stores, peers, worker processes."""
_USES = {
    "operator": "makes keys and tokens, see {url}/openapi.json",
    "analyst": "asks: thresher fleet list --server {url} --key-file {path}",
    "enrolment": "enrols devices: thresher device --server {url} --enrolment-key-file {path} "
    "--attribute colour=red --state device.json",
}


def serve(
    settings: Settings,
    *,
    pages: Pages | None = None,
    announce: Announce = print,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Run a server until SIGTERM or SIGINT.

    Args:
        settings: How the server is run.
        pages: Makes further routes from the server's parts, such as the console's (`console.adapter.console_pages`).
        announce: Is called with each line for the operator: where new secrets are, and the server's address.
        ready: Is called with the address.

    Guarantee: both are called once requests are answered. Secrets are never announced, only where they are, and that
    only by the start that made them.
    """
    for path in settings.peer_key_files:
        read_key_file(path)  # before anything is made: only the start that makes the secrets says where they are
    _quiet_logs()
    open_files = _raise_open_files()
    bound_heaps()
    # A commit waits for the interpreter's lock at each of its steps. With shorter turns, 10 % more reports are taken.
    sys.setswitchinterval(_SWITCH_SECONDS)
    with (
        _listening(settings) as listener,
        DataDirectory(settings.data_dir, settings.roles) as directory,
        assembled(settings, directory, processes=True) as services,
    ):
        door = Door(settings.limits, services.metrics, trusted=settings.proxies, most=max(1, open_files - _OTHER_FILES))
        app = App(services, pages(services) if pages else ())
        app.crowded = lambda: door.crowded
        config = _config(app, settings)
        configured(config, door)

        def started() -> None:
            url = _url(settings, listener)
            _announce(announce, directory, url)
            if ready is not None:
                ready(url)

        server = _Server(config, app, settings, door, started)
        loop, sender = _loop(services), _sender(services, settings)
        gc.collect()
        gc.freeze()  # objects that exist now are kept for good: going through them again would only delay requests
        try:
            with _our_signals(server), asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
                runner.run(_run(server, listener))
        finally:
            services.stopping.set()
            threads = [thread for thread in (loop, sender) if thread is not None]
            for thread in threads:
                thread.stop()
            for thread in threads:
                thread.join(timeout=_GRACE_SECONDS)


async def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "request"))
    await server.serve(sockets=[listener])


def _loop(services: Services) -> CoordinatorLoop | None:
    """The coordinator's loop, started, where a coordinator runs."""
    if services.coordinator is None:
        return None
    aggregator = services.aggregator or services.peers["aggregator"]
    loop = CoordinatorLoop(
        services.coordinator,
        aggregator,  # type: ignore[arg-type]
        services.metrics,
        services.wake,
        services.the_coordinator_store.claim,
    )
    loop.start()
    return loop


def _sender(services: Services, settings: Settings) -> WebhookSender | None:
    """The thread that posts alerts, started, where a coordinator runs."""
    if services.coordinator is None:
        return None
    sender = WebhookSender(
        services.coordinator.alerts,
        settings.webhooks,
        secret=settings.webhook_secret,
        claim=services.the_coordinator_store.claim,
    )
    sender.start()
    return sender


def _config(app: App, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,  # paths and addresses say who takes part
        lifespan="off",
        ws="none",
        interface="asgi3",
        server_header=False,
        date_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        backlog=4096,
        timeout_keep_alive=settings.limits.idle_seconds,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )


class _Server(uvicorn.Server):
    """Calls `ready` when requests are answered, and ends open event streams when the server stops."""

    def __init__(
        self, config: uvicorn.Config, app: App, settings: Settings, door: Door, ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._app = app
        self._settings = settings
        self._door = door
        self._ready = ready
        self._sweeping: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            if self.config.ssl is None:
                await super().startup(sockets)
            else:
                await super().startup([])
                self.servers += [Acceptor(self, listener, self._door) for listener in sockets or ()]  # type: ignore[misc]
        except OSError as error:  # another process that bound the port too was the first to listen
            raise _port_taken(self._settings, error) from None
        self._sweeping = asyncio.create_task(self._door.keep_sweeping())
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.services.stopping.set()
        await super().shutdown(sockets)
        if self._sweeping is not None:
            self._sweeping.cancel()
        await asyncio.to_thread(self._app.close)  # not later: requests that wait for a commit need the event loop


@contextlib.contextmanager
def _our_signals(server: uvicorn.Server) -> Iterator[None]:
    """Stop the server for a signal that comes before uvicorn handles signals itself.

    After it has stopped, uvicorn raises the signal again. Handled here, it cannot end the process too early.
    """

    def stop(*_: object) -> None:
        server.should_exit = True

    kinds = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(kind, stop) for kind in kinds]
    try:
        yield
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)


@contextlib.contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """The listening socket. It is bound before anything is made, so that a port in use changes nothing on disk."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
        except OSError as error:
            raise _port_taken(settings, error) from None
        yield listener


def _port_taken(settings: Settings, error: OSError) -> InvalidSetting:
    return InvalidSetting(
        "port", f"{settings.port} at {settings.host} cannot be used: {error.strerror}", hint="Choose another."
    )


def _url(settings: Settings, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "http" if settings.tls_cert is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _announce(announce: Announce, directory: DataDirectory, url: str) -> None:
    if directory.is_new:
        for line in how_to_use(directory, url):
            announce(line)
    announce(f"Thresher is ready at {url}")


def how_to_use(directory: DataDirectory, url: str) -> list[str]:
    """What each secret that this start made is for, with its path; a peer's key only if that peer runs elsewhere."""
    lines = [f"Made in {directory.path}, where only you can read them:"]
    for secret in directory.secrets:
        caller = secret.path.stem
        if not secret.new or caller in directory.roles:
            continue
        use = _USES.get(secret.kind, f"lets the {caller} call: give it a copy, and start it with --peer-key-file")
        path = shlex.quote(str(secret.path))
        lines.append(f"  {secret.path.relative_to(directory.path)!s:26} {use.format(url=url, path=path)}")
    return lines


def _quiet_logs() -> None:
    """Log warnings and errors only, on standard error. No log line of ours holds a token, an id or a value."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # These log hosts and paths of requests.
    for name in ("httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # Anybody who can connect can cause lines of these, some with long tracebacks.
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(Seldom(errors=True))


def _raise_open_files() -> int:
    """Allow as many open files as the system lets us, since each connection is one; how many that are."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if now == resource.RLIM_INFINITY else now

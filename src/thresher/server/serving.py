"""`serve`: a server process from its first breath to its last.

A start needs no step by hand, whatever the last end was: the lock went with the process, stores recover by themselves,
queries are replayed from their releases.
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
from typing import TYPE_CHECKING, Any

from thresher.errors import InvalidSetting, require
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

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from uvicorn import Config

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
    """Run a server until it is told to stop (SIGTERM or SIGINT). `pages` gives further routes, such as the console's.

    `ready` is called with the address once requests are answered.

    Guarantee: the address is announced once requests are answered. Secrets are never announced, only where they are,
    and that only by the start that made them.
    """
    uvicorn = require("uvicorn", "server")
    for path in settings.peer_key_files:
        read_key_file(path)  # before anything is made: only the start that makes the secrets says where they are
    _quiet_logs()
    open_files = _raise_open_files()
    bound_heaps()
    # A commit waits for its turn at each of its steps; with turns ten times shorter, 10 % more reports are taken.
    sys.setswitchinterval(_SWITCH_SECONDS)
    with (
        _listening(settings) as listener,
        DataDirectory(settings.data_dir, settings.roles) as directory,
        assembled(settings, directory, processes=True) as services,
    ):
        app = App(services, pages(services) if pages else ())
        url = _url(settings, listener)
        config = _config(uvicorn, app, settings)
        door = Door(
            settings.limits,
            services.metrics,
            trusted=settings.proxies,
            most=max(1, open_files - _OTHER_FILES),
        )
        configured(config, door)

        def started() -> None:
            _announce(announce, directory, url)
            if ready is not None:
                ready(url)

        server = _server(uvicorn, config, app, settings, door, started)
        loop = _loop(services)
        gc.collect()
        gc.freeze()  # what is here now stays: looking through it again and again would only make requests wait
        try:
            with _our_signals(server), asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
                runner.run(_run(server, listener))
        finally:
            services.stopping.set()
            if loop is not None:
                loop.stop()
                loop.join(timeout=_GRACE_SECONDS)


async def _run(server: Any, listener: socket.socket) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "request"))
    await server.serve(sockets=[listener])


def _loop(services: Services) -> CoordinatorLoop | None:
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


def _config(uvicorn: Any, app: App, settings: Settings) -> Config:
    config: Config = uvicorn.Config(
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
    return config


def _server(uvicorn: Any, config: Config, app: App, settings: Settings, door: Door, ready: Callable[[], None]) -> Any:
    class Server(uvicorn.Server):  # type: ignore[misc]
        """Says when it is ready, and tells open event streams when it stops."""

        sweeping: asyncio.Task[None] | None = None

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            try:
                if self.config.ssl is None:
                    await super().startup(sockets)
                else:
                    await super().startup([])
                    self.servers += [Acceptor(self, listener, door) for listener in sockets or ()]
            except OSError as error:  # another process that bound the port too was the first to listen
                raise _port_taken(settings, error) from None
            self.sweeping = asyncio.create_task(door.keep_sweeping())
            ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.services.stopping.set()
            await super().shutdown(sockets)
            if self.sweeping is not None:
                self.sweeping.cancel()
            await asyncio.to_thread(app.close)  # here, since whoever waits for a commit needs the event loop

    server = Server(config)
    app.crowded = lambda: door.crowded
    return server


@contextlib.contextmanager
def _our_signals(server: Any) -> Iterator[None]:
    """Stop the server for a signal that comes before it looks for them itself.

    Once it has stopped for one, it raises that signal again: here it cannot cut off what comes after.
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
    """The socket, bound before anything is made, so that a port in use changes nothing on disk."""
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
    """What the secrets that this start made are for, by their paths; those of a peer only if it runs elsewhere."""
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
    """Warnings and errors only, on standard error; nothing that is logged here holds a token, an id or a value."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # These would name hosts and paths of requests.
    for name in ("httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # Whoever can connect may make these say something, and a traceback is long.
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(Seldom(errors=True))


def _raise_open_files() -> int:
    """A connection is an open file: allow as many as the system lets us, and say how many that are."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if now == resource.RLIM_INFINITY else now

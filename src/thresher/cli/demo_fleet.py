"""`thresher serve --demo`: a server with simulated devices that keep checking in, for a first look."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from thresher.cli.demo_page import HOW_TO_BUILD, DemoPage
from thresher.cli.output import say
from thresher.protocol.analyst_messages import RoundSettings
from thresher.roles.aggregator.processes import end_with_parent
from thresher.simulator.population import demo_population
from thresher.simulator.simulation import POLICY, keep_checking_in

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

    from thresher.server.assembly import Settings

DEVICES = 3000
ATTRIBUTES = tuple(demo_population(1).columns)
_ENOUGH = 0.95  # of the devices: a newcomer should not wait for the last of them
_EPSILON, _DELTA = 100.0, 1e-4  # nobody's value is at stake, and a newcomer will ask much
_COME_BACK = 1.0  # seconds: a round of the demo is open for a few, and a web page shall not miss it
_PATIENCE = 5.0


@contextlib.contextmanager
def data_directory(given: Path | None) -> Iterator[Path]:
    """The directory that was given, or one that is gone at the end."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="thresher-demo-") as directory:
        yield Path(directory) / "fleet"


def demo_settings(settings: Settings, page: DemoPage | None = None) -> Settings:
    """Short rounds and a large budget, where nothing else was asked for. The page may use the device's routes."""
    first = not settings.data_dir.exists()
    return replace(
        settings,
        fleet="demo" if settings.fleet == "fleet" else settings.fleet,
        rounds=RoundSettings(seconds=settings.rounds.seconds or 60.0, completions=int(_ENOUGH * DEVICES)),
        device_policy=replace(POLICY, attributes=frozenset(ATTRIBUTES)),
        budget_epsilon=settings.budget_epsilon or (_EPSILON if first else None),
        budget_delta=settings.budget_delta or (_DELTA if first else None),
        come_back=min(settings.come_back, _COME_BACK),
        allow_origins=settings.allow_origins if page is None else (*settings.allow_origins, page.url),
    )


def _live(url: str, key: str, devices: int, stop: Event) -> None:
    """Devices until told to stop: Ctrl-C in a terminal is for the server, which then tells them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    keep_checking_in(url, key, devices, stop)


class DemoFleet:
    """Devices in a process of their own, and a page on which a person can be one of them, where it was built."""

    def __init__(self, page: DemoPage | None = None) -> None:
        self._page = page
        context = multiprocessing.get_context("spawn")
        self._stop = context.Event()
        self._context = context
        self._process: multiprocessing.process.BaseProcess | None = None

    def start(self, url: str, directory: Path) -> None:
        """Let devices enrol and check in, and say how to look."""
        key, token = ((directory / name).read_text().strip() for name in ("enrolment.key", "operator.token"))
        self._process = self._context.Process(
            target=_live, args=(url, key, DEVICES, self._stop), daemon=True, name="devices"
        )
        self._process.start()
        say(f"{DEVICES:,} simulated devices are checking in; they hold {', '.join(ATTRIBUTES)}.")
        say(f"Open {url}/ and sign in with {token}")
        if self._page is None:
            say(HOW_TO_BUILD)
        else:
            self._page.start(url, demo_population(DEVICES))
            say(f"Be one of the devices: {self._page.url}/")
        say("Stop with Ctrl-C; then the demo's data is deleted, unless --data-dir was given.")

    def end(self) -> None:
        """Stop the devices, and the page."""
        if self._page is not None:
            self._page.end()
        if self._process is not None:
            self._stop.set()
            self._process.join(_PATIENCE)
            if self._process.is_alive():
                self._process.terminate()
                self._process.join(_PATIENCE)

"""The coordinator's loop: a thread that calls `step` whenever something may be due."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from thresher.errors import ThresherError
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.coordinator.coordinator import Coordinator
from thresher.server.metrics import Metrics
from thresher.server.peers import HttpAggregator

log = logging.getLogger("thresher.server")

_SHORTEST = 0.2
_LONGEST = 1.0
_RETIRE_SECONDS = 60.0


class CoordinatorLoop(threading.Thread):
    """Calls `coordinator.step` until it is stopped.

    Guarantee: steps at least once a second, so it acts that soon on a deadline or a number of completions, even if
    nobody wakes it. An error in a step is counted, and the next step is made all the same.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        aggregator: Aggregator | HttpAggregator,
        metrics: Metrics,
        wake: threading.Event,
        claim: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(name="coordinator", daemon=True)
        self._coordinator = coordinator
        self._aggregator = aggregator
        self._metrics = metrics
        self._wake = wake
        self._claim = claim
        self._ended = threading.Event()
        self._retire_at = 0.0

    def run(self) -> None:
        """Step until stopped."""
        while not self._ended.is_set():
            self._wake.clear()
            due = self._guarded(self._step)
            if time.monotonic() >= self._retire_at:
                # In this thread, so that no round is planned with a key that is being retired.
                self._guarded(self._retire)
                self._retire_at = time.monotonic() + _RETIRE_SECONDS
            if due is None or due > _SHORTEST:
                # Without this pause, every report of a busy round would cause a step.
                self._ended.wait(_SHORTEST)
                self._wake.wait(min(_LONGEST, due or _LONGEST))
            else:
                self._ended.wait(max(0.01, due))

    def stop(self) -> None:
        """Finish the step at hand and end."""
        self._ended.set()
        self._wake.set()

    def _step(self) -> float | None:
        self._claim()  # at every step: after a restart of the database, another server may own it
        return self._coordinator.step()

    def _retire(self) -> None:
        self._aggregator.retire_keys(self._coordinator.keys_in_use())

    def _guarded(self, work: Callable[[], object]) -> float | None:
        try:
            result = work()
        except ThresherError as error:
            self._metrics.count("thresher_step_errors_total", code=error.code)
        except Exception as error:
            log.error("a step of the coordinator failed: %s", type(error).__name__)
            self._metrics.count("thresher_step_errors_total", code="internal")
        else:
            return result if isinstance(result, int | float) else None
        return _LONGEST

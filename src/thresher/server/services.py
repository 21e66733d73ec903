"""The parts of a running server: the roles it runs, its tokens, its limits and its metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from thresher.clock import Clock
from thresher.errors import NotFound, StoreUnavailable, ThresherError
from thresher.protocol.analyst_messages import PlanPreview, QueryRequest, QueryStatus
from thresher.protocol.messages import encode
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.collector.collector import Collector
from thresher.roles.collector.store import CollectorStore
from thresher.roles.coordinator.coordinator import Coordinator
from thresher.roles.coordinator.store import CoordinatorStore
from thresher.server.auth import ANALYST, Identity, Tokens
from thresher.server.cross_origin import Origins
from thresher.server.limits import Bodies, Limits, Streams
from thresher.server.metrics import Metrics
from thresher.server.operations import Operations
from thresher.server.peers import HttpAggregator, HttpCollector
from thresher.server.shared_calls import Shared
from thresher.server.workers import Workers

T = TypeVar("T")

_LOOK_SECONDS = 0.2


@dataclass(slots=True, kw_only=True)
class Services:
    """The parts of one server process. A role that runs elsewhere is None; `peers` has the HTTP client for it."""

    clock: Clock
    tokens: Tokens
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)
    come_back: float = 60.0
    """Seconds until a device's next visit, which it is told at every visit."""
    origins: Origins = field(default_factory=Origins)
    """The web pages that may use the device's routes."""
    compute: Workers | None = None
    """Where plans are computed, if not in this process."""
    collector: Collector | None = None
    collector_store: CollectorStore | None = None
    aggregator: Aggregator | None = None
    coordinator: Coordinator | None = None
    coordinator_store: CoordinatorStore | None = None
    peers: dict[str, HttpCollector | HttpAggregator] = field(default_factory=dict)
    checks: dict[str, Callable[[], object]] = field(default_factory=dict)
    """For each role that runs here, a function that raises when its store cannot be used."""
    wake: threading.Event = field(default_factory=threading.Event)
    """Set when the coordinator may have something to do."""
    description: bytes = b""
    """The OpenAPI document."""
    streams: Streams = field(init=False)
    """Event streams that are open now."""
    bodies: Bodies = field(init=False)
    """Bytes of analysts' and operators' bodies that are held now."""
    still_allowed: Shared[str, Identity] = field(init=False)
    """Whose an analyst's token is; all its event streams share one look-up."""
    followed: Shared[str, tuple[str, bytes]] = field(init=False)
    """The state of a query and its status as streams send it; all its event streams share one look-up."""
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.streams = Streams(self.limits.streams, self.limits.streams_per_caller)
        self.bodies = Bodies(self.limits.body_bytes, self.limits.body_bytes_per_caller)
        self.still_allowed = Shared(lambda token: self.tokens.identify(token, ANALYST), _LOOK_SECONDS)
        self.followed = Shared(self._standing, _LOOK_SECONDS)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that run here."""
        here = {"collector": self.collector, "aggregator": self.aggregator, "coordinator": self.coordinator}
        return tuple(name for name, role in here.items() if role is not None)

    @property
    def the_collector(self) -> Collector:
        """The collector; its routes exist only where it runs."""
        return _present(self.collector)

    @property
    def the_aggregator(self) -> Aggregator:
        """The aggregator."""
        return _present(self.aggregator)

    @property
    def the_coordinator(self) -> Coordinator:
        """The coordinator."""
        return _present(self.coordinator)

    @property
    def the_collector_store(self) -> CollectorStore:
        """The collector's store, for enrolment keys."""
        return _present(self.collector_store)

    @property
    def the_coordinator_store(self) -> CoordinatorStore:
        """The coordinator's store, for tokens."""
        return _present(self.coordinator_store)

    @property
    def operations(self) -> Operations:
        """What an operator may do with keys, tokens and devices."""
        return Operations(self)

    def preview(self, request: QueryRequest) -> PlanPreview:
        """What a query would do; charges nothing."""
        return self.the_coordinator.preview(request, self.come_back)

    def submit(self, request: QueryRequest, by: str) -> QueryStatus:
        """Charge a query, and wake the coordinator's loop, which runs it."""
        status = self.the_coordinator.submit(request, by)
        self.wake.set()
        return status

    def cancel(self, query: str, by: str) -> QueryStatus:
        """Stop a query, and wake the coordinator's loop, which closes its rounds."""
        status = self.the_coordinator.cancel(query, by)
        self.wake.set()
        return status

    def close_rounds(self, query: str) -> QueryStatus:
        """Close a query's open rounds now, and wake the coordinator's loop, which does it."""
        status = self.the_coordinator.close_rounds(query)
        self.wake.set()
        return status

    def _standing(self, query: str) -> tuple[str, bytes]:
        status = self.the_coordinator.standing(query)
        return status.state, encode(status)

    def health(self) -> dict[str, str]:
        """Each role here, and each peer that is needed: "ready", or what is wrong."""
        roles = {role: _health(check) for role, check in self.checks.items()}
        return roles | {name: _health(peer.ping) for name, peer in self.peers.items()}


def _present(part: T | None) -> T:
    if part is None:
        raise NotFound("This server does not run that role.")
    return part


def _health(check: Callable[[], object]) -> str:
    try:
        check()
    except StoreUnavailable:
        return "store unavailable"
    except ThresherError as error:
        return error.code
    except Exception:
        return "internal"
    return "ready"

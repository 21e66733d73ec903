"""Makes a server's parts from its settings: stores, roles and peers. Each role gets only the secrets that it needs."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from thresher.addresses import checked_address
from thresher.clock import Clock, SystemClock
from thresher.device.policy import Policy
from thresher.errors import InvalidSetting, ServerUnavailable, StoreUnavailable
from thresher.privacy.budget import Composing
from thresher.protocol.analyst_messages import RoundSettings
from thresher.protocol.messages import check_name
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.aggregator.keys import KeyRing
from thresher.roles.aggregator.round_drawing import Drawing, LocalDrawing
from thresher.roles.aggregator.spark_drawing import SparkDrawing, check_master
from thresher.roles.aggregator.store import AggregatorStore
from thresher.roles.collector.collector import Collector
from thresher.roles.collector.store import CollectorStore
from thresher.roles.computing import here
from thresher.roles.coordinator.alert_store import RuleNumbers
from thresher.roles.coordinator.coordinator import Coordinator
from thresher.roles.coordinator.store import CoordinatorStore
from thresher.roles.database.database import Store
from thresher.roles.ports import AggregatorPort, BatchTaker, CollectorPort
from thresher.roles.tokens import token_hash
from thresher.server.auth import (
    COLLECTOR_TO_AGGREGATOR,
    COORDINATOR_TO_AGGREGATOR,
    COORDINATOR_TO_COLLECTOR,
    Identity,
    Tokens,
)
from thresher.server.cross_origin import Origins
from thresher.server.data_directory import DataDirectory, read_key_file
from thresher.server.limits import Limits
from thresher.server.metrics import Metrics, Readings
from thresher.server.peers import HttpAggregator, HttpCollector
from thresher.server.role_stores import bind_stores, check_stores
from thresher.server.server_ledger import FleetBudget, claimed, open_ledger
from thresher.server.services import Services
from thresher.server.webhooks import Webhook
from thresher.server.workers import Workers
from thresher.unreachable import trusted

log = logging.getLogger("thresher.server")

S = TypeVar("S", bound=Store)
T = TypeVar("T")
P = TypeVar("P", HttpCollector, HttpAggregator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a server is run."""

    data_dir: Path
    roles: tuple[str, ...] = ("collector", "aggregator", "coordinator")
    host: str = "127.0.0.1"
    port: int = 8080
    store: str | None = field(default=None, repr=False)
    """A `postgresql://` address; by default each role has an SQLite file in the data directory."""
    adopt_store: bool = False
    """Whether the data directory takes this store from now on, though it was used with another one."""
    collector: str | None = None
    aggregator: str | None = None
    peer_key_files: tuple[Path, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
    """The authority that signs the peers' certificates, if it is none of the usual ones."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies that are trusted to say whether a request came over TLS."""
    budget_epsilon: float | None = None
    budget_delta: float | None = None
    budget_composition: Composing | None = None
    budget_period: str | None = None
    """After which time the budget renews, as "30d"; by default it does not."""
    fleet: str = "fleet"
    rounds: RoundSettings = field(default_factory=RoundSettings)
    spark: str | None = None
    """A Spark master, where the aggregator draws large rounds; by default it draws all rounds itself."""
    batches: Path | None = None
    """A folder that all Spark workers can read, by default in the aggregator's directory."""
    device_policy: Policy = field(default_factory=Policy)
    """The policy that devices are shipped with: analysts are warned of queries that it does not allow."""
    webhooks: tuple[Webhook, ...] = ()
    """Where alerts may be posted; analysts choose one by its name."""
    webhook_secret: str | None = field(default=None, repr=False)
    """Signs what is posted."""
    public_url: str | None = None
    """Where people reach the console, for the links in alerts."""
    come_back: float = 60.0
    allow_origins: tuple[str, ...] = ()
    """Origins of the web pages that may use the device's routes; `*` for all."""
    store_seconds: float = 60.0
    """How long a start waits for a database that is not there yet."""
    limits: Limits = field(default_factory=Limits)

    @property
    def budget(self) -> FleetBudget:
        """The fleet's budget, as far as it was given."""
        return FleetBudget(self.budget_epsilon, self.budget_delta, self.budget_composition, self.budget_period)

    def __post_init__(self) -> None:
        _ = self.budget  # making it checks it
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InvalidSetting("tls-cert", "and tls-key go together")
        for proxy in self.proxies:
            _check_network(proxy)
        check_name("fleet", self.fleet)
        if self.public_url is not None:
            checked_address("public-url", self.public_url)
            if any(sign in self.public_url for sign in "@?#"):
                raise InvalidSetting("public-url", "must be an address without a user, a query or a #")
        if (self.webhooks or self.webhook_secret) and "coordinator" not in self.roles:
            raise InvalidSetting("alert-webhook", "is for the coordinator, whose role must run here")
        if Origins(self.allow_origins) and "collector" not in self.roles:
            raise InvalidSetting("allow-origin", "is for the collector, whose role must run here")
        if not 0 <= self.port <= 65535:
            raise InvalidSetting("port", "must be from 0 to 65535")
        if not 0 < self.come_back <= 86_400:
            raise InvalidSetting("come-back", "must be above 0 and at most 86400 seconds")
        if self.store is not None and not self.store.startswith(("postgresql://", "postgres://")):
            raise InvalidSetting(
                "store", "must be a postgresql:// address", hint="Without it, SQLite files in the data directory serve."
            )
        if self.spark is not None:
            check_master(self.spark)
            if "aggregator" not in self.roles:
                raise InvalidSetting("spark", "is for the aggregator, whose role must run here")
        elif self.batches is not None:
            raise InvalidSetting("batches", "is a folder for Spark, so it goes together with spark")


def _check_network(text: str) -> None:
    """Refuse names and wildcards: a proxy that is trusted by mistake could say that plain HTTP was TLS."""
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise InvalidSetting(
            "trusted-proxy", "must be an address or a network", hint="For example 10.0.0.7 or 10.0.0.0/24."
        ) from None


@contextlib.contextmanager
def assembled(
    settings: Settings, directory: DataDirectory, clock: Clock | None = None, *, processes: bool = False
) -> Iterator[Services]:
    """The parts of a server, closed again at the end. With `processes`, plans are computed in other processes."""
    limits = settings.limits
    services = Services(
        clock=clock or SystemClock(),
        tokens=Tokens({}),
        limits=limits,
        come_back=settings.come_back,
        origins=Origins(settings.allow_origins),
    )
    with contextlib.ExitStack() as stack:
        if processes:
            services.compute = Workers(
                limits.planners, waiting=limits.plans_waiting, seconds=limits.plan_seconds, metrics=services.metrics
            )
            stack.callback(services.compute.close)
        peers = _Peers(settings, services, stack)
        stores = _Stores(settings, directory, stack)
        if "aggregator" in directory.roles:
            _add_aggregator(settings, directory, services, stores, stack)
        if "collector" in directory.roles:
            _add_collector(settings, services, stores, peers)
        if "coordinator" in directory.roles:
            _add_coordinator(settings, directory, services, stores, peers)
        _register_secrets(services, directory)
        services.tokens = _tokens(services, directory)
        stores.bind()
        yield services


def _add_aggregator(
    settings: Settings, directory: DataDirectory, services: Services, stores: _Stores, stack: contextlib.ExitStack
) -> None:
    store = stores.open("aggregator", AggregatorStore.open)
    own = directory.of("aggregator")
    drawing: Drawing = LocalDrawing()
    if settings.spark is not None:
        drawing = SparkDrawing(settings.spark, settings.batches or own / "batches", smaller=drawing)
    aggregator = Aggregator(store, KeyRing(own / "keys"), drawing)
    stack.callback(aggregator.close)
    aggregator.recover()
    aggregator.public_key()  # the first start makes a key
    services.aggregator = aggregator
    services.checks["aggregator"] = store.rounds_to_forget
    gauge = services.metrics.gauge
    totals = aggregator.totals  # how many reports were malformed or repeated is for operators only
    malformed, repeated = "Malformed reports dropped since the start.", "Repeated reports dropped since the start."
    gauge("thresher_malformed_reports", malformed, lambda: totals().malformed, operators=True)
    gauge("thresher_duplicate_reports", repeated, lambda: totals().duplicates, operators=True)
    gauge("thresher_releases", "Releases drawn since the start.", lambda: totals().releases)


def _add_collector(settings: Settings, services: Services, stores: _Stores, peers: _Peers) -> None:
    store = stores.open("collector", CollectorStore.open)
    services.collector = Collector(
        store,
        services.clock,
        aggregator=peers.batch_taker(),
        hourly=settings.limits.enrolments_per_hour,
    )
    services.collector.recover()
    services.collector_store = store
    services.checks["collector"] = store.open_rounds
    services.metrics.gauge("thresher_open_rounds", "Rounds open now.", lambda: len(store.open_rounds()))


def _add_coordinator(
    settings: Settings, directory: DataDirectory, services: Services, stores: _Stores, peers: _Peers
) -> None:
    store = stores.open("coordinator", claimed)
    services.coordinator_store = store
    ledger = open_ledger(directory, store, settings.budget, services.clock)

    def check() -> None:
        store.claim()
        store.tokens()
        _ = ledger.spent

    services.checks["coordinator"] = check
    services.metrics.gauge(
        "thresher_budget_left",
        "The part of the privacy budget that is left, from 0 to 1.",
        lambda: ledger.left.share,
        operators=True,
    )
    services.coordinator = Coordinator(
        store,
        ledger,
        services.clock,
        peers.collector(),
        peers.aggregator(COORDINATOR_TO_AGGREGATOR),
        settings.fleet,
        settings.rounds,
        policy=settings.device_policy,
        most_open=settings.limits.open_queries,
        compute=services.compute or here,
        webhooks=[webhook.name for webhook in settings.webhooks],
        public_url=None if settings.public_url is None else settings.public_url.rstrip("/"),
    )
    _measure_alerts(services.metrics, store)


def _measure_alerts(metrics: Metrics, store: CoordinatorStore) -> None:
    """Alerts by series and rule. Their ids are no data, but only analysts may know them."""

    def by_rule(number: Callable[[RuleNumbers], int]) -> Readings:
        return lambda: [((("series", each.series), ("rule", each.rule)), number(each)) for each in store.rule_numbers()]

    total, standing = "Alerts that a rule gave.", "Whether the last release that a rule judged gave an alert."
    metrics.for_analysts("thresher_series_alerts_total", "counter", total, by_rule(lambda each: each.alerts))
    metrics.for_analysts("thresher_series_alert_standing", "gauge", standing, by_rule(lambda each: each.standing))
    metrics.for_analysts(
        "thresher_series_alert_messages",
        "gauge",
        "Messages to webhooks, by where they stand.",
        lambda: [((("state", state.replace(" ", "-")),), number) for state, number in store.delivery_numbers().items()],
    )


def _register_secrets(services: Services, directory: DataDirectory) -> None:
    """Let the directory's own key and tokens open this server. This comes last: a start that fails lets nobody in."""
    if services.collector_store is not None:
        services.operations.issue("enrolment", "first", token=directory.secret("enrolment").token)
    if services.coordinator_store is not None:
        for kind in ("analyst", "operator"):
            services.operations.issue(kind, kind, token=directory.secret(kind).token)


class _Stores:
    """The stores of the roles that run here."""

    def __init__(self, settings: Settings, directory: DataDirectory, stack: contextlib.ExitStack) -> None:
        self._settings = settings
        self._directory = directory
        self._stack = stack
        self._ids: dict[str, str] = {}
        if not settings.adopt_store:
            self._waited(lambda: check_stores(directory, settings.store))

    def open(self, role: str, opening: Callable[[str | Path], S]) -> S:
        """Open a role's store; it is closed at the end."""
        store = self._waited(lambda: opening(self._settings.store or self._directory.of(role)))
        self._stack.callback(store.close)
        self._ids[role] = store.id
        return store

    def bind(self) -> None:
        """Write down in the data directory which stores it is used with."""
        bind_stores(self._directory, self._settings.store, self._ids)

    def _waited(self, action: Callable[[], T]) -> T:
        """Do something again until the database is there: it may still be starting, as this server is."""
        end, told = time.monotonic() + self._settings.store_seconds, False
        while True:
            try:
                return action()
            except StoreUnavailable as error:
                if self._settings.store is None or error.lasting or time.monotonic() >= end:
                    raise
                if not told:
                    log.warning("%s Trying again for up to %.0f s.", error.message, self._settings.store_seconds)
                    told = True
                time.sleep(0.5)


class _Peers:
    """The other roles: those of this process, or HTTP clients."""

    def __init__(self, settings: Settings, services: Services, stack: contextlib.ExitStack) -> None:
        self._settings = settings
        self._services = services
        self._stack = stack
        self._keys = dict(read_key_file(path) for path in settings.peer_key_files)
        self._verify = True if settings.tls_ca is None else _trusted(settings.tls_ca)

    def collector(self) -> CollectorPort:
        """The collector, for the coordinator."""
        if self._services.collector is not None:
            return self._services.collector
        url = self._settings.collector
        if url is None:
            raise InvalidSetting("collector", "must be the address of the collector, or its role must run here")
        return self._known("collector", HttpCollector(url, self._key(COORDINATOR_TO_COLLECTOR), verify=self._verify))

    def aggregator(self, kind: str) -> AggregatorPort:
        """The aggregator, for whoever holds a key of this kind."""
        if self._services.aggregator is not None:
            return self._services.aggregator
        url = self._settings.aggregator
        if url is None:
            raise InvalidSetting("aggregator", "must be the address of the aggregator, or its role must run here")
        return self._known("aggregator", HttpAggregator(url, self._key(kind), verify=self._verify))

    def batch_taker(self) -> BatchTaker:
        """The aggregator, for the collector, which can run without one: see `_NoAggregator`."""
        settings = self._settings
        if self._services.aggregator is None and settings.aggregator is None and settings.collector is None:
            return _NoAggregator()
        return self.aggregator(COLLECTOR_TO_AGGREGATOR)

    def _known(self, name: str, peer: P) -> P:
        self._stack.callback(peer.disconnect)
        self._services.peers[name] = peer
        return peer

    def _key(self, kind: str) -> str:
        if kind not in self._keys:
            caller, _, called = kind.partition("-to-")
            raise InvalidSetting(
                "peer-key-file",
                f"is missing for the {called}",
                hint=f"Copy {called}/{caller}.key from the {called}'s data directory and name it here.",
            )
        return self._keys[kind]


def _trusted(path: Path) -> ssl.SSLContext:
    try:
        return trusted(path)
    except InvalidSetting as error:
        raise InvalidSetting("tls-ca", "is not a file with certificates that can be read", hint=error.hint) from None


class _NoAggregator:
    """For one of several collectors that share a database: another one forwards."""

    def add_batch(self, round: str, number: int, blob: bytes) -> None:
        """Refuse: no aggregator is known here."""
        raise ServerUnavailable("This collector knows no aggregator.")


def _tokens(services: Services, directory: DataDirectory) -> Tokens:
    store, clock = services.coordinator_store, services.clock
    peers = {
        token_hash(secret.token): Identity(secret.kind, secret.kind)
        for secret in directory.secrets
        if "-to-" in secret.kind
    }
    if store is None:
        # The store of tokens is the coordinator's, on another machine. Here only this server's own operator is known.
        operator = directory.secret("operator").token
        return Tokens(peers | {token_hash(operator): Identity("operator", "operator")})

    def find(hashed: bytes) -> Identity | None:
        token = store.token(hashed)
        return Identity(token.kind, token.name) if token is not None and token.valid(clock.now()) else None

    return Tokens(peers, find)

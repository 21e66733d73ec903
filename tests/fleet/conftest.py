"""Real databases for the fleet's tests: every test that takes `store_url` runs on SQLite and on PostgreSQL."""

import contextlib

import pytest

from thresher.roles.aggregator.store import AggregatorStore
from thresher.roles.collector.store import CollectorStore
from thresher.roles.coordinator.store import CoordinatorStore


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path):
    """Where a role's store can be opened: a directory or an address."""
    if request.param == "sqlite":
        return str(tmp_path / "stores")
    return request.getfixturevalue("postgresql_url")


@pytest.fixture
def collector(store_url):
    """A collector's store."""
    with contextlib.closing(CollectorStore.open(store_url)) as store:
        yield store


@pytest.fixture
def aggregator(store_url):
    """A aggregator's store."""
    with contextlib.closing(AggregatorStore.open(store_url)) as store:
        yield store


@pytest.fixture
def coordinator(store_url):
    """A coordinator's store."""
    with contextlib.closing(CoordinatorStore.open(store_url)) as store:
        yield store

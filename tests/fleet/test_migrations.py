"""A database made by an older Thresher opens with all that is in it; one of a newer or of another role does not."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from store_cases import Handed, accept, check_in

from thresher.errors import InvalidFormat, StoreUnavailable
from thresher.roles.collector.reports import Outcome
from thresher.roles.collector.store import CollectorStore
from thresher.roles.coordinator.store import CoordinatorStore
from thresher.roles.database.database import open_database
from thresher.roles.database.migrations import migrate
from thresher.roles.database.schema import MIGRATIONS

NOW = 1_700_000_000.0
VERSION_1 = Path(__file__).parent / "collector_version_1.sql"
"""A collector's database as version 1 wrote it, with an open round and one report; never edited."""
NEXT = ("CREATE INDEX rounds_by_state ON rounds (state)",)


def raw_database(store_url):
    """The database without any migration."""
    from thresher.roles.database.postgresql import PostgreSQL
    from thresher.roles.database.sqlite import SQLite

    if store_url.startswith("postgresql"):
        return PostgreSQL(store_url, "thresher_collector")
    return SQLite(Path(store_url) / "collector.db")


def load_version_1(store_url):
    database = raw_database(store_url)
    lines = [line for line in VERSION_1.read_text().splitlines() if line and not line.startswith("--")]
    bytes_as = r"'\\x\1'" if store_url.startswith("postgresql") else r"x'\1'"
    with database.transaction() as transaction:
        for statement in "\n".join(lines).split(";\n"):
            transaction.execute(re.sub("x'([0-9a-f]*)'", bytes_as, statement.rstrip(";")))
    return database


def version(database):
    with database.transaction(write=False) as transaction:
        return transaction.fetch("SELECT role, version FROM schema_version")


def test_version_1_opens_with_all_that_is_in_it(store_url):
    load_version_1(store_url).close()
    store = CollectorStore.open(store_url)
    assert version(store._database) == [("collector", len(MIGRATIONS["collector"]))]
    assert store.devices_of([b"\x01\x02"]) == ["d1"]
    [key] = store.enrolment_keys()
    assert (key.id, key.name, key.enrolled, key.devices) == ("k1", "first", 2, None)
    number, [first, *_] = store.devices_of_key("k1", 10)
    assert number == 2 and first.enrolled is None and not first.revoked and key.hourly is None
    progress = store.progress("r1")
    assert (progress.state, progress.asked, progress.contacted, progress.completed) == ("open", 2, 1, 1)
    assert check_in(store, ["d1", "d2"], NOW, lambda _, n: [True] * n) == [[], []]
    again = Handed("r1", "d1", b"sealed report")
    assert accept(store, [again, Handed("r1", "d2", b"sealed report")], NOW) == [
        Outcome.AGAIN,
        Outcome.NOT_CONTACTED,
    ]
    check_in(store, ["d3"], NOW, lambda _, n: [True] * n)
    assert accept(store, [Handed("r1", "d3", b"another sealed")], NOW) == [Outcome.WRONG_SIZE]
    assert accept(store, [Handed("r1", "d3", b"second report")], NOW) == [Outcome.ACCEPTED]
    assert store.revoke_device("d1", NOW)
    store.close_round("r1", NOW)
    assert sorted(report for batch in store.batches("r1", 10) for report in batch) == [
        b"sealed report",
        b"second report",
    ]
    store.close()


def test_migrations_run_once_and_in_order(store_url):
    database = load_version_1(store_url)
    newer = (*MIGRATIONS["collector"], NEXT)
    pending = len(newer) - 1
    assert migrate(database, "collector", newer) == pending
    assert migrate(database, "collector", newer) == 0
    assert version(database) == [("collector", len(newer))]
    with pytest.raises(StoreUnavailable), database.transaction() as transaction:
        transaction.execute(NEXT[0])  # it is there already
    database.close()
    # This Thresher does not know the newer version, and leaves it alone.
    with pytest.raises(InvalidFormat, match="Upgrade"):
        CollectorStore.open(store_url)


def test_a_migration_that_fails_changes_nothing(store_url):
    database = load_version_1(store_url)
    broken = (*MIGRATIONS["collector"], (*NEXT, "CREATE INDEX nonsense ON no_such_table (x)"))
    with pytest.raises(StoreUnavailable):
        migrate(database, "collector", broken)
    assert version(database) == [("collector", 1)]
    assert migrate(database, "collector", (*MIGRATIONS["collector"], NEXT)) >= 1  # the index was not left behind
    database.close()


def test_processes_that_start_together_migrate_once(store_url):
    begun = threading.Barrier(4)

    def start(_):
        begun.wait()
        return CoordinatorStore.open(store_url)

    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(start, range(4)))
    assert {tuple(version(store._database)) for store in stores} == {(("coordinator", len(MIGRATIONS["coordinator"])),)}
    for store in stores:
        store.close()


def test_another_roles_database_is_refused(tmp_path):
    open_database(tmp_path, "aggregator").close()
    (tmp_path / "aggregator.db").rename(tmp_path / "collector.db")
    with pytest.raises(InvalidFormat, match="another role"):
        CollectorStore.open(tmp_path)


def test_roles_share_a_directory_or_database_and_no_table(store_url):
    opened = [open_database(store_url, role) for role in ("collector", "aggregator", "coordinator")]
    for database in opened:
        with database.transaction(write=False) as transaction:
            assert transaction.fetch("SELECT COUNT(*) FROM rounds") == [(0,)]
    assert [version(database)[0][0] for database in opened] == ["collector", "aggregator", "coordinator"]
    for database in opened:
        database.close()

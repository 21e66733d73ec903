"""What is deleted is gone, and a database that fails leaves nothing half-written."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from store_cases import NOW, SIZE, Handed, accept, check_in, everybody, nobody, open_round, sealed

from thresher.errors import StoreUnavailable
from thresher.roles.aggregator.store import AggregatorStore
from thresher.roles.collector.reports import Outcome as O
from thresher.roles.collector.store import CollectorStore
from thresher.roles.coordinator.store import CoordinatorStore


def files_contain(directory, needle):
    return [path.name for path in Path(directory).iterdir() if needle in path.read_bytes()]


@pytest.mark.slow
def test_nothing_of_a_forgotten_round_is_left_in_sqlite_files(tmp_path):
    """Thousands of reports with splits and rebalanced pages, beside rows that stay."""
    store = CollectorStore.open(tmp_path)
    needle = b"needle-" + os.urandom(9)
    open_round(store, "keep")
    open_round(store, "gone", target=3)
    devices = [f"{i}-device" for i in range(3000)]
    for start in range(0, 3000, 250):
        part = devices[start : start + 250]
        check_in(store, part, NOW, everybody)
        accept(store, [Handed("gone", device, needle + os.urandom(SIZE - 16)) for device in part], NOW)
        accept(store, [Handed("keep", device, sealed(device)) for device in part], NOW)
    assert files_contain(tmp_path, needle)  # the test can fail
    assert files_contain(tmp_path, b"1234-device")
    store.close_round("gone", NOW)
    store.mark_forwarded("gone")
    assert files_contain(tmp_path, needle) == []
    store.forget("gone", NOW)
    store.forget("keep", NOW)
    assert files_contain(tmp_path, needle) == []
    assert files_contain(tmp_path, b"1234-device") == [], "who took part is forgotten too"
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.glob("collector.db*"))
    store.close()


def test_nothing_of_deleted_batches_is_left_in_sqlite_files(tmp_path):
    store = AggregatorStore.open(tmp_path)
    needle = b"needle-" + os.urandom(9)
    for number in range(20):
        store.add_batch("r1", number, b"%d" % number, (needle + bytes(96)) * 300)
        store.add_batch("r2", number, b"%d" % number, bytes(100))
    assert files_contain(tmp_path, needle)
    store.store_release("r1", "{}")
    store.forget("r1")
    assert files_contain(tmp_path, needle) == []
    assert store.batch_numbers("r2") == list(range(20))
    store.close()


@pytest.mark.slow
def test_deleting_waits_for_readers_and_is_finished_later(tmp_path, monkeypatch):
    """A reader in another process keeps the old pages alive: deletion is not claimed to be done, and done later."""
    monkeypatch.setattr("thresher.roles.database.sqlite._WAIT", 0.2)
    store = CollectorStore.open(tmp_path)
    open_round(store)
    check_in(store, ["a"], NOW, everybody)
    report = os.urandom(SIZE)
    accept(store, [Handed("r1", "a", report)], NOW)
    reader = CollectorStore.open(tmp_path)
    with reader._database.transaction(write=False) as transaction:
        transaction.fetch("SELECT * FROM rounds")
        with pytest.raises(StoreUnavailable):
            store.forget("r1", NOW)
        assert files_contain(tmp_path, report)
        assert store.rounds_to_forget() == ["r1"]
        assert accept(store, [Handed("r1", "a", report)], NOW) == [O.CLOSED]
    store.forget("r1", NOW)
    assert store.rounds_to_forget() == []
    assert files_contain(tmp_path, report) == []
    for opened in (store, reader):
        opened.close()


def test_postgresql_drops_the_files_of_a_forgotten_round(postgresql_url):
    store = CollectorStore.open(postgresql_url)
    open_round(store)
    with store._database.transaction() as transaction:
        tables = "SELECT COUNT(*) FROM pg_class WHERE relname IN ('contacts_1', 'reports_1', 'sealed_1')"
        assert transaction.fetch(tables) == [(3,)]
    store.forget("r1", NOW)
    with store._database.transaction() as transaction:
        assert transaction.fetch(tables) == [(0,)]
    store.close()


def test_a_full_disk_stores_nothing_and_then_works_again(tmp_path):
    store = CollectorStore.open(tmp_path)
    open_round(store)
    devices = [f"d{i}" for i in range(2000)]
    check_in(store, devices, NOW, everybody)
    accept(store, [Handed("r1", devices[0], sealed("0"))], NOW)
    with store._database.transaction() as transaction:
        [(pages,)] = transaction.fetch("PRAGMA page_count")
        transaction.fetch(f"PRAGMA max_page_count = {pages + 3}")
    reports = [Handed("r1", device, sealed(device)) for device in devices[1:]]
    with pytest.raises(StoreUnavailable, match="no room left"):
        accept(store, reports, NOW)
    progress = store.progress("r1")
    assert progress.completed == 1, "all or nothing"
    # The failed connection, and its limit, are gone: as if room had been made.
    assert set(accept(store, reports, NOW)) == {O.ACCEPTED}
    assert store.close_round("r1", NOW).completed == 2000
    assert sum(map(len, store.batches("r1", 500))) == 2000
    store.close()


def terminate_others(url):
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        [(number,)] = connection.execute(
            "SELECT COUNT(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'thresher'"
        ).fetchall()
    return number


@pytest.mark.slow
def test_a_lost_connection_stores_nothing_and_then_works_again(postgresql_url):
    store = CollectorStore.open(postgresql_url)
    open_round(store)
    lost = []

    def lose_and_toss(numerator, number):
        lost.append(terminate_others(postgresql_url))
        return [True] * number

    with pytest.raises(StoreUnavailable) as caught:
        check_in(store, ["a"], NOW, lose_and_toss)
    assert lost == [1]
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    assert store.progress("r1").asked == 0
    assert check_in(store, ["a"], NOW, nobody) == [[]]
    # A connection that is lost while idle costs nobody anything.
    assert terminate_others(postgresql_url) >= 1
    assert check_in(store, ["b"], NOW, everybody) == [["r1"]]
    assert store.progress("r1").asked == 2
    store.close()


@pytest.mark.slow
def test_one_process_at_a_time_has_claimed_a_database(postgresql_url):
    """A data directory has a lock of its own; a database may be reached from two."""
    first, second = (CoordinatorStore.open(postgresql_url) for _ in range(2))
    first.claim()
    first.claim()
    with pytest.raises(StoreUnavailable, match="another server"):
        second.claim()
    assert second.queries() == []
    terminate_others(postgresql_url)  # as a restart of the database does: the claim is whoever's is quicker
    second.claim()
    with pytest.raises(StoreUnavailable):
        first.claim()
    second.close()
    first.claim()
    first.close()


def test_readers_that_come_together_leave_few_connections_behind(tmp_path):
    """Each has a cache of megabytes: many that were there at once must not be kept for ever."""
    store = CollectorStore.open(tmp_path)
    together = threading.Barrier(40)

    def read():
        with store._database.transaction(write=False) as transaction:
            together.wait(60)
            return transaction.fetch("SELECT 1")

    with ThreadPoolExecutor(40) as threads:
        assert [found.result() for found in [threads.submit(read) for _ in range(40)]] == [[(1,)]] * 40
    assert 1 <= len(store._database._idle[False]) <= 8
    store.close()


def test_an_error_in_between_undoes_the_whole_transaction(collector):
    open_round(collector)

    def broken(numerator, number):
        raise RuntimeError("no coins")

    with pytest.raises(RuntimeError):
        check_in(collector, ["a"], NOW, broken)
    assert collector.progress("r1").asked == 0
    with pytest.raises(StoreUnavailable), collector._database.transaction() as transaction:
        transaction.execute("UPDATE rounds SET target = 99")
        with pytest.raises(StoreUnavailable):
            transaction.execute("SELECT no_such_column FROM rounds")
        # Swallowed: the transaction must not commit its first half all the same.
    assert collector.progress("r1").target is None


def test_no_server_no_directory_and_no_database(tmp_path):
    secret = "hunter2"
    with pytest.raises(StoreUnavailable) as caught:
        CollectorStore.open(f"postgresql://someone:{secret}@127.0.0.1:9/none")
    assert secret not in str(caught.value)
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(StoreUnavailable):
        CollectorStore.open(tmp_path / "file")
    (tmp_path / "collector.db").write_text("not a database " * 100)
    with pytest.raises(StoreUnavailable):
        CollectorStore.open(tmp_path)


def test_opening_a_file_again_keeps_the_locks_of_those_that_have_it_open(tmp_path):
    """Without them, the last connection of another process takes the log of reports away from under this one."""
    first = CollectorStore.open(tmp_path)
    open_round(first, "r1")
    second = CollectorStore.open(tmp_path)
    path = tmp_path / "collector.db"
    read = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('SELECT COUNT(*) FROM rounds').fetchone())"
    other = subprocess.run([sys.executable, "-c", read, path], capture_output=True, text=True, check=True, timeout=60)
    assert other.stdout.strip() == "1"
    assert path.with_name("collector.db-wal").exists()
    for store, device in ((first, "d1"), (second, "d2")):
        check_in(store, [device], NOW, everybody)
        assert accept(store, [Handed("r1", device, sealed(device))], NOW) == [O.ACCEPTED]
        store.close()


@pytest.mark.slow
def test_connections_that_open_a_new_file_together_wait_for_one_another(tmp_path):
    together = 8
    for attempt in range(30):
        begun = threading.Barrier(together)

        def start(directory, begun=begun):
            begun.wait()
            return CollectorStore.open(directory)

        with ThreadPoolExecutor(together) as pool:
            stores = list(pool.map(start, [tmp_path / str(attempt)] * together))
        for store in stores:
            store.close()
        assert [path.name for path in (tmp_path / str(attempt)).iterdir()] == ["collector.db"]

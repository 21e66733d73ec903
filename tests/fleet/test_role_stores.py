"""A data directory stays with its store: a start that names another one, or none, does not run with an empty one."""

from __future__ import annotations

import shutil

import psycopg
import pytest
from server_cases import inside

from thresher.errors import InvalidSetting, StoreUnavailable
from thresher.fleet.server.bookkeeping import rebuild_ledger
from thresher.fleet.server.data_directory import ROLES, DataDirectory
from thresher.fleet.server.role_stores import opened_store
from thresher.fleet.store import CollectorStore


def start(path, **settings):
    """Start a server with all roles, and end it."""
    with inside(path, **settings):
        pass


def test_each_role_finds_its_store_again(tmp_path):
    with inside(tmp_path / "data") as server:
        ids = {role: (server.directory.of(role) / "store.id").read_text() for role in ROLES}
    assert len({id.split()[1] for id in ids.values()}) == 3
    with inside(tmp_path / "data") as server:
        assert {role: (server.directory.of(role) / "store.id").read_text() for role in ROLES} == ids


def test_a_start_without_the_store_that_was_used_is_refused(tmp_path, postgresql_url):
    start(tmp_path / "data", store=postgresql_url)
    with pytest.raises(InvalidSetting, match=r"store is SQLite, and the \w+'s store was PostgreSQL so far") as refused:
        start(tmp_path / "data")
    assert "Name the store as at earlier starts" in refused.value.hint
    assert not list((tmp_path / "data").rglob("*tor.db"))  # no empty store was made
    start(tmp_path / "data", store=postgresql_url)


def test_an_empty_database_in_the_place_of_the_one_that_was_used_is_refused(tmp_path, postgresql_url):
    """As after a slip in the address of the store."""
    start(tmp_path / "data", store=postgresql_url)
    with psycopg.connect(postgresql_url) as connection:
        connection.execute("DROP SCHEMA thresher_coordinator CASCADE")
    with pytest.raises(InvalidSetting, match="not the coordinator's store that this data directory was used with"):
        start(tmp_path / "data", store=postgresql_url)


def test_another_file_is_refused_and_a_copy_is_not(tmp_path):
    for name in ("first", "second"):
        start(tmp_path / name)
    first, second = (tmp_path / name / "collector" / "collector.db" for name in ("first", "second"))
    kept = tmp_path / "backup.db"
    shutil.copy(first, kept)
    shutil.copy(second, first)
    with pytest.raises(InvalidSetting, match="not the collector's store that this data directory was used with"):
        start(tmp_path / "first")
    shutil.copy(kept, first)
    start(tmp_path / "first")
    first.unlink()
    with pytest.raises(InvalidSetting, match=r"store is missing: .*collector\.db"):
        start(tmp_path / "first")
    (tmp_path / "first" / "collector" / "store.id").unlink()  # as the hint says
    start(tmp_path / "first")


def test_a_ledger_is_not_rebuilt_from_another_store(tmp_path, postgresql_url):
    start(tmp_path / "data")
    with pytest.raises(InvalidSetting, match="store is PostgreSQL, and the coordinator's store was SQLite so far"):
        rebuild_ledger(tmp_path / "data", postgresql_url, None, None)


def test_a_directory_from_before_takes_the_store_it_is_opened_with(tmp_path):
    start(tmp_path / "data")
    note = tmp_path / "data" / "collector" / "store.id"
    before = note.read_text()
    note.unlink()
    with inside(tmp_path / "data"):
        assert note.read_text() == before


def test_a_note_that_cannot_be_used_is_said_and_the_store_is_closed(tmp_path):
    with DataDirectory(tmp_path / "data", ["collector"]) as directory:
        (directory.of("collector") / "store.id").mkdir()
        with pytest.raises(StoreUnavailable, match=r"store\.id cannot be read or written") as refused:
            opened_store(directory, "collector", None, CollectorStore.open)
        assert refused.value.lasting

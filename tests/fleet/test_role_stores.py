"""A data directory stays with its store: a start that names another one, or none, does not run with an empty one."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3

import psycopg
import pytest
from psycopg import sql
from server_cases import histogram_request, inside
from typer.testing import CliRunner

from thresher.cli.app import app
from thresher.errors import Conflict, InvalidSetting, StoreUnavailable
from thresher.server.data_directory import ROLES
from thresher.server.server_ledger import FleetBudget, rebuild_ledger


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


def notes(directory):
    return {path.parent.name: path.read_text() for path in sorted(directory.rglob("store.id"))}


def tables(url):
    """Every table and row count of a database."""
    with psycopg.connect(url) as connection:
        names = connection.execute("SELECT schemaname, tablename FROM pg_tables WHERE schemaname LIKE 'thresher_%'")
        return {
            name: connection.execute(sql.SQL("SELECT COUNT(*) FROM {}").format(sql.Identifier(*name))).fetchone()
            for name in names.fetchall()
        }


def refused(path, match, **settings):
    """A start is refused, and leaves the data directory as it was but for its lock."""
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file() and file.suffix != ".db-shm"}
    with pytest.raises(InvalidSetting, match=match) as error:
        start(path, **settings)
    assert {
        file: file.read_bytes() for file in path.rglob("*") if file.is_file() and file.suffix != ".db-shm"
    } == before
    return error.value.hint


@pytest.mark.slow
def test_a_start_without_the_store_that_was_used_is_refused(tmp_path, postgresql_url):
    start(tmp_path / "data", store=postgresql_url)
    hint = refused(tmp_path / "data", r"store is SQLite, and the aggregator's store was PostgreSQL so far")
    assert "Name the store as at earlier starts" in hint and "--adopt-store" in hint
    assert not list((tmp_path / "data").rglob("*tor.db"))  # no empty store was made
    start(tmp_path / "data", store=postgresql_url)


@pytest.mark.slow
def test_a_slip_in_the_address_changes_nothing_in_the_database_that_it_leads_to(tmp_path, postgresql_url):
    start(tmp_path / "data")
    for file in (tmp_path / "data").rglob("store.id"):  # as if the store had been another PostgreSQL
        file.write_text(file.read_text().replace("SQLite", "PostgreSQL"))
    refused(tmp_path / "data", "store is empty", store=postgresql_url)
    assert tables(postgresql_url) == {}
    start(tmp_path / "other", store=postgresql_url)
    before = tables(postgresql_url)
    refused(tmp_path / "data", "not the aggregator's store", store=postgresql_url)
    assert tables(postgresql_url) == before


@pytest.mark.slow
def test_a_store_that_another_version_made_is_not_migrated_by_a_start_that_is_refused(tmp_path, postgresql_url):
    """Its own server would refuse it afterwards, as made by a newer version."""
    start(tmp_path / "data", store=postgresql_url)
    with psycopg.connect(postgresql_url) as connection:
        connection.execute("DROP TABLE thresher_collector.store_id")
        connection.execute("UPDATE thresher_collector.schema_version SET version = 1")
    hint = refused(tmp_path / "data", "store has no id", store=postgresql_url)
    assert "older backup" in hint
    with psycopg.connect(postgresql_url) as connection:
        assert connection.execute("SELECT version FROM thresher_collector.schema_version").fetchone() == (1,)


@pytest.mark.slow
def test_another_file_is_refused_and_a_copy_is_not(tmp_path):
    for name in ("first", "second"):
        start(tmp_path / name)
    first, second = (tmp_path / name / "collector" / "collector.db" for name in ("first", "second"))
    kept = tmp_path / "backup.db"
    shutil.copy(first, kept)
    shutil.copy(second, first)
    refused(tmp_path / "first", "not the collector's store that this data directory was used with")
    shutil.copy(kept, first)
    start(tmp_path / "first")
    first.write_bytes(b"")
    refused(tmp_path / "first", r"store is missing: .*collector\.db")
    first.unlink()
    refused(tmp_path / "first", r"store is missing: .*collector\.db")


def test_a_backup_from_before_ids_were_kept_is_adopted_when_it_is_said(tmp_path):
    start(tmp_path / "data")
    path, before = tmp_path / "data" / "coordinator" / "coordinator.db", notes(tmp_path / "data")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE store_id")
    refused(tmp_path / "data", "store has no id")
    start(tmp_path / "data", adopt_store=True)
    after = notes(tmp_path / "data")
    assert after["coordinator"] != before["coordinator"] and after["collector"] == before["collector"]
    start(tmp_path / "data")


@pytest.mark.slow
def test_a_directory_from_before_takes_a_store_that_is_not_empty(tmp_path, postgresql_url):
    start(tmp_path / "data", store=postgresql_url)
    before = notes(tmp_path / "data")
    for file in (tmp_path / "data").rglob("store.id"):
        file.unlink()
    refused(tmp_path / "data", "store is empty, and this data directory was used with a store of the aggregator")
    start(tmp_path / "data", store=postgresql_url)
    assert notes(tmp_path / "data") == before


def test_a_ledger_in_a_new_directory_does_not_make_it_an_old_one(tmp_path):
    """Whoever has lost a store keeps what was spent in this way."""
    start(tmp_path / "old")
    (tmp_path / "new" / "coordinator").mkdir(parents=True, mode=0o700)
    (tmp_path / "new").chmod(0o700)
    shutil.copy(tmp_path / "old" / "coordinator" / "ledger.db", tmp_path / "new" / "coordinator")
    start(tmp_path / "new")


def test_a_start_that_fails_binds_nothing(tmp_path):
    with (
        pytest.raises(InvalidSetting, match="peer-key-file"),
        inside(tmp_path / "data", "collector", aggregator="http://127.0.0.1:1"),
    ):
        pass
    assert notes(tmp_path / "data") == {}


@pytest.mark.slow
def test_a_directory_without_the_ledger_lets_nobody_into_the_store(tmp_path, postgresql_url):
    """After a slip in the name of the data directory, its new tokens must not open what is in the store."""
    with inside(tmp_path / "data", store=postgresql_url) as server:
        server.enrol()
        answer = server.ask("POST", "/v1/queries", server.token("analyst"), json=histogram_request())
        assert answer.status_code in (200, 201)
    before = tables(postgresql_url)
    with pytest.raises(Conflict, match="is missing, and this store has queries that were charged"):
        start(tmp_path / "dota", store=postgresql_url)
    assert tables(postgresql_url) == before
    assert notes(tmp_path / "dota") == {}


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["", " ", "SQLite", "Oracle " + "0" * 32, "SQLite x"])
def test_a_damaged_note_is_not_taken_for_none(tmp_path, damage):
    start(tmp_path / "data")
    (tmp_path / "data" / "collector" / "store.id").write_text(damage)
    hint = refused(tmp_path / "data", r"damaged .*store\.id")
    assert "--adopt-store" in hint
    start(tmp_path / "data", adopt_store=True)
    start(tmp_path / "data")


def test_a_note_that_cannot_be_read_is_said(tmp_path):
    start(tmp_path / "data")
    note = tmp_path / "data" / "collector" / "store.id"
    note.unlink()
    note.mkdir()
    with pytest.raises(StoreUnavailable, match=r"store\.id cannot be read or written") as error:
        start(tmp_path / "data")
    assert error.value.lasting


def test_files_that_are_no_database_are_not_waited_for(tmp_path):
    start(tmp_path / "data")
    (tmp_path / "data" / "collector" / "collector.db").write_text("no database " * 1000)
    with pytest.raises(StoreUnavailable, match="NOTADB") as error:
        start(tmp_path / "data")
    assert error.value.lasting and "Restore it from a backup" in error.value.hint


@pytest.mark.slow
def test_a_ledger_is_rebuilt_from_its_own_store_only(tmp_path, postgresql_url):
    start(tmp_path / "data")
    with pytest.raises(InvalidSetting, match="store is empty or missing"):
        rebuild_ledger(tmp_path / "data", postgresql_url, FleetBudget())
    start(tmp_path / "other", store=postgresql_url)
    with pytest.raises(InvalidSetting, match="store is PostgreSQL, and the coordinator's store was SQLite so far"):
        rebuild_ledger(tmp_path / "data", postgresql_url, FleetBudget())
    _, rebuilt = rebuild_ledger(tmp_path / "data", postgresql_url, FleetBudget(), adopt_store=True)
    assert (rebuilt.entered, rebuilt.forgotten) == (0, 0)
    assert notes(tmp_path / "data")["coordinator"].startswith("PostgreSQL ")


def test_a_demo_has_no_store_of_anybody(monkeypatch):
    """Three thousand simulated devices enrolled in whatever database the environment named."""
    monkeypatch.setenv("THRESHER_STORE", "postgresql://nobody@127.0.0.1:1/none")
    said = CliRunner().invoke(app, ["serve", "--demo"])
    assert isinstance(said.exception, InvalidSetting) and "unset THRESHER_STORE" in said.exception.hint

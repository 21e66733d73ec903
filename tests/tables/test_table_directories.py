"""The directories into which rows go that do not fit in memory: private, in the hands of one process, and removed."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from table_cases import counted

from thresher.private_directory import PrivateDirectory
from thresher.questions import Values
from thresher.tables import Table, duckdb_connection

ROWS = pa.table({"word": ["a"] * 5 + ["b"] * 3})
WORD = Values(("word",))
SPILLING = """
    SET memory_limit = '60MB'; SET threads = 1;
    CREATE TABLE large AS SELECT range AS a, range || repeat('x', 100) AS b FROM range(1000000)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files are, for this process and those that it starts."""
    duckdb_connection.close_idle()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield tmp_path
    duckdb_connection.close_idle()


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)


def test_a_kept_database_without_its_directory_is_not_used_again(folder: Path) -> None:
    with Table(ROWS) as table:
        assert counted(table, WORD) == {"a": 5, "b": 3}
    (kept,) = duckdb_connection._IDLE
    for change in (shutil.rmtree, lambda path: path.chmod(0o755)):
        (kept,) = duckdb_connection._IDLE
        change(kept._directory.path)
        connection = duckdb_connection.connect()
        assert duckdb_connection._USED[connection] is not kept
        assert duckdb_connection._USED[connection].intact
        duckdb_connection.disconnect(connection)


@pytest.mark.parametrize("broken", ["directory", "query"])
def test_closing_never_loses_a_count(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    connection = duckdb_connection.connect()
    for path in folder.iterdir() if broken == "directory" else ():
        shutil.rmtree(path)
    monkeypatch.setattr(duckdb_connection, "_LEFT", "SELECT canary" if broken == "query" else duckdb_connection._LEFT)
    with caplog.at_level(logging.WARNING, "thresher.tables"):
        duckdb_connection.disconnect(connection)
    assert duckdb_connection._IDLE == []
    assert ("BinderException" in caplog.text) == (broken == "query")
    assert "canary" not in caplog.text
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_rows_on_disk_are_for_their_owner_alone(folder: Path) -> None:
    connection = duckdb_connection.connect()
    connection.execute(SPILLING)
    (private,) = folder.iterdir()
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert any((private / "spilled").iterdir())
    duckdb_connection.disconnect(connection)
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_a_directory_that_somebody_removed_is_not_made_anew(folder: Path) -> None:
    connection = duckdb_connection.connect()
    for path in folder.iterdir():
        shutil.rmtree(path)
    with pytest.raises(duckdb.IOException):
        connection.execute(SPILLING)
    assert list(folder.iterdir()) == []
    duckdb_connection.disconnect(connection)


FORK = """
import os, sys, pyarrow as pa
from pathlib import Path
from thresher.questions import Values
from thresher.tables import Table, duckdb_connection

table = Table(pa.table({"word": ["a"] * 5}).to_reader())
other = Table(pa.table({"word": ["a"] * 5}))
assert len(table._tally(Values(("word",)))[1]) == 1
kept = [database._directory.path for database in duckdb_connection._USED.values()]
assert len(kept) == 2
if os.fork() == 0:
    other.close()
    del other
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
assert all(path.exists() for path in kept)
assert len(table._tally(Values(("word",)))[1]) == 1
table.close()
other.close()
duckdb_connection.close_idle()
assert not any(path.exists() for path in kept)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
def test_a_fork_leaves_everything_to_its_parent(folder: Path) -> None:
    done = run(FORK)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)"])
def test_what_a_killed_process_left_is_removed(folder: Path, ending: str) -> None:
    code = f"import os\nfrom thresher.private_directory import PrivateDirectory\nheld = PrivateDirectory()\n{ending}"
    run(code)
    (left,) = folder.iterdir()
    (left / "rows").write_text("canary")
    others = [folder / "thresher-rows-open", folder / "thresher-other"]
    for other, mode in zip(others, (0o755, 0o700), strict=True):
        other.mkdir()
        other.chmod(mode)
    with PrivateDirectory() as made, PrivateDirectory() as second:
        assert sorted(folder.iterdir()) == sorted([made, second, *others])
    assert sorted(folder.iterdir()) == sorted(others)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
def test_a_directory_in_use_is_not_removed(folder: Path) -> None:
    """Neither while its process runs, nor while a fork of it does."""
    code = """
import os, sys, time
from thresher.private_directory import PrivateDirectory
held = PrivateDirectory()
if os.fork() == 0:
    print("ready", flush=True)
    time.sleep(100)
else:
    os.kill(os.getpid(), 9)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.wait()
        try:
            (left,) = folder.iterdir()
            with PrivateDirectory():
                assert left.exists()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    deadline: Any = iter(range(100))
    while left.exists() and next(deadline) is not None:
        with PrivateDirectory():
            pass
    assert list(folder.iterdir()) == []

"""Files are written whole, through links, and never in the place of anything but a regular file."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import thresher as th
from thresher.cli.app import app
from thresher.device.state import FileState
from thresher.errors import InvalidSetting
from thresher.files import file_target, write_whole


def directory(path: Path) -> None:
    path.mkdir()


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(os.path.relpath(path))  # a path to bind to may be no longer than a hundred bytes


def device(path: Path) -> None:
    path.symlink_to(os.devnull)


def loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.fixture(params=[directory, os.mkfifo, listening, device, loop], ids=lambda make: make.__name__)
def taken(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path at which something stands that is not a regular file."""
    monkeypatch.chdir(tmp_path)
    make: Callable[[Path], object] = request.param
    make(tmp_path / "taken.svg")
    return tmp_path / "taken.svg"


def test_only_regular_files_are_replaced(taken: Path) -> None:
    before = taken.lstat()
    release = th.mechanism.sample_and_threshold({"a": 1000}, th.plan(1, 1e-8))
    for write in (
        lambda: write_whole(taken, "text"),
        lambda: release.save(taken),
        lambda: release.plot(taken),
        lambda: FileState(taken),
    ):
        with pytest.raises(InvalidSetting, match=r"taken\.svg"):
            write()
    after = taken.lstat()
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    assert [path.name for path in taken.parent.iterdir()] == ["taken.svg"]
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--output", "--plot"])
def test_the_command_refuses_before_it_spends(taken: Path, option: str, tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_text("word\n" + "a\n" * 1000)
    ledger = th.Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-6)
    asked = ["histogram", str(data), "--column", "word", "--epsilon", "1", "--delta", "1e-8"]
    result = CliRunner().invoke(app, [*asked, "--ledger", str(ledger.path), option, str(taken)])
    assert isinstance(result.exception, InvalidSetting)
    assert result.exception.setting == option.removeprefix("--")
    assert ledger.history() == []


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name, there in (("old", True), ("new", False)):
        target, link = tmp_path / "real" / name, tmp_path / name
        if there:
            target.write_text("before")
        link.symlink_to(target)
        write_whole(link, "after")
        assert link.is_symlink() and target.read_text() == "after"
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["new", "new", "old", "old", "real"]


def test_a_new_file_is_where_it_was_asked_for(tmp_path: Path) -> None:
    assert file_target(tmp_path / "missing" / "file") == tmp_path.resolve() / "missing" / "file"
    write_whole(tmp_path / "file", "text")
    assert (tmp_path / "file").read_text() == "text"

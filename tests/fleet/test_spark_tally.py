"""The tally on Spark, on a Spark of its own: a process has one, and whether it encrypts is set at its start."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import fleet_server
import pytest
from aggregation_cases import configuration, response, sealed
from spark_tally_cases import DEFAULTS

from thresher.errors import InvalidSetting, StoreUnavailable
from thresher.protocol.sealing import PrivateKey
from thresher.roles.aggregator.round_drawing import LocalDrawing
from thresher.roles.aggregator.spark_drawing import SparkDrawing
from thresher.server.assembly import Settings, assembled
from thresher.server.data_directory import DataDirectory

KEY_FILES = {"enrolment-key": "enrolment.key", "analyst-key": "analyst.token"}


@pytest.mark.slow
def test_the_tally_on_spark() -> None:
    cases = Path(__file__).with_name("spark_tally_cases.py")
    command = [sys.executable, "-m", "pytest", str(cases), "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "[100%]" in done.stdout


@pytest.mark.slow
def test_the_command_draws_a_round_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`thresher serve --spark` and `thresher simulate`, as one would type them, but for the size from which it is used.

    Bounds are 6.5 standard deviations of a binomial.
    """
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(
        fleet_server,
        "_BOOT",
        "from thresher.roles.aggregator.round_drawing import LocalDrawing\n"
        "from thresher.roles.aggregator.spark_drawing import SparkDrawing\n"
        "LocalDrawing.draw = None\n"
        "SparkDrawing.__init__.__kwdefaults__['at_least'] = 0\n" + fleet_server._BOOT,
    )
    (tmp_path / "words.txt").write_text("tea\ncoffee\n")
    with fleet_server.started(tmp_path / "data", "--spark", "local[1]", forked=False) as server:
        keys = [f"--{name}-file={server.data_dir / file}" for name, file in KEY_FILES.items()]
        asked = [*keys, "--devices=400", f"--values={tmp_path / 'words.txt'}", "--epsilon=4", "--delta=1e-7", "--json"]
        faults = ["--duplicates=0.1", "--retries=0.1", "--dropouts=0.05"]
        command = [sys.executable, "-m", "thresher", "simulate", "--server", server.url, *asked, *faults]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr + server.output
        found = json.loads(done.stdout)
        compared = found["comparison"]
        assert found["reports_accepted"] == compared["rounds"][0]["completed"] == 380
        assert (compared["released"], compared["invented"], found["unexpected"]) == (2, 0, [])
        rate = compared["plan"]["sampling_rate"]
        for line in compared["lines"]:
            deviation = (line["truth"] * ((1 - rate) / rate + 0.05)) ** 0.5
            assert abs(line["estimate"] - line["truth"]) < 6.5 * deviation
        assert list((server.data_dir / "aggregator" / "batches").iterdir()) == []
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"spark": "localhost:7077"}, "spark must be a master"),
        ({"spark": "local[2]", "roles": ("collector",)}, "spark is for the aggregator"),
        ({"batches": Path("folder")}, "batches"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path: Path, settings: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSetting, match=named):
        Settings(data_dir=tmp_path, **settings)


def test_a_folder_that_spark_would_take_for_a_pattern_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="batches"):
        SparkDrawing("local", tmp_path / "day-*", LocalDrawing(1))


@pytest.mark.parametrize("named", [True, False], ids=["named", "default"])
def test_a_server_starts_without_spark_and_clears_the_folder(tmp_path: Path, named: bool) -> None:
    """Spark is started by the first round that needs it; a start only deletes what the last end left."""
    folder = tmp_path / "shared" if named else tmp_path / "data" / "aggregator" / "batches"
    settings = Settings(data_dir=tmp_path / "data", roles=("aggregator",), spark="spark://nowhere:7077")
    settings = replace(settings, batches=folder if named else None)
    for _ in range(2):
        with DataDirectory(settings.data_dir, settings.roles) as directory, assembled(settings, directory):
            assert list(folder.iterdir()) == []
        (folder / "thresher-round-1.parquet").write_bytes(b"x" * 3_000_000)


def test_a_folder_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    key = PrivateKey.generate("key")
    config = configuration(key.public)
    drawing = SparkDrawing("local", tmp_path / "file" / "batches", LocalDrawing(1), at_least=1)
    with pytest.raises(StoreUnavailable):
        drawing.recover()
    blob = b"".join(sealed(config, ["a"] * 3))
    with pytest.raises(StoreUnavailable):
        drawing.draw(config, key, lambda: [blob], 3, response(config, 3))

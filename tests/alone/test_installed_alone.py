"""`thresher-device`: the device installed by itself, from its wheel, in front of a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import thresher as th
from thresher.device.policy import DEFAULT_TABLE
from thresher.simulator.local_server import local_server

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "docs" / "protocol" / "vectors" / "policies.json"
MOST = 40 << 20

pytestmark = pytest.mark.slow


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def made_wheel(folder: Path) -> Path:
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT / "clients" / "python"))
    [made] = folder.glob("thresher_device-*.whl")
    return made


def install(wheel: Path, folder: Path) -> None:
    """Put the wheel and what it needs into a folder, and nothing else."""
    pip("install", "--target", str(folder), str(wheel))


def said_there(installed: Path, state: Path) -> dict:
    """What the script says that runs there."""
    with (
        local_server("--budget-epsilon=20", "--budget-delta=0.01") as server,
        th.Fleet(server.url, server.analyst_key) as fleet,
    ):
        th.histogram(fleet, "word", epsilon=1, delta=1e-8, wait=False)
        th.histogram(fleet, "word", epsilon=5, delta=1e-4, wait=False)
        script = Path(__file__).with_name("device_alone.py")
        arguments = [server.url, server.enrolment_key, str(state), str(VECTORS), str(DEFAULT_TABLE)]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(installed)}
        done = subprocess.run(
            [sys.executable, "-S", str(script), *arguments],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def is_small(installed):
    size = sum(path.stat().st_size for path in installed.rglob("*") if path.is_file())
    assert size < MOST
    assert size > MOST // 10  # what is measured is there


def is_the_same_class_from_the_same_files(wheel, said, installed):
    assert said["device"] == f"{th.Device.__module__}.{th.Device.__qualname__}"
    assert said["where"] == str(installed / "thresher")
    source = Path(th.__file__).parent
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("thresher/") and not name.endswith("LICENSE"):
                assert archive.read(name) == (source / Path(name).relative_to("thresher")).read_bytes()


def has_every_module_that_is_used_and_no_other(wheel, said):
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if name.startswith("thresher/") and name.endswith(".py")}
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files}
    assert modules == set(said["modules"])


def loads_nothing_heavy(said):
    assert said["heavy"] == []
    assert said["first"] == ["thresher", "thresher._version", "thresher.errors"]


def answers_a_real_server_by_its_policy(said):
    assert sorted(said["outcomes"], key=str) == [["refused", "limit"], ["taken", None]]


def decides_by_the_vectors(said):
    assert said["decided"] > 100


def says_what_it_does_not_have(said):
    assert said["refusals"] == [
        "thresher.histogram is not there: only the device is installed. Run: pip uninstall thresher-device, then pip "
        "install thresher",
        "thresher.privacy.plan is not there: only the device is installed. Run: pip uninstall thresher-device, then "
        "pip install thresher",
        "policy has other bounds than the default, and no table. Compile it where thresher is installed "
        "(thresher policy compile), and read the file: Policy.from_file.",
    ]


def test_the_device_installed_alone(tmp_path):
    """One test, since everything needs the same installation."""
    wheel, installed = made_wheel(tmp_path / "wheel"), tmp_path / "installed"
    install(wheel, installed)
    is_small(installed)
    said = said_there(installed, tmp_path / "device.json")
    is_the_same_class_from_the_same_files(wheel, said, installed)
    has_every_module_that_is_used_and_no_other(wheel, said)
    loads_nothing_heavy(said)
    answers_a_real_server_by_its_policy(said)
    decides_by_the_vectors(said)
    says_what_it_does_not_have(said)

"""The worked example runs as people run it, and its page shows what it writes."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "flights.py"


@pytest.mark.slow
def test_the_five_verbs_on_flights(tmp_path: Path) -> None:
    ledger = tmp_path / "out" / "flights" / "privacy.db"
    ledger.parent.mkdir(parents=True)
    ledger.write_text("what an earlier run left")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80"}
    ran = subprocess.run([sys.executable, EXAMPLE], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    places = [ran.stdout.index(label) for label in ("-60 to under -30", "0 to under 30", "270 to under 300")]
    assert places == sorted(places)
    assert "below threshold" in ran.stdout  # three flights left more than half an hour early
    assert "more histograms" in ran.stdout
    pictures = {path.name for path in ledger.parent.glob("*.svg")}
    assert pictures == set(re.findall(r"images/flights-([a-z]+\.svg)", (ROOT / "docs" / "flights.md").read_text()))
    assert all((ROOT / "docs" / "images" / f"flights-{name}").is_file() for name in pictures)


def test_a_missing_package_is_named() -> None:
    flights = runpy.run_path(str(EXAMPLE))["flights"]
    with pytest.raises(SystemExit, match="pip install no_such_package"):
        flights("no_such_package")

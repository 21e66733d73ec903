"""What data is, is told by its type: a frame may have columns of any name."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from table_cases import Maker

import thresher as th
from thresher.errors import InvalidSetting
from thresher.tables import Table
from thresher.verbs import QueryTaker

PLAN = th.Plan(0.5, 20, 1.0, 1e-3)


@pytest.mark.slow
def test_columns_called_ask_and_submit_are_columns(engine: Maker) -> None:
    frame = engine(pa.table({"ask": ["yes"] * 3000, "submit": list(range(3000)), "check": [1] * 3000}))
    assert [row.bucket for row in th.histogram(frame, "ask", plan=PLAN, unit="submit")] == ["yes"]


def test_what_only_looks_like_a_population_is_refused() -> None:
    class Alike:
        def ask(self, question: Any, plan: Any) -> Any:
            raise AssertionError("asked")

        def submit(self, query: Any, **settings: Any) -> Any:
            raise AssertionError("submitted")

    with pytest.raises(InvalidSetting, match=r"subclass of Population"):
        th.histogram(Alike(), "x", plan=PLAN)


def test_a_registered_class_is_a_population() -> None:
    class Elsewhere:
        def ask(self, question: Any, plan: Any) -> Any:
            return th.mechanism.sample_and_threshold({"a": 10_000}, plan, columns=question.columns)

    th.Population.register(Elsewhere)
    assert th.histogram(Elsewhere(), "letter", plan=PLAN)["a"].estimate > 0


def test_tables_are_populations_and_fleets_take_queries() -> None:
    assert issubclass(Table, th.Population)
    assert issubclass(th.Fleet, QueryTaker)
    assert not issubclass(th.Fleet, th.Population)


@pytest.mark.slow
def test_verbs_recognise_a_fleet_without_importing_fleets() -> None:
    code = "import sys, thresher as th; th.histogram(['a'], 'value', epsilon=1, delta=1e-8); " + (
        "print([name for name in sys.modules if name.startswith(('thresher.client', 'thresher.protocol'))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_table_of_the_callers_is_checked_before_it_is_charged(tmp_path: Any) -> None:
    ledger = th.Ledger(tmp_path / "ledger.db", epsilon=5, delta=1e-2)
    with Table(pa.table({"x": [1] * 3000})) as table:
        with pytest.raises(InvalidSetting, match="not in the data"):
            th.histogram(table, "y", plan=PLAN, ledger=ledger)
        with pytest.raises(InvalidSetting, match="domain"):
            th.histogram(table, "x", plan=PLAN, ledger=ledger, domain=["one"])
        with pytest.raises(InvalidSetting, match="domain has a bucket that no value of column 'x'"):
            th.histogram(table, "x", plan=PLAN, ledger=ledger, bins=[0, 1, 2], domain=[0, 2])
        with pytest.raises(InvalidSetting, match="unit must be the name of one column"):
            th.histogram(pa.table({"x": [1]}), "x", plan=PLAN, ledger=ledger, unit=["x"])
        assert ledger.history() == []
        answer = th.histogram(table, "x", plan=PLAN, ledger=ledger, domain=["1", "2"])  # text, as lines of a file are
        assert answer[1].estimate > 0
        assert len(ledger.history()) == 1
        th.histogram(table, "x", plan=PLAN, ledger=ledger)
        assert len(ledger.history()) == 2

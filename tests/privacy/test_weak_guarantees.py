"""An epsilon above 10 or a delta of 1/1000 or more draws one warning, at the line that asked for it."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import thresher as th
from thresher.privacy.planner import make_plan
from thresher.privacy.weak_guarantees import weakness

pytestmark = pytest.mark.filterwarnings("always::thresher.errors.WeakGuarantee")


def test_the_limits() -> None:
    assert weakness(10, 0.00099) == ""
    assert "epsilon = 10.5 is above 10" in weakness(10.5, 1e-8)
    assert "delta" not in weakness(10.5, 1e-8)
    assert "delta = 0.001 is 1/1000 or more" in weakness(1, 0.001)
    assert "1 in 100 " in weakness(1, 0.01)
    both = weakness(12, 0.5)
    assert "epsilon = 12" in both and "delta = 0.5" in both


def test_one_warning_a_call_at_the_callers_line(tmp_path: Path) -> None:
    weak = make_plan(12, 0.01)
    calls = (
        lambda: th.plan(12, 0.01),
        lambda: th.plan(sampling_rate=0.5, threshold=20, epsilon=12, delta=0.5),
        lambda: th.histogram(["a"], "value", epsilon=12, delta=0.01),
        lambda: th.histogram(["a"], "value", plan=weak),
        lambda: th.Ledger(tmp_path / "ledger.db", epsilon=12, delta=0.01),
        lambda: th.Ledger(tmp_path / "ledger.db").enlarge(13),
    )
    for call in calls:
        with pytest.warns(th.WeakGuarantee) as said:
            call()
        assert [each.filename for each in said] == [__file__]
        assert 'warnings.simplefilter("ignore", thresher.WeakGuarantee)' in str(said[0].message)


@pytest.mark.slow
def test_what_is_usual_draws_none(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = th.plan(10, 1e-4, rounds=50)
        th.histogram(["a"], "value", epsilon=1, delta=1e-6)
        th.Ledger(tmp_path / "ledger.db", epsilon=10, delta=1e-4).plan(queries=3)
        assert plan.rounds == 50  # the total counts, not each round's part


@pytest.mark.slow
def test_the_warning_comes_before_the_charge_and_can_be_switched_off(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", th.WeakGuarantee)
        ledger = th.Ledger(tmp_path / "ledger.db", epsilon=50, delta=0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("error", th.WeakGuarantee)
            with pytest.raises(th.WeakGuarantee):
                th.histogram(["a"], "value", epsilon=12, delta=0.01, ledger=ledger)
        assert ledger.history() == []
        th.histogram(["a"], "value", epsilon=12, delta=0.01, ledger=ledger)
        assert len(ledger.history()) == 1

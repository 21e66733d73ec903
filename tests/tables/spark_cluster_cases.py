"""Spark on a cluster of its own. Run by `test_table_spark_cluster.py`, in a process of its own."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aggregation_cases import configuration, response, sealed
from spark_cluster import QUICK, Cluster, bare_python, started
from table_cases import counted

import thresher as th
from thresher.errors import ServerUnavailable
from thresher.mechanism import Release
from thresher.questions import Joint, Values
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.aggregator.keys import KeyRing
from thresher.roles.aggregator.round_drawing import LocalDrawing
from thresher.roles.aggregator.spark_drawing import SparkDrawing
from thresher.roles.aggregator.spark_workers import NoWorker
from thresher.roles.aggregator.store import AggregatorStore
from thresher.tables import Table, spark_engine

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
PLAN = th.Plan(0.5, 20, 1.0, 1e-3)
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    tests = Path(__file__).parents[1]
    path = [str(tests / "tables"), str(tests / "fleet"), os.environ.get("PYTHONPATH", "")]
    with started(tmp_path_factory.mktemp("cluster"), SETTINGS, os.pathsep.join(filter(None, path))) as made:
        yield made


@pytest.fixture(scope="module")
def session(cluster: Cluster) -> Iterator[Any]:
    """A classic session, whose driver also serves Spark Connect."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    serving = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(port),
    }
    made = SparkSession.builder.master(cluster.master).config(map=serving).getOrCreate()
    made.connect_port = port
    yield made
    if SparkContext._active_spark_context is made.sparkContext:
        made.stop()


@pytest.fixture(scope="module")
def connect(session: Any) -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    made = SparkSession.builder.remote(f"sc://localhost:{session.connect_port}").create()
    yield made
    made.client.close()


@pytest.fixture(params=["classic", "connect"])
def door(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("session" if request.param == "classic" else "connect")


def people(session: Any) -> Any:
    """4,000 rows of 2,000 people, with words, numbers and days; what a person holds follows from who it is."""
    return session.range(0, 4000, 1, 4).selectExpr(
        "concat('p', id % 2000) AS person",
        "concat('é', id % 2) AS word",
        "CAST(id % 2000 AS double) / 20 AS number",
        "id % 5 AS digit",
    )


def test_histograms(door: Any) -> None:
    """Bounds are 6.5 standard deviations of a binomial: each fails once in 10^10 runs."""
    frame = people(door)
    found = th.histogram(frame, "word", plan=PLAN, unit="person")
    assert sorted(row.bucket for row in found) == ["é0", "é1"]
    assert all(abs(row.estimate - 1000) < 6.5 * 1000**0.5 for row in found)
    assert sorted(row.bucket for row in th.histogram(frame, ["word", "digit"], plan=PLAN)) == [
        (word, digit) for word in ("é0", "é1") for digit in range(5)
    ]
    several = th.histogram(frame, "digit", epsilon=4, delta=1e-3, unit="person", contributions=2)
    assert sorted(row.bucket for row in several) == list(range(5))


def test_every_other_verb(connect: Any) -> None:
    """Bounds are 6.5 standard deviations of a binomial, or more. Rounds of both doors are the same from here on."""
    frame = people(connect)
    trie = th.heavy_hitters(frame, "word", method="trie", epsilon=4, delta=1e-3, unit="person")
    assert sorted(row.item for row in trie) == ["é0", "é1"]
    bounds: dict[str, Any] = {"lower": 0, "upper": 100, "epsilon": 4, "delta": 1e-3, "unit": "person"}
    assert 35 < th.quantiles(frame, "number", [0.5], **bounds)[0.5].value < 65
    assert 700 < th.ranges(frame, "number", **bounds).count(0, 50).estimate < 1300
    assert 40 < th.mean(frame, "number", **bounds).estimate < 60


def test_workers_thin_what_a_driver_cannot_hold(door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    thinned: list[pa.Table] = []
    original = spark_engine.SparkRows.thinned

    def watched(self: Any, *arguments: Any) -> pa.Table:
        thinned.append(original(self, *arguments))
        return thinned[-1]

    monkeypatch.setattr(spark_engine.SparkRows, "thinned", watched)
    release = Table(people(door), driver_limit=3).ask(Joint((Values(("word",)), Values(("digit",)))), PLAN)
    release.verify()
    assert release.private
    assert [table.num_rows for table in thinned] == [len(release)] == [10]
    assert all(abs(count - 200) < 6.5 * 10 for count in release.counts)  # Binomial(400, 1/2)


def test_a_worker_killed_in_the_middle_changes_no_answer(cluster: Cluster, session: Any) -> None:
    """Rows come from a shuffle, in another order each time; what the dead worker had is computed again elsewhere."""
    slow = "substr(CASE WHEN id % 500 = 0 THEN reflect('java.lang.Thread', 'sleep', 500L) ELSE '' END, 1, 0)"
    shuffled = session.range(0, 4000, 1, 3).repartition(8, "id")
    frame = shuffled.selectExpr("id % 2000 AS person", f"concat('w', id % 5, {slow}) AS word", "id DIV 2000 AS half")
    tracker = session.sparkContext.statusTracker()
    killed: list[bool] = []

    def kill() -> None:
        while not killed:
            for stage in tracker.getActiveStageIds():
                seen = tracker.getStageInfo(stage)
                if seen and seen.numTasks == 8 and 3 <= seen.numCompletedTasks < 8:
                    cluster.kill_worker()
                    killed.append(True)
                    return
            time.sleep(0.02)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with Table(frame, unit="person", driver_limit=3) as table:
        release = table.ask(Values(("word",)), PLAN)
        killer.join(1)
        assert killed == [True]
        assert len(release) == 5
        assert all(abs(count - 200) < 6.5 * 10 for count in release.counts)  # Binomial(400, 1/2)
        assert counted(table, Values(("word",))) == {f"w{digit}": 400 for digit in range(5)}
        chosen = counted(table, Values(("half",)))  # each person has one row in each
        assert sum(chosen.values()) == 2000
        assert abs(chosen[0] - 1000) < 6.5 * 500**0.5
    cluster.add_worker()


def test_the_aggregator_draws_a_round_on_it(
    cluster: Cluster, session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test: a process has one Spark, and the aggregator's has settings of its own."""
    from pyspark import SparkContext

    session.stop()
    store = AggregatorStore.open(tmp_path / "data")
    keys = KeyRing(tmp_path / "keys")
    drawing = SparkDrawing(cluster.master, tmp_path / "batches", LocalDrawing(1), at_least=20)
    aggregator = Aggregator(store, keys, drawing)
    aggregator.recover()
    config = configuration(keys.current())
    words = ["a"] * 12 + ["b"] * 5 + ["c"] * 2
    reports = sealed(config, [*words, *[None] * 30])
    aggregator.add_batch(config.round, 0, b"".join(reports))
    asked = response(config, len(reports))

    site = Path(pa.__file__).parents[1]
    bare = bare_python(tmp_path / "bare", {name: site / name for name in ("pyspark", "py4j")})
    with monkeypatch.context() as without:
        without.setenv("PYSPARK_PYTHON", bare)
        written: list[object] = []
        without.setattr("thresher.roles.aggregator.spark_drawing.write_reports", lambda *given: written.append(given))
        with pytest.raises(ServerUnavailable, match=r"workers have no thresher.*Install the same thresher") as caught:
            aggregator.release(config, 1, asked)
        assert "venv-pack" in caught.value.hint
        assert not written
        assert SparkContext._active_spark_context is None

    cluster.kill_worker()
    cluster.kill_worker()
    monkeypatch.setattr(drawing, "_idle", 2.0)
    for _ in range(2):
        with pytest.raises(NoWorker, match="No worker of Spark was free for 2 s"):
            aggregator.release(config, 1, asked)
        assert list((tmp_path / "batches").iterdir()) == []
    waiting = SparkContext._active_spark_context
    assert waiting is not None
    monkeypatch.undo()
    cluster.add_worker()

    release = Release.from_json(aggregator.release(config, 1, asked))
    assert SparkContext._active_spark_context is waiting
    assert dict(zip(release.buckets, release.counts.tolist(), strict=True)) == {"a": 12, "b": 5}
    assert Counter(words)["c"] == 2  # below the threshold
    assert list((tmp_path / "batches").iterdir()) == []
    aggregator.close()
    store.close()

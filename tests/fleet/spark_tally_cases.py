"""The tally on Spark is the tally. Run by `test_spark_tally.py`, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aggregation_cases import SIZE, configuration, opening, response, sealed, sealed_plain, spelled

from thresher.errors import Conflict, InvalidSetting, ServerUnavailable
from thresher.mechanism import Release, binomials
from thresher.privacy import DEVICE
from thresher.protocol.sealing import OVERHEAD, PrivateKey
from thresher.questions import Bins, Joint, Prefixes, Question, Values
from thresher.roles.aggregator import spark_drawing, spark_tally
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.aggregator.keys import KeyRing
from thresher.roles.aggregator.report_opening import Workers
from thresher.roles.aggregator.round_drawing import Drawn, LocalDrawing, draw, tally
from thresher.roles.aggregator.spark_drawing import SparkDrawing
from thresher.roles.aggregator.store import AggregatorStore
from thresher.testing import SeededRandomness

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
KEY = PrivateKey.generate("key")
RECORD = SIZE + OVERHEAD
CANARY = "canary-93de"


# As an operator would set it. Compressed, a value might be hard to find though it is not hidden; the rest is for speed:
# a Java that lives for seconds gains nothing from optimising what it runs.
DEFAULTS = """
spark.shuffle.compress false
spark.shuffle.spill.compress false
spark.sql.shuffle.partitions 2
spark.sql.adaptive.enabled false
spark.sql.codegen.wholeStage false
spark.driver.memory 1g
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes what it shuffles and spills."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def drawing(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDrawing]:
    """What `thresher serve --spark "local[2]"` draws with, for rounds of 20 reports and more."""
    settings = tmp_path_factory.mktemp("settings")
    (settings / "spark-defaults.conf").write_text(DEFAULTS)
    os.environ["SPARK_CONF_DIR"] = str(settings)
    os.environ["SPARK_LOCAL_DIRS"] = str(folder)
    # Workers find the helpers of these tests, as they find Thresher, on the path.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    made = SparkDrawing("local[2]", tmp_path_factory.mktemp("batches"), LocalDrawing(1), at_least=20)
    yield made
    made.close()


@pytest.fixture(scope="module")
def session(drawing: SparkDrawing) -> Any:
    return drawing.session()


def write(reports: list[bytes], path: Path, batch: int = 100) -> str:
    blobs = (b"".join(reports[start : start + batch]) for start in range(0, len(reports), batch))
    spark_tally.write_reports(blobs, RECORD, path)
    return str(path)


QUESTIONS: list[tuple[Question, list[Any]]] = [
    (Values(("word",)), ["a", "b", "é", 'quote "', "line\n"]),
    (Values(("a", "b")), [("x", "y"), ("x", "z"), ("", "")]),
    (Joint((Values(("a",)), Bins("x", (0, 0.1, 2)))), [("x", 0.0), ("y", 0.1)]),
    (Prefixes("word", 2), ["ab", "a\0", "\0"]),
]


@pytest.mark.parametrize(("question", "buckets"), QUESTIONS, ids=["word", "two", "joint", "prefixes"])
def test_it_counts_what_the_local_tally_counts(
    session: Any, tmp_path: Path, question: Question, buckets: list[Any]
) -> None:
    config = configuration(KEY.public, question=question)
    held = [bucket for number, bucket in enumerate(buckets, start=2) for _ in range(number)]
    reports = sealed(config, [*held, *[None] * 40])
    reports += [reports[0], reports[-1], os.urandom(RECORD)]
    asked = response(config, len(reports))
    blob = b"".join(reports)
    local = tally(lambda: [blob], len(reports), opening(config, KEY), Workers(1))
    expected = draw(local.counts, config, asked)
    frame = session.read.parquet(write(reports, tmp_path / "batches.parquet", 7))
    drawn = spark_tally.release_from(frame, config, KEY, asked)
    release = drawn.release
    assert (drawn.malformed, drawn.duplicates) == (local.malformed, local.duplicates) == (1, 2)
    assert release.table.equals(expected.table)
    assert len(release) == len(buckets) - 1  # all but the one held by two
    assert release.verify() == config.planned.guarantee.for_unit(DEVICE)


def test_spellings_of_a_bucket_are_counted_together(session: Any, tmp_path: Path) -> None:
    config = configuration(KEY.public)
    reports = [sealed_plain(spelled(each), config) for each in (b'["a"]', b'[ "a" ]', b'["\\u0061"]')]
    frame = session.read.parquet(write(reports, tmp_path / "batches.parquet", 1))
    assert spark_tally.release_from(frame, config, KEY, response(config, 3)).release.counts.tolist() == [3]


def test_it_thins_in_the_driver(session: Any, tmp_path: Path) -> None:
    config = configuration(KEY.public, sampled_by="aggregator", threshold=5)
    reports = sealed(config, ["a"] * 40)
    frame = session.read.parquet(write(reports, tmp_path / "batches.parquet"))
    release = spark_tally.release_from(frame, config, KEY, response(config, 40), SeededRandomness(7)).release
    assert not release.private
    assert release.counts.tolist() == binomials([40], 0.5, SeededRandomness(7)).tolist()


def test_counts_below_the_threshold_stay_on_the_cluster(session: Any, tmp_path: Path) -> None:
    config = configuration(KEY.public)
    frame = session.read.parquet(
        write(sealed(config, ["a"] * 3 + ["b"] * 2 + [None] * 9), tmp_path / "batches.parquet")
    )
    rows = spark_tally._counted(frame, opening(config, KEY), 3).collect()
    assert {row[0] and bytes(row[0]): tuple(row[1:]) for row in rows} == {b'["a"]': (3, 0), None: (14, 0)}


def test_a_session_that_writes_in_clear_is_refused(session: Any, tmp_path: Path) -> None:
    config = configuration(KEY.public)

    class Clear:
        """What is asked of a frame first; a process has one Spark, and this one's encrypts."""

        class sparkSession:
            class conf:
                get = staticmethod(lambda name, default: default)

    with pytest.raises(InvalidSetting, match="encryption"):
        spark_tally.release_from(Clear(), config, KEY, response(config, 0))


def test_every_piece_of_a_device_counts_by_itself(session: Any, tmp_path: Path) -> None:
    config = configuration(KEY.public, contributions=2)
    reports = sealed(config, ["a"] * 5 + ["b"] * 5 + [None] * 4)
    frame = session.read.parquet(write(reports, tmp_path / "batches.parquet"))
    drawn = spark_tally.release_from(frame, config, KEY, response(config, 7))  # devices, of two pieces each
    assert dict(zip(drawn.release.buckets, drawn.release.counts.tolist(), strict=True)) == {"a": 5, "b": 5}
    drawn.release.verify()
    with pytest.raises(Conflict):
        spark_tally.release_from(frame, config, KEY, response(config, 14))


def test_missing_reports_are_refused(session: Any, tmp_path: Path) -> None:
    config = configuration(KEY.public)
    frame = session.read.parquet(write(sealed(config, ["a"] * 5), tmp_path / "batches.parquet"))
    with pytest.raises(Conflict):
        spark_tally.release_from(frame, config, KEY, response(config, 6))


class Trap:
    """A question that fails while opening, and quotes what it was asked."""

    columns = ("word",)

    def __hash__(self) -> int:
        raise RuntimeError(CANARY)


def test_what_people_hold_reaches_neither_disk_nor_logs(
    session: Any, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = configuration(KEY.public)
    reports = sealed(config, [f"{CANARY}-{number}" for number in range(500)] + ["a"] * 5)
    frame = session.read.parquet(write(reports, tmp_path / "batches.parquet"))
    assert spark_tally.release_from(frame, config, KEY, response(config, 505)).release.buckets == ["a"]
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert any("shuffle" in path.name for path in written)  # something was written, and it is not in clear
    for path in [*written, tmp_path / "batches.parquet"]:
        content = path.read_bytes()
        assert CANARY.encode() not in content
        assert KEY.to_bytes() not in content

    from thresher.roles.aggregator.report_opening import Opening

    plain = opening(config, KEY)
    trapped = Opening(plain.key_id, plain.private_key, plain.info, Trap(), SIZE)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="RuntimeError") as caught:
        spark_tally._counted(frame, trapped, 1).collect()
    out, err = capfd.readouterr()
    for text in (str(caught.value), out, err):
        assert CANARY not in text


def test_an_aggregator_draws_its_rounds_on_spark(
    drawing: SparkDrawing, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = AggregatorStore.open(tmp_path / "data")
    keys = KeyRing(tmp_path / "keys")
    aggregator = Aggregator(store, keys, drawing)
    (drawing._directory / "thresher-round-0.parquet").write_bytes(b"left by a crash")
    (drawing._directory / "thresher.txt").write_bytes(b"of somebody else")
    aggregator.recover()
    assert [path.name for path in drawing._directory.iterdir()] == ["thresher.txt"]

    config = configuration(keys.current())
    words = ["a"] * 12 + ["b"] * 5 + ["c"] * 2 + [f"{CANARY}-{number}" for number in range(30)]
    reports = sealed(config, [*words, *[None] * 9])
    reports += [reports[0], os.urandom(RECORD)]
    asked = response(config, len(reports))
    for number, start in enumerate(range(0, len(reports), 25)):
        aggregator.add_batch(config.round, number, b"".join(reports[start : start + 25]))

    during: list[bytes] = []

    def seen(*arguments: Any) -> Drawn:
        during.extend(path.read_bytes() for path in drawing._directory.glob("*.parquet"))
        return spark_tally.release_from(*arguments)

    monkeypatch.setattr(spark_drawing, "release_from", seen)
    text = aggregator.release(config, 3, asked)
    assert len(during) == 1  # on Spark, and nothing of it is left
    assert [path.name for path in drawing._directory.iterdir()] == ["thresher.txt"]
    key = keys.get(config.key_id)
    local = LocalDrawing(1).draw(config, key, lambda: [b"".join(reports)], len(reports), asked)
    assert text == local.release.to_json()  # devices tossed the coins: there is one release that this can be
    assert Release.from_json(text).counts.tolist() == [12, 5]
    assert aggregator.release(config, 3, asked) == text
    assert len(during) == 1  # stored, not drawn again
    totals = aggregator.totals()
    assert (totals.releases, totals.malformed, totals.duplicates) == (1, 1, 1)

    written = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert all(reports[0] in content for content in during)  # the search can find
    for content in (*written, *during):
        assert CANARY.encode() not in content
        assert key.to_bytes() not in content

    small = configuration(keys.current(), round="small")
    aggregator.add_batch("small", 0, b"".join(sealed(small, ["a"] * 19)))
    assert Release.from_json(aggregator.release(small, 1, response(small, 19))).counts.tolist() == [19]
    assert len(during) == 1  # too small for Spark
    store.close()


def test_a_lost_spark_is_reported_and_let_go(drawing: SparkDrawing, session: Any) -> None:
    """No Spark is left after it; the next round would start one."""
    from pyspark import SparkContext

    config = configuration(KEY.public)
    blob = b"".join(sealed(config, ["a"] * 20))
    gateway: Any = SparkContext._gateway
    gateway.proc.kill()
    with pytest.raises(ServerUnavailable, match="Spark stopped"):
        drawing.draw(config, KEY, lambda: [blob], 20, response(config, 20))
    assert list(drawing._directory.glob("*.parquet")) == []
    assert SparkContext._gateway is SparkContext._active_spark_context is None
    assert gateway.proc.returncode is not None


def test_a_spark_that_did_not_start_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last test. A master that does not answer leaves a Java whose session has ended, and no other begins there."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as java:

        def turned_away(builder: object) -> None:
            SparkContext._gateway = SimpleNamespace(proc=java, shutdown=lambda: None)  # type: ignore[assignment]
            raise RuntimeError(
                "An error\n: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."
            )

        monkeypatch.setattr(SparkSession.Builder, "getOrCreate", turned_away)
        with pytest.raises(ServerUnavailable, match="its master cannot be reached, or turned it away"):
            spark_drawing._started("spark://nowhere:7077")
        assert SparkContext._gateway is None
        assert java.returncode is not None

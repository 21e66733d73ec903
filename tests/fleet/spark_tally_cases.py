"""The tally on Spark is the tally. Run by `test_spark_tally.py`, in a process of its own."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aggregation_cases import SIZE, configuration, opening, response, sealed, sealed_plain, spelled

from thresher.errors import Conflict, InvalidSetting
from thresher.fleet import spark_tally
from thresher.fleet.opening import Workers
from thresher.fleet.sealing import OVERHEAD, PrivateKey
from thresher.fleet.tally import draw, tally
from thresher.mechanism import binomials
from thresher.populations import provide_java
from thresher.questions import Bins, Joint, Prefixes, Question, Values
from thresher.testing import SeededRandomness

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
KEY = PrivateKey.generate("key")
RECORD = SIZE + OVERHEAD
CANARY = "canary-93de"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes what it shuffles and spills."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Any]:
    provide_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Workers find the helpers of these tests, as they find Thresher, on the path.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    from pyspark.sql import SparkSession

    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.io.encryption.enabled", "true")
        .config("spark.local.dir", str(folder))
        # Compressed, a value might be hard to find though it is not hidden.
        .config("spark.shuffle.compress", "false")
        .config("spark.shuffle.spill.compress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    yield made
    made.stop()


def write(reports: list[bytes], directory: Path, batch: int = 100) -> str:
    directory.mkdir()
    for start in range(0, len(reports), batch):
        spark_tally.write_batch(b"".join(reports[start : start + batch]), RECORD, directory / f"{start:06d}.parquet")
    return str(directory)


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
    expected = draw(local.counts, question, config.planned, config.rates, asked)
    frame = session.read.parquet(write(reports, tmp_path / "batches", 7))
    release = spark_tally.release_from(frame, config, KEY, asked)
    assert release.table.equals(expected.table)
    assert len(release) == len(buckets) - 1  # all but the one held by two
    assert release.verify() == config.planned.guarantee


def test_spellings_of_a_bucket_are_counted_together(session: Any, tmp_path: Path) -> None:
    config = configuration(KEY.public)
    reports = [sealed_plain(spelled(each), config) for each in (b'["a"]', b'[ "a" ]', b'["\\u0061"]')]
    frame = session.read.parquet(write(reports, tmp_path / "batches", 1))
    assert spark_tally.release_from(frame, config, KEY, response(config, 3)).counts.tolist() == [3]


def test_it_thins_in_the_driver(session: Any, tmp_path: Path) -> None:
    config = configuration(KEY.public, sampled_by="aggregator", threshold=5)
    reports = sealed(config, ["a"] * 40)
    frame = session.read.parquet(write(reports, tmp_path / "batches"))
    release = spark_tally.release_from(frame, config, KEY, response(config, 40), SeededRandomness(7))
    assert not release.private
    assert release.counts.tolist() == binomials([40], 0.5, SeededRandomness(7)).tolist()


def test_counts_below_the_threshold_stay_on_the_cluster(session: Any, tmp_path: Path) -> None:
    config = configuration(KEY.public)
    frame = session.read.parquet(write(sealed(config, ["a"] * 3 + ["b"] * 2 + [None] * 9), tmp_path / "batches"))
    rows = spark_tally._counted(frame, opening(config, KEY), 3).collect()
    assert Counter({bytes(row[0]): row[1] for row in rows}) == {b'["a"]': 3}


def test_a_session_that_writes_in_clear_is_refused(session: Any, tmp_path: Path) -> None:
    config = configuration(KEY.public)

    class Clear:
        """What is asked of a frame first; a process has one Spark, and this one's encrypts."""

        class sparkSession:
            class conf:
                get = staticmethod(lambda name, default: default)

    with pytest.raises(InvalidSetting, match="encryption"):
        spark_tally.release_from(Clear(), config, KEY, response(config, 0))


def test_missing_reports_are_refused(session: Any, tmp_path: Path) -> None:
    config = configuration(KEY.public)
    frame = session.read.parquet(write(sealed(config, ["a"] * 5), tmp_path / "batches"))
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
    frame = session.read.parquet(write(reports, tmp_path / "batches"))
    assert spark_tally.release_from(frame, config, KEY, response(config, 505)).buckets == ["a"]
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert any("shuffle" in path.name for path in written)  # something was written, and it is not in clear
    for path in [*written, *(tmp_path / "batches").iterdir()]:
        content = path.read_bytes()
        assert CANARY.encode() not in content
        assert KEY.to_bytes() not in content

    from thresher.fleet.opening import Opening

    plain = opening(config, KEY)
    trapped = Opening(plain.key_id, plain.private_key, plain.info, Trap(), SIZE)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="RuntimeError") as caught:
        spark_tally._counted(frame, trapped, 1).collect()
    out, err = capfd.readouterr()
    for text in (str(caught.value), out, err):
        assert CANARY not in text

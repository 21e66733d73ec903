"""The same tally on Spark, over Parquet files of sealed reports, for fleets that outgrow a machine.

Workers open; the cluster drops duplicates and counts; only buckets whose count reaches the threshold come back to the
driver, which thins them. Spark writes what it shuffles to its workers' disks, so encryption of that is required.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thresher.errors import Conflict, InvalidSetting
from thresher.fleet.messages import RoundConfiguration, canonical, check_configuration, configuration_hash
from thresher.fleet.opening import Opening, open_reports, records
from thresher.fleet.plaintext import decode_payload
from thresher.fleet.sealing import PrivateKey
from thresher.fleet.tally import draw
from thresher.mechanism import Randomness, Release, Response
from thresher.populations.guarding import guarded
from thresher.questions import Bucket

if TYPE_CHECKING:
    import pyarrow as pa

SEALED = "sealed"
"""The column of the files: one sealed report a row."""
_BUCKET, _COUNT = "bucket", "reports"
_ENCRYPTION = "spark.io.encryption.enabled"


def write_batch(blob: bytes, size: int, path: str | Path) -> None:
    """Write one batch of sealed reports of `size` bytes each as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    column = pa.array(list(records(blob, size)), pa.binary())
    pq.write_table(pa.table({SEALED: column}), path, compression="none")


def release_from(
    frame: Any,
    configuration: RoundConfiguration,
    key: PrivateKey,
    response: Response,
    randomness: Randomness | None = None,
) -> Release:
    """The release of a round whose sealed reports are in a Spark frame, such as `spark.read.parquet(directory)`.

    It is drawn at every call: store it before anybody sees it, and delete the files then, as `Aggregator` does.

    Guarantee: the same distribution as `Aggregator.release`; counts below the threshold never leave the cluster.
    Edge cases: a session that does not encrypt what it writes to disk is refused; so are fewer or more reports than
    completed.
    """
    question, plan, rates = check_configuration(configuration)
    if response.kept_rate != rates.kept:
        raise InvalidSetting("response", "must have the kept_rate of the round's configuration")
    if not _encrypts(frame):
        raise InvalidSetting(
            "frame",
            f"must belong to a session with {_ENCRYPTION}=true",
            hint="Spark writes what it shuffles to disk, and here that is what people hold.",
        )
    opening = Opening(
        key.key_id, key.to_bytes(), configuration_hash(configuration), question, configuration.bucket_size
    )
    arrived = guarded("Spark", frame.count)
    if arrived != response.completed:
        raise Conflict("The reports that have arrived are not those that were announced.", hint="Check the files.")
    survivors = guarded("Spark", lambda: _counted(frame, opening, plan.threshold).toArrow())
    counts: Counter[Bucket] = Counter()
    for text, count in zip(survivors[_BUCKET].to_pylist(), survivors[_COUNT].to_pylist(), strict=True):
        counts[decode_payload(text, question)] = count
    return draw(counts, question, plan, rates, response, randomness)


def _encrypts(frame: Any) -> bool:
    """Whether the cluster encrypts what it writes; classic Spark tells its own setting, Connect only the session's."""
    session = frame.sparkSession
    if hasattr(session, "sparkContext"):
        return bool(session.sparkContext.getConf().get(_ENCRYPTION, "false") == "true")
    return bool(session.conf.get(_ENCRYPTION, "false") == "true")


def _counted(frame: Any, opening: Opening, at_least: int) -> Any:
    """Buckets, as canonical JSON, with how many reports say them; those that can reach the threshold."""
    once = frame.select(SEALED).filter(f"octet_length({SEALED}) = {opening.record}").distinct()
    opened = once.mapInArrow(_opener(opening), f"{_BUCKET} binary, {_COUNT} bigint")
    summed = opened.groupBy(_BUCKET).agg({_COUNT: "sum"}).toDF(_BUCKET, _COUNT)
    return summed.filter(f"{_COUNT} >= {at_least}")


def _opener(opening: Opening) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def opened(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            buckets, _ = open_reports(batch.column(0).to_pylist(), opening)
            # However a device spelled its JSON, a bucket is counted under one spelling.
            several = len(opening.question.columns) > 1
            texts = [canonical(list(bucket) if several else [bucket]) for bucket in buckets]
            columns = [pa.array(texts, pa.binary()), pa.array(list(buckets.values()), pa.int64())]
            yield pa.RecordBatch.from_arrays(columns, names=[_BUCKET, _COUNT])

    return opened

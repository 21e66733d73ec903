"""The tally on Spark, over Parquet files of sealed reports, for fleets that outgrow a machine.

Spark's workers open reports. The cluster drops duplicates and counts. Only buckets whose count reaches the threshold
come back to the driver, which thins them. Spark writes what it shuffles to its workers' disks, so the session must
encrypt that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from thresher.errors import Conflict, InvalidSetting, ServerUnavailable
from thresher.mechanism import Randomness, Response
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.messages import canonical
from thresher.protocol.pieces import pieces
from thresher.protocol.plaintext import decode_payload
from thresher.protocol.recomputation import check_configuration
from thresher.protocol.sealing import PrivateKey
from thresher.questions import Bucket
from thresher.roles.aggregator.report_opening import Opening, open_reports
from thresher.roles.aggregator.round_drawing import Drawn, draw
from thresher.tables.error_guard import withheld

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

SEALED = "sealed"
"""The column of the files: one sealed report a row."""
ENCRYPTION = "spark.io.encryption.enabled"
_BUCKET, _COUNT, _MALFORMED = "bucket", "reports", "malformed"


def write_reports(batches: Iterable[bytes], size: int, path: str | Path) -> None:
    """Write batches of sealed reports of `size` bytes each as one Parquet file, which Spark can read in parts.

    Memory: one batch at a time.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(SEALED, pa.binary())])
    # Sealed bytes are random: nothing to gain from compressing them or from looking for repeated ones.
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False, write_statistics=False) as writer:
        for blob in batches:
            writer.write_table(pa.table([pa.array(list(pieces(blob, size)), pa.binary())], schema=schema))


def release_from(
    frame: Any,
    configuration: RoundConfiguration,
    key: PrivateKey,
    response: Response,
    randomness: Randomness | None = None,
) -> Drawn:
    """The release of a round whose sealed reports are in a Spark frame, such as `spark.read.parquet(file)`.

    It is drawn at every call: store it before anybody sees it, and delete the files then, as `Aggregator` does.

    Guarantee: the same distribution as `LocalDrawing`; counts below the threshold never leave the cluster.
    Edge cases: a session that does not encrypt what it writes to disk is refused; so are fewer or more reports than
    completed. Whatever stops Spark is `ServerUnavailable`.
    """
    question, plan, rates = check_configuration(configuration)
    if response.rates != rates:
        raise InvalidSetting("response", "must have the rates of the round's configuration")
    if not _encrypts(frame):
        raise InvalidSetting(
            "frame",
            f"must belong to a session with {ENCRYPTION}=true",
            hint="Spark writes what it shuffles to disk, and here that is what people hold.",
        )
    arrived = on_spark(frame.count)
    if arrived != response.completed * plan.contributions:
        raise Conflict("The reports that have arrived are not those that were announced.", hint="Check the files.")
    opening = Opening.of(configuration, key)
    found = on_spark(lambda: _counted(frame, opening, plan.threshold).toArrow())
    counts: Counter[Bucket] = Counter()
    opened = malformed = 0
    for text, count, broken in zip(*(column.to_pylist() for column in found.columns), strict=True):
        if text is None:
            opened, malformed = count, broken
        else:
            counts[decode_payload(text, question)] = count
    release = draw(counts, configuration, response, randomness)
    return Drawn(release, malformed=malformed, duplicates=arrived - opened)


def on_spark(action: Callable[[], T]) -> T:
    """Run something on Spark; what it raises becomes `ServerUnavailable`, without Spark's words."""

    def unavailable(kind: str) -> ServerUnavailable:
        return ServerUnavailable(
            f"Spark stopped with {kind}; nothing was released.",
            hint="Its message is withheld, since it may quote a report. Check that its workers run, have Thresher "
            "installed and can read the folder of batches.",
        )

    return withheld(action, unavailable)


def _encrypts(frame: Any) -> bool:
    """Whether the cluster encrypts what it writes; classic Spark tells its own setting, Connect only the session's."""
    session = frame.sparkSession
    if hasattr(session, "sparkContext"):
        return bool(session.sparkContext.getConf().get(ENCRYPTION, "false") == "true")
    return bool(session.conf.get(ENCRYPTION, "false") == "true")


def _counted(frame: Any, opening: Opening, at_least: int) -> Any:
    """Buckets, as canonical JSON, with how many reports say them; those that can reach the threshold.

    A row without a bucket says how many different reports there are, and how many of them are malformed.
    """
    once = frame.select(SEALED).distinct()
    opened = once.mapInArrow(_opener(opening), f"{_BUCKET} binary, {_COUNT} bigint, {_MALFORMED} bigint")
    summed = opened.groupBy(_BUCKET).sum(_COUNT, _MALFORMED).toDF(_BUCKET, _COUNT, _MALFORMED)
    return summed.filter(f"{_BUCKET} IS NULL OR {_COUNT} >= {at_least}")


def _opener(opening: Opening) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def opened(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            reports = batch.column(0).to_pylist()
            whole = [sealed for sealed in reports if sealed is not None and len(sealed) == opening.record]
            buckets, malformed = open_reports(whole, opening)
            # However a device spelled its JSON, a bucket is counted under one spelling.
            several = len(opening.question.columns) > 1
            texts = [canonical(list(bucket) if several else [bucket]) for bucket in buckets]
            columns = [
                pa.array([None, *texts], pa.binary()),
                pa.array([len(reports), *buckets.values()], pa.int64()),
                pa.array([malformed + len(reports) - len(whole), *[0] * len(texts)], pa.int64()),
            ]
            yield pa.RecordBatch.from_arrays(columns, names=[_BUCKET, _COUNT, _MALFORMED])

    return opened

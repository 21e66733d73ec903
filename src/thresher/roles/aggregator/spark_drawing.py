"""Rounds drawn on Spark: its workers read sealed reports from a file, which is then overwritten and deleted."""

from __future__ import annotations

import logging
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from thresher.errors import InvalidSetting, ServerUnavailable, StoreUnavailable, require
from thresher.files import shred
from thresher.mechanism import Randomness, Response
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.pieces import piece_size
from thresher.protocol.sealing import PrivateKey
from thresher.roles.aggregator import report_opening, spark_tally
from thresher.roles.aggregator.round_drawing import Batches, Drawing, Drawn
from thresher.roles.aggregator.spark_tally import ENCRYPTION, on_spark, release_from, write_reports
from thresher.roles.aggregator.spark_workers import IDLE, NoWorker, watched
from thresher.tables import provide_java
from thresher.tables.spark_session import INSTALL, lacking

AT_LEAST = 100_000
"""Rounds of fewer reports are drawn on this machine: in a few seconds, less than it takes to start Spark."""

_MASTER = re.compile(r"local(\[[^\]]+\])?|local-cluster\[[^\]]+\]|yarn|(spark|k8s)://\S+")
_SETTINGS = {
    ENCRYPTION: "true",
    # The key that opens reports travels to the workers, and opened reports travel between them.
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    # Spark would show or keep numbers here that nobody may see, such as how many buckets there were.
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}
# A Spark within this process has no reason to listen to the network.
_ALONE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_JAVA_SECONDS = 30
_TURNED_AWAY = "stopped SparkContext"
_PREFIX = "thresher-round-"
_log = logging.getLogger(__name__)


class SparkDrawing:
    """On the Spark at `master`, for rounds of `at_least` reports; smaller ones are drawn by `smaller`.

    `directory` is a folder of this aggregator's own, that all workers can read at the same path. Spark is started by
    the first round that needs it and kept for the next; further settings come from its own `spark-defaults.conf`.

    Guarantee: files hold sealed bytes only, and are overwritten and deleted before `draw` returns or raises, or else
    by the next `recover`. Reports and key are encrypted wherever Spark writes or sends them.
    """

    def __init__(
        self,
        master: str,
        directory: str | Path,
        smaller: Drawing,
        *,
        at_least: int = AT_LEAST,
        idle: float = IDLE,
        randomness: Randomness | None = None,
    ) -> None:
        check_master(master)
        self._master = master
        self._directory = Path(directory).absolute()
        if re.search(r"[][{}*?\\:,]", str(self._directory)):
            raise InvalidSetting(
                "batches", "must be a path without any of []{}*?:,\\", hint="Spark gives them meaning."
            )
        self._smaller = smaller
        self._at_least = at_least
        self._idle = idle
        self._randomness = randomness
        self._session: Any = None
        self._checked = False

    def draw(
        self, configuration: RoundConfiguration, key: PrivateKey, batches: Batches, reports: int, response: Response
    ) -> Drawn:
        """Draw on Spark, or on this machine if the round is small.

        Edge cases: a folder that cannot be written is `StoreUnavailable`. A Spark that stops, or whose workers cannot
        open reports, is `ServerUnavailable`; the next call starts it anew. If no worker is free for `idle` seconds, it
        is `NoWorker`, so that whoever waits can do something else meanwhile; the next call asks the same Spark again.
        """
        if reports < self._at_least:
            return self._smaller.draw(configuration, key, batches, reports, response)
        path = self._directory / f"{_PREFIX}{secrets.token_hex(16)}.parquet"
        try:
            with _files():
                path.touch()  # a folder that cannot be written needs no Spark
            session = self.session()  # before a report is written or opened
            with _files():
                write_reports(batches(), piece_size(configuration.bucket_size), path)
            with watched(session, self._idle):
                frame = on_spark(lambda: session.read.parquet(f"file://{path}"))
                return release_from(frame, configuration, key, response, self._randomness)
        except ServerUnavailable as error:
            _log.warning("%s", error.message)
            self._checked = False
            if not isinstance(error, NoWorker):
                self._stop()
            raise
        finally:
            with _files():
                shred(path)

    def session(self) -> Any:
        """The Spark session, started if there is none; its workers can open reports."""
        if self._session is None:
            require("pyspark", "spark")
            provide_java()
            # Workers run the same Python, unless the operator names another.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            self._session = _started(self._master)
        if not self._checked:
            with watched(self._session, self._idle):
                _check_workers(self._session)
            self._checked = True
        return self._session

    def recover(self) -> None:
        """Delete the files that a crash left; make the folder if there is none."""
        with _files():
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in self._directory.glob(f"{_PREFIX}*.parquet"):
                shred(path)
        self._smaller.recover()

    def close(self) -> None:
        """Stop Spark, and end what draws smaller rounds."""
        self._stop()
        self._smaller.close()

    def _stop(self) -> None:
        session, self._session, self._checked = self._session, None, False
        if session is not None:
            with suppress(Exception):  # it may be gone already
                session.stop()
            _end_java()


def check_master(master: str) -> None:
    """Refuse a text that cannot be the address of a Spark master."""
    if not _MASTER.fullmatch(master):
        raise InvalidSetting("spark", "must be a master, such as local[4], spark://host:7077, yarn or k8s://host")


def _started(master: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("thresher").master(master)
    settings = _SETTINGS | _ALONE if re.fullmatch(r"local(\[.+\])?", master) else _SETTINGS
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        # Nothing has been read yet, so these words are Spark's own. Java's are in the line that begins with a colon.
        lines = str(error).splitlines() or [type(error).__name__]
        reason = next((line[2:] for line in lines if line.startswith(": ")), lines[0])
    if _TURNED_AWAY in reason:
        reason = "its master cannot be reached, or turned it away."
    _end_java()  # it would go on with the session that it did not get
    raise ServerUnavailable(f"Spark could not be started: {reason}", hint="Check --spark and Spark's own settings.")


def _check_workers(session: Any) -> None:
    if lacks := lacking(session, ("pyarrow", spark_tally.__name__, report_opening.__name__)):
        raise ServerUnavailable(f"Spark's workers {lacks}, and cannot open reports.", hint=INSTALL)


def _end_java() -> None:
    """End the Java process of Spark, and clear PySpark's reference to it: PySpark would go on using a dead one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()  # it ends when it can read no more
    try:
        gateway.proc.wait(_JAVA_SECONDS)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


@contextmanager
def _files() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
    else:
        return
    raise StoreUnavailable(f"The folder of batches cannot be used: {reason}.", hint="Check it and the space left.")

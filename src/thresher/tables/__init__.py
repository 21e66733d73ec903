"""Where the people are: tables of any kind, from a list to a Spark cluster."""

from __future__ import annotations

from thresher.tables.data_errors import DataError, DataErrors
from thresher.tables.file_look import Look, look
from thresher.tables.spark_java import provide_java
from thresher.tables.table import Table

__all__ = ["DataError", "DataErrors", "Look", "Table", "look", "provide_java"]

"""Where the people are: tables of any kind, from a list to a Spark cluster."""

from __future__ import annotations

from thresher.populations.looking import Look, look
from thresher.populations.spark_java import provide_java
from thresher.populations.table import Table

__all__ = ["Look", "Table", "look", "provide_java"]

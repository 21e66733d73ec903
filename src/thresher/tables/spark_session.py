"""What a Spark session, classic or Connect, tells before it counts: its functions, its plans, what its workers have."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from thresher._version import __version__

INSTALL = (
    "Install the same thresher on every worker and set PYSPARK_PYTHON to its Python before the session starts; or send "
    "an environment along: pip install venv-pack; venv-pack -o environment.tar.gz; then set PYSPARK_PYTHON="
    "./environment/bin/python and spark.archives=environment.tar.gz#environment (spark-submit --archives)."
)
"""What to do where workers cannot run it."""

_ORDERLY = re.compile(
    r"(FileScan|BatchScan|Scan) (parquet|orc|csv|json|text|avro)\b|"
    r"(Project|Filter|ColumnarToRow|Range|LocalTableScan|Union|InMemoryTableScan|InMemoryRelation|BatchEvalPython|"
    r"ArrowEvalPython)\b"
)
"""The steps of a plan that give their rows in the same order each time they run."""
_EVALUATION = re.compile(r"\b(?:Batch|Arrow)EvalPython \[.*\], \[(.*?)\]")
"""The step of a plan that calls Python functions, with the columns of what they give."""
_STEP = re.compile(r"^[ :|+*-]*(?:\(\d+\) )?(.*)$", re.MULTILINE)
_TITLE = "== Physical Plan =="
_LOOKS = 512  # of one number each: Spark shares them out to all cores that it has
_REASONS = r"\[PYTHON_VERSION_MISMATCH\][^\n]*|Cannot run program \"[^\"]*\"|No module named '[^']*'"


def functions_of(frame_or_session: Any) -> ModuleType:
    """The functions for this frame or session: Connect's columns are not those of the classic API."""
    connect = type(frame_or_session).__module__.startswith("pyspark.sql.connect")
    return importlib.import_module("pyspark.sql.connect.functions" if connect else "pyspark.sql.functions")


def keeps_order(frame: Any) -> bool:
    """Whether a task that reads this frame again gets its rows in the same order: then it reads files, and no more.

    Guarantee: False where it is not known, as after a shuffle, from a database, or in a plan that cannot be read.
    """
    try:
        plan = _plan(frame)
        steps = [step for step in _STEP.findall(plan.replace(_TITLE, "")) if step]
    except Exception:
        return False
    return bool(steps) and all(_ORDERLY.match(step) for step in steps)


def evaluations(frame: Any) -> int:
    """How many Python functions this frame's plan calls for a row; one that is called in two places counts twice.

    Guarantee: 0 for a plan that cannot be read.
    """
    try:
        plan = _plan(frame)
    except Exception:
        return 0
    return sum(given.count(",") + 1 for given in _EVALUATION.findall(plan))


def _plan(frame: Any) -> str:
    if hasattr(frame, "_explain_string"):
        return str(frame._explain_string())
    return str(frame._jdf.queryExecution().executedPlan().toString())


def lacking(session: Any, modules: Sequence[str]) -> str | None:
    """What keeps the workers of a session from running code of these modules; None if nothing does.

    It starts a short job that reads no data, and so may say what Spark says.
    Guarantee: never fails. The answer does not depend on anybody's data.
    Edge cases: workers that join later, or that had no free core for this job, are not looked at.
    """
    try:
        looked = functions_of(session).udf(_look(__version__, tuple(modules)), "string", useArrow=False)
        found = session.range(_LOOKS).select(looked("id")).collect()
    except Exception as error:
        reason = re.search(_REASONS, str(error))
        return f"cannot run Python ({reason[0] if reason else type(error).__name__})"
    # The same answer each time, also where workers differ.
    return max((seen for (seen,) in found if seen), default=None)


def _look(version: str, modules: tuple[str, ...]) -> Callable[[int], str]:
    def look(_: int) -> str:
        """Runs in a worker. Spark sends it whole, since it is inside another function."""
        import importlib

        try:
            there = importlib.import_module("thresher").__version__
            if there != version:
                return f"have thresher {there} and not {version}"
            for module in modules:
                importlib.import_module(module)
        except ImportError as error:
            return f"have no {error.name or 'working thresher'}"
        return ""

    return look

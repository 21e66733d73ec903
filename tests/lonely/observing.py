"""Everything that an analyst can observe of a query, as one value that can be compared."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import thresher as th
from thresher.cli.app import main
from thresher.errors import ThresherError
from thresher.tables import table
from thresher.testing import SeededRandomness

SEED = 7


@contextlib.contextmanager
def same_coins() -> Iterator[None]:
    """Every table that is opened draws the same coins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "SecureRandomness", lambda: SeededRandomness(SEED))
        yield


@contextlib.contextmanager
def captured() -> Iterator[Callable[[], tuple[str, str]]]:
    """What is written to standard output and error, by whatever writes there."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2)]
        saved = [os.dup(number) for number in (1, 2)]
        sys.stdout.flush()
        sys.stderr.flush()
        for number, file in zip((1, 2), files, strict=True):
            os.dup2(file.fileno(), number)
        out, error = (os.fdopen(os.dup(number), "w") for number in (1, 2))

        def read() -> tuple[str, str]:
            for stream in (out, error):
                stream.flush()
            texts = []
            for file in files:
                file.seek(0)
                texts.append(file.read())
            return texts[0], texts[1]

        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
                yield read
        finally:
            for stream in (out, error):
                stream.close()
            for number, old in zip((1, 2), saved, strict=True):
                os.dup2(old, number)
                os.close(old)


def observe(ask: Callable[[], Any], ledger: th.Ledger | None = None) -> dict[str, Any]:
    """What comes back from a verb, or the error; warnings, output, and what the ledger holds."""
    with captured() as read, warnings.catch_warnings(record=True) as warned, same_coins():
        warnings.simplefilter("always")
        seen = _outcome(ask)
        seen["output"] = read()
    seen["warnings"] = [(str(one.category), str(one.message)) for one in warned if _is_ours(one)]
    seen["ledger"] = None if ledger is None else ledger_content(ledger)
    return seen


def _is_ours(warned: warnings.WarningMessage) -> bool:
    """Files that the garbage collector closes late are no matter of the query's."""
    return not issubclass(warned.category, ResourceWarning)


def _outcome(ask: Callable[[], Any]) -> dict[str, Any]:
    try:
        answer = ask()
    except ThresherError as error:
        return {"error": type(error).__name__, "code": error.code, "message": error.message, "hint": error.hint}
    except BaseException as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {
        "json": answer.to_json(),
        "schema": str(answer.to_arrow().schema),
        "rows": str(answer.to_arrow().to_pylist()),
        "shown": repr(answer),
    }


def ledger_content(ledger: th.Ledger) -> list[Any]:
    """All that a ledger holds but times and references, which are drawn."""
    hidden = {"time", "ended", "reference"}
    return [{name: value for name, value in row.items() if name not in hidden} for row in ledger.to_arrow().to_pylist()]


def observe_command(arguments: list[str], folder: Path) -> dict[str, Any]:
    """What a command prints, writes and exits with. It runs in this process, with the same coins."""
    output = folder / "answer.json"
    with pytest.MonkeyPatch.context() as patch, captured() as read, same_coins():
        patch.setattr(sys, "argv", ["thresher", *arguments])
        patch.setenv("COLUMNS", "120")
        try:
            main()
            code: Any = 0
        except SystemExit as ended:
            code = ended.code
        out, error = read()
    written = output.read_text() if output.exists() else None
    output.unlink(missing_ok=True)
    return {"code": code or 0, "out": out, "error": error, "written": written}

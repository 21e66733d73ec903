"""Errors on standard error: one look, whether Thresher raised them or Typer; with `--json` one JSON document."""

from __future__ import annotations

import re
import sys
from typing import Any

import typer
from rich.text import Text

from thresher.cli.output import as_json, errors, plain, say

CLICK_ERROR: Any = typer.BadParameter.__mro__[2]
"""The base of usage errors: Click's, or the copy of it that newer releases of Typer have."""

_COMMA = re.compile(r"(?:--[a-z-]+=)?([+-]?[0-9]+),([0-9]+)")
_KIND = re.compile(r"Input should be a valid (\w+)(, .*)?")


def show_error(code: str, status: int, message: str, hint: str = "") -> None:
    """An error in lines for people; with `--json` as the problem that the HTTP API has for it."""
    if "--json" in sys.argv[1:]:
        from thresher.server.problem import problem

        content = as_json(plain(problem(status, code, message, hint)), getattr(sys.stderr, "encoding", None) or "utf-8")
        typer.echo(content, err=True)
        return
    say(Text.assemble(("error", "bold red"), f" ({code}): {message}"), on=errors)
    if hint:
        say(hint, "dim", on=errors)


def show_click_error(error: Any) -> int:
    """An error of how a command was written; where nothing was, its help. Returns the exit code."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return int(error.exit_code)
    message = _KIND.sub(r"it must be a valid \1", error.format_message()).rstrip(".")
    message += "" if message.endswith("?") else "."
    context = getattr(error, "ctx", None)
    hint = "" if context is None else f"{context.command_path} --help says more."
    number = next(filter(None, map(_COMMA.fullmatch, sys.argv[1:])), None)
    if number is not None and re.search("valid (number|float)", message):
        hint = f"Write {number[1]}.{number[2]}, with a point."
    show_error("invalid-setting", 422, message, hint)
    return int(error.exit_code)

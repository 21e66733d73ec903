"""Problems in the words of the console. The server's own words are also for programs: they name settings and routes."""

from __future__ import annotations

import ast
import re

import msgspec

from thresher.errors import ThresherError
from thresher.protocol.messages import Problem
from thresher.server.problem import on_the_wire, problem_of
from thresher.verbs.asking import functions
from thresher.verbs.settings import settings_of

_SENT_BEFORE = "This form was sent before, and was changed since."
_ONE_VALUE = re.compile(r"^For example “[^”]*” (\S+)\.$")
"""A hint with one setting: the value stands beside its field, and needs no name."""


def shown_problem(error: BaseException) -> Problem:
    """What a page says of an error.

    Guarantee: has the status and the code of `problem_of`, and tells no more than that does.
    """
    problem = problem_of(error)
    detail, hint = problem.detail, problem.hint
    if isinstance(error, ThresherError) and (detail, hint) == error.worded("wire", on_the_wire):  # nothing is hidden
        detail, hint = error.worded("page", on_a_page)
    if "Retry-After" in hint:
        hint = "Wait a moment, then try again."
    elif problem.code == "not-found" and "GET /v1/" in hint:
        hint = f"The page {'Series' if '/v1/series' in hint else 'Queries'} lists them."
    elif problem.code == "conflict" and "is stored under this name" in detail:
        detail, hint = _SENT_BEFORE, "What it asked for then stays as it is. Send it again to ask for this, too."
    else:
        hint = _ONE_VALUE.sub(r"For example \1.", hint)
    return msgspec.structs.replace(problem, detail=detail, hint=hint)


def on_a_page(name: str, value: str | None) -> str:
    """A setting in a message or a hint, under the title that it has on the form; a name alone stays as it is."""
    if value is None:
        return name
    described = (settings_of(function).get(name) for function in functions().values())
    title = next((each.title.lower() for each in described if each is not None), name.replace("_", " "))
    return f"“{title}” {_shown(value)}"


def _shown(value: str) -> str:
    """A value as people type it into a form."""
    try:
        read = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    return ", ".join(map(str, read)) if isinstance(read, list | tuple) else str(read)

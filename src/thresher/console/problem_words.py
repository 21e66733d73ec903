"""Problems in the words of the console. The server's own words are also for programs: they name settings and routes."""

from __future__ import annotations

import re

import msgspec

from thresher.protocol.messages import Problem
from thresher.server.problem import problem_of

_SENT_BEFORE = "This form was sent before, and was changed since."
_SETTING = re.compile(r"^For example [a-z_]+=([^\s,=]+)\.$")
"""A hint with one setting as Python has it."""


def shown_problem(error: BaseException) -> Problem:
    """What a page says of an error.

    Guarantee: has the status and the code of `problem_of`, and tells no more than that does.
    """
    problem = problem_of(error)
    detail, hint = problem.detail, problem.hint
    if "Retry-After" in hint:
        hint = "Wait a moment, then try again."
    elif problem.code == "budget-exceeded" and "ledger.plan" in hint:
        hint = "Nothing was drawn. Ask for less: a smaller epsilon or delta, or fewer releases."
    elif problem.code == "not-found" and "GET /v1/" in hint:
        hint = f"The page {'Series' if '/v1/series' in hint else 'Queries'} lists them."
    elif problem.code == "conflict" and "is stored under this name" in detail:
        detail, hint = _SENT_BEFORE, "What it asked for then stays as it is. Send it again to ask for this, too."
    else:
        hint = _SETTING.sub(r"For example \1.", hint)
    return msgspec.structs.replace(problem, detail=detail, hint=hint)

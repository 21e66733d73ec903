"""Errors in the words of the command: settings are options."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from thresher.errors import ThresherError
from thresher.verbs.asking import functions
from thresher.verbs.settings import Edges, Setting, settings_of

_REQUEST = re.compile(r"\bGET /v1/\S+ or (?=thresher )")
"""How a server says in a hint what HTTP has for it, before it names the command."""
_RENAMED = {"types": "type"}
"""Options that are called otherwise than the argument, besides those that their setting names."""


def in_command_words(error: ThresherError, options: Sequence[str]) -> tuple[str, str]:
    """Message and hint of an error; `options` are those of the command that was run.

    A setting with a value is always shown as an option. A name alone is one if the command has that option: it may also
    be an argument.
    """

    def naming(name: str, value: str | None) -> str:
        option = f"--{_option(name)}"
        if value is None:
            return option if option in options else name
        return _given(option, name, value)

    message, hint = error.worded("command", naming)
    return message, _REQUEST.sub("", hint)


def _described(name: str) -> Setting | None:
    found = (settings_of(function).get(name) for function in functions().values())
    return next((each for each in found if each is not None), None)


def _option(name: str) -> str:
    setting = _described(name)
    return ((setting and setting.option) or _RENAMED.get(name, name)).replace("_", "-")


def _given(option: str, name: str, value: str) -> str:
    """An option with its value as it is typed."""
    try:
        read = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return f"{option} {value}"
    if isinstance(read, Mapping):
        return " ".join(f"{option} {_typed(f'{key}={each}')}" for key, each in read.items())
    if isinstance(read, list | tuple):
        if isinstance(_described(name), Edges):
            return f"{option} {','.join(map(str, read))}"
        return " ".join(f"{option} {_typed(each)}" for each in read)
    if isinstance(read, bool):
        return f"{option} {'yes' if read else 'no'}"
    return f"{option} {value if isinstance(read, float) else _typed(read)}"  # 1e-8 stays 1e-8


def _typed(value: Any) -> str:
    return shlex.quote(str(value))

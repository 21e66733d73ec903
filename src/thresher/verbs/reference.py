"""The reference of the verbs as Markdown, made from their settings. `scripts/reference` writes docs/verbs.md."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from thresher.verbs.asking import Asking, function_of, functions
from thresher.verbs.settings import Cases, Setting, settings_of

_HEAD = """# The verbs

Made from the verbs' settings by `scripts/reference`; do not edit it here.

Every verb is a function of `thresher`, a command (`thresher VERB FILE`, `thresher fleet query VERB ATTRIBUTE`), a form
of the console and a query over HTTP (`POST /v1/queries`). Its settings are the same at every door.
"""


def reference() -> str:
    """The whole page."""
    parts = [_HEAD, *(reference_of(verb) for verb in functions()), _common()]
    return "\n".join(parts)


def reference_of(verb: str) -> str:
    """One verb: what it does, and a row for each setting."""
    words = (inspect.getdoc(function_of(verb)) or "").partition("\n\nArgs:")[0]
    own = (each for each in settings_of(function_of(verb)).values() if each.name not in Asking.__annotations__)
    rows = [_row(setting) for setting in own]
    table = ["| setting | on the command line | default | meaning |", "|---|---|---|---|", *rows]
    return "\n".join([f"## `thresher.{verb}`", "", words, "", *table, ""])


def _row(setting: Setting) -> str:
    option = f"--{(setting.option or setting.name).replace('_', '-')}"
    stands_for = setting.stands_for
    default = "required" if setting.required else "" if stands_for is None else f"`{stands_for}`"
    words = setting.help
    if setting.choices:
        words += f" One of {', '.join(f'`{word}`' for word in setting.choices)}."
    if setting.only is not None:
        name, wanted = setting.only
        words += f" Only with {wanted.words if isinstance(wanted, Cases) else f'`{name}` = `{wanted}`'}."
    return f"| `{setting.name}` | `{option}` | {default} | {words} |"


def _common() -> str:
    words = inspect.getdoc(Asking) or ""
    return "\n".join(["## What every verb takes", "", *_definitions(words.partition("Args:\n")[2]), ""])


def _definitions(text: str) -> Iterator[str]:
    """The lines of a docstring's `Args:` as a list."""
    for line in inspect.cleandoc(text).splitlines():
        if line.startswith(" "):
            yield f"  {line.strip()}"
        else:
            names, _, words = line.partition(": ")
            yield f"- `{names}`: {words}"

"""Commands whose options are put together from several descriptions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, get_type_hints

from typer.core import TyperGroup


class Commands(TyperGroup):
    """A group whose help shows the first sentence of each command whole: by itself Typer cuts it to one line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for each in self.commands.values():
            each.short_help = each.short_help or _first_sentence(each.help or "")


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    first, dot, _ = paragraph.partition(". ")
    return first + dot.strip()


def parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """An option or argument of a command, as Typer reads one."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def command(
    name: str, words: str, parameters: Iterable[inspect.Parameter], body: Callable[..., None]
) -> Callable[..., None]:
    """A function with this signature, as Typer reads it; parameters without a default come first."""
    ordered = sorted(parameters, key=lambda each: each.default is not inspect.Parameter.empty)

    def run(**values: Any) -> None:
        body(**values)

    run.__name__ = name
    run.__doc__ = words
    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in ordered}
    return run


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function that Typer could read itself, with their annotations resolved."""
    hints = get_type_hints(function, include_extras=True)
    return [
        parameter(name, hints[name], each.default)
        for name, each in inspect.signature(function).parameters.items()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]

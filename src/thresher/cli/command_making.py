"""Commands whose options are put together from several descriptions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, get_type_hints


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

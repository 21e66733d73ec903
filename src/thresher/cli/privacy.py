"""`thresher privacy delta|epsilon`: what a sampling rate and a threshold guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.text import Text

from thresher.cli import options
from thresher.cli.command_making import Commands, command, parameter, parameters_of
from thresher.cli.output import print_json, say
from thresher.privacy import delta as delta_of
from thresher.privacy import epsilon as epsilon_of

app = typer.Typer(help="What a sampling rate and a threshold guarantee.", no_args_is_help=True, cls=Commands)

Rate = Annotated[float, typer.Option(help="Sampling rate, between 0 and 1.", show_default=False)]
Threshold = Annotated[int, typer.Option(help="Threshold, 1 or more.", show_default=False)]


def _command(name: str, given: str, words: str, compute: Callable[..., float]) -> None:
    """One of the two commands: from epsilon to delta, or back."""

    def run(
        sampling_rate: Rate,
        threshold: Threshold,
        rounds: options.Rounds = 1,
        contributions: options.Contributions = 1,
        adjacency: options.Adjacency = "replace",
        json: options.Json = False,
        **target: float,
    ) -> None:
        settings: dict[str, Any] = {"sampling_rate": sampling_rate, "threshold": threshold, "rounds": rounds}
        settings |= {"contributions": contributions} if contributions != 1 else {}
        settings |= {"adjacency": adjacency}
        _answer(name, compute(**settings, **target), settings | target, json)

    asked = Annotated[float, typer.Option(help=f"{given.capitalize()}.", show_default=False)]
    app.command(name)(command(name, words, [*parameters_of(run), parameter(given, asked)], run))


_command("delta", "epsilon", "The delta that is guaranteed at an epsilon.", delta_of)
_command("epsilon", "delta", "The smallest epsilon that is guaranteed at a delta.", epsilon_of)


def _answer(name: str, value: float, settings: dict[str, Any], json: bool) -> None:
    if json:
        print_json({name: value if math.isfinite(value) else None, **settings})
        return
    if math.isinf(value):
        say(
            f"{name}: none. With this probability or more a bucket of exactly {settings['threshold']} units is sampled "
            "whole, which no finite epsilon covers."
        )
        return
    known = ", ".join(f"{key.replace('_', ' ')} {setting}" for key, setting in settings.items())
    say(Text.assemble(f"{name} = ", (f"{value:.6g}", "bold"), f"  ({known})"))

"""`thresher privacy delta|epsilon`: what a sampling rate and a threshold guarantee."""

from __future__ import annotations

import math
from typing import Annotated, Any, cast

import typer

from thresher.cli import options
from thresher.cli.output import console, print_json
from thresher.privacy import Adjacency as AdjacencyName
from thresher.privacy import delta as delta_of
from thresher.privacy import epsilon as epsilon_of

app = typer.Typer(help="What a sampling rate and a threshold guarantee.", no_args_is_help=True)

Rate = Annotated[float, typer.Option(help="Sampling rate, between 0 and 1.", show_default=False)]
Threshold = Annotated[int, typer.Option(help="Threshold, 1 or more.", show_default=False)]


@app.command("delta")
def delta(
    sampling_rate: Rate,
    threshold: Threshold,
    epsilon: Annotated[float, typer.Option(help="Epsilon.", show_default=False)],
    rounds: options.Rounds = 1,
    adjacency: options.Adjacency = "replace",
    json: options.Json = False,
) -> None:
    """The delta that is guaranteed at an epsilon."""
    settings = _settings(sampling_rate, threshold, rounds, adjacency)
    _answer("delta", delta_of(epsilon=epsilon, **settings), settings | {"epsilon": epsilon}, json)


@app.command("epsilon")
def epsilon(
    sampling_rate: Rate,
    threshold: Threshold,
    delta: Annotated[float, typer.Option(help="Delta.", show_default=False)],
    rounds: options.Rounds = 1,
    adjacency: options.Adjacency = "replace",
    json: options.Json = False,
) -> None:
    """The smallest epsilon that is guaranteed at a delta."""
    settings = _settings(sampling_rate, threshold, rounds, adjacency)
    _answer("epsilon", epsilon_of(delta=delta, **settings), settings | {"delta": delta}, json)


def _settings(sampling_rate: float, threshold: int, rounds: int, adjacency: str) -> dict[str, Any]:
    return {
        "sampling_rate": sampling_rate,
        "threshold": threshold,
        "rounds": rounds,
        "adjacency": cast(AdjacencyName, adjacency),
    }


def _answer(name: str, value: float, settings: dict[str, Any], json: bool) -> None:
    if json:
        print_json({name: value if math.isfinite(value) else None, **settings})
        return
    if math.isinf(value):
        console.print(
            f"{name}: none. With this probability or more a bucket of exactly {settings['threshold']} units is sampled "
            "whole, which no finite epsilon covers.",
            soft_wrap=True,
        )
        return
    known = ", ".join(f"{key} {setting}" for key, setting in settings.items())
    console.print(f"{name} = [bold]{value:.6g}[/]  ({known})", soft_wrap=True)

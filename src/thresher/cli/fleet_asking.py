"""What commands that ask a fleet share: warnings before anything is spent, and what to do when a line breaks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from thresher.cli.command_making import Commands
from thresher.cli.output import errors, is_terminal, say
from thresher.cli.warnings_shown import said, switched_off
from thresher.errors import InvalidFormat, ServerUnavailable, WeakGuarantee

if TYPE_CHECKING:
    from thresher.protocol.analyst_messages import Caution


class AnyOrder(Commands):
    """Finds the verb also where options stand before it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the verb first."""
        place = next((index for index, word in enumerate(args) if word in self.commands), 0)
        return super().parse_args(ctx, [*args[place : place + 1], *args[:place], *args[place + 1 :]])


def confirm(warnings: Sequence[Caution], epsilon: float, delta: float, yes: bool, *, price: str = "") -> None:
    """Say what speaks against asking before anything is charged; where a person is there, ask whether to go on.

    `price` says what it takes of the budget.
    """
    warnings = [each for each in warnings if not (each.code == WeakGuarantee.code and switched_off())]
    for caution in warnings:
        said(caution.code, caution.text)
    if not warnings or yes or not is_terminal():
        return
    if price:
        say(price, on=errors)
    if not typer.confirm(f"Ask anyway, spending epsilon {epsilon:g} and delta {delta:g}?", err=True):
        say("Nothing was asked, and nothing was spent.", on=errors)
        raise typer.Exit(1)


@contextlib.contextmanager
def said_on_failure(text: str) -> Iterator[None]:
    """If the server is lost or a person gives up, say how to find the query again."""
    try:
        yield
    except (ServerUnavailable, InvalidFormat, KeyboardInterrupt):
        say(text, on=errors)
        raise

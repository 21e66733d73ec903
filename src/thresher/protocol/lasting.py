"""How long a query takes in all: the rounds of one step are open at the same time, steps come one after another."""

from __future__ import annotations

from thresher.ledger.durations import in_words


def time_in_words(steps: int, rounds: int, seconds: float, *, early: bool = False) -> str:
    """How long a query of so many steps and rounds takes, in a sentence.

    Args:
        steps: how many times its rounds are waited for.
        rounds: how many rounds it has in all.
        seconds: how long one round is open.
        early: whether rounds may close before their time is over.
    """
    most = "at most " if early else ""
    if steps == 1:
        together = "" if rounds == 1 else f": its {rounds:,} rounds are open at the same time"
        return f"It takes {most}{in_words(seconds)} in all{together}."
    together = "" if steps >= rounds else "; the rounds of a step are open at the same time"
    number = f"up to {steps:,} steps of {in_words(seconds)}"
    return f"It takes {most}{in_words(steps * seconds)} in all, {number} one after another{together}."

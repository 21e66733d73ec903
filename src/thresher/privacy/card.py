"""A plan as a card that a person can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thresher.privacy.plans import Plan


def card(plan: Plan) -> str:
    """The plan, its promise, what will be seen, and the paper's rule for comparison, as lines of text."""
    paper = plan.versus_paper()
    rounds = "one round" if plan.rounds == 1 else f"each of {plan.rounds} rounds"
    sample = f"{plan.sampling_rate:.4g} of all units, in {rounds} (exactly {plan.sampling_rate!r})"
    lines = [
        "Thresher plan",
        f"  sample      {sample}",
        f"  threshold   counts below {plan.threshold} in the sample are dropped",
        f"  guarantee   {plan.promise()}",
        f"  seen        with 95 % probability: buckets of {plan.smallest_visible(0.95):,} units or more",
        f"              with 50 % probability: buckets of {plan.smallest_visible(0.5):,}",
        f"  error       {_errors(plan)}",
        f"  the paper   for the same target: rate {paper.sampling_rate:.4g}, threshold {paper.threshold}, sees "
        f"{paper.smallest_visible:,} ({paper.best_alpha_visible:,} at best);",
        f"              this plan samples {paper.rate_factor:.2g} times as many units and sees buckets "
        f"{paper.visible_factor:.2g} times smaller",
    ]
    return "\n".join(lines)


def _errors(plan: Plan) -> str:
    sizes = (1_000, 100_000)
    parts = [f"{plan.relative_error(size):.2g} of a bucket of {size:,}" for size in sizes]
    return "typically " + ", ".join(parts)

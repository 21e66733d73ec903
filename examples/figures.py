"""The paper's trade-off beside ours: `make figures` writes PNG and SVG to out/figures/."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

import thresher as th
from thresher.cli.planning import draw

OUT = Path("out/figures")
TARGETS = [(1.0, 1e-8, 1), (0.1, 1e-8, 1), (1.0, 1e-8, 10)]


def main() -> None:
    """One frontier a target, with the plan and the paper's rule marked on it."""
    console = Console(highlight=False)
    OUT.mkdir(parents=True, exist_ok=True)
    for epsilon, delta, rounds in TARGETS:
        plan = th.plan(epsilon=epsilon, delta=delta, rounds=rounds)
        name = f"frontier-epsilon-{epsilon:g}-rounds-{rounds}"
        for suffix in ("png", "svg"):
            draw(plan, OUT / f"{name}.{suffix}")
        paper = plan.versus_paper()
        console.print(
            f"{name}: this plan sees buckets of {plan.smallest_visible():,}, the paper's {paper.smallest_visible:,}"
        )


if __name__ == "__main__":
    main()

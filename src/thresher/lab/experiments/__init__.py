"""The paper's experiments: histograms beside their rivals, sweeps, common words, quantiles, numeric examples."""

from __future__ import annotations

from thresher.lab.experiments.catalogue import EXPERIMENTS, OTHERS, run_experiments, write_tables
from thresher.lab.experiments.claims import Verdict, judge
from thresher.lab.experiments.examples import Example, examples
from thresher.lab.experiments.settings import Settings, fast, full

__all__ = [
    "EXPERIMENTS",
    "OTHERS",
    "Example",
    "Settings",
    "Verdict",
    "examples",
    "fast",
    "full",
    "judge",
    "run_experiments",
    "write_tables",
]

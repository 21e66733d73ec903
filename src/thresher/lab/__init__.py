"""The laboratory: the paper's experiments, the mechanisms it is compared with, and their data.

Everything here is for experiments on public or synthetic data. Its randomness is seeded and repeatable, so nothing it
returns is a private release; people's data belongs in `thresher.histogram` and its sisters.
"""

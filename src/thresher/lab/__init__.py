"""The laboratory: the paper's experiments, the mechanisms it is compared with, their data, and the audit.

Everything here is for experiments on public or synthetic data. Experiments are seeded and repeatable, so nothing they
return is a private release; people's data belongs in `thresher.histogram` and its sisters. The audit draws from the
secure source, as users do, on populations of its own making.
"""

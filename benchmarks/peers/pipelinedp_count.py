"""PipelineDP on its local backend: unknown keys, rows known to be one per person so that nothing is bounded again."""

from __future__ import annotations

from typing import Any

import pipeline_dp
import pyarrow.parquet as pq

from peers.runner import DELTA, EPSILON, main


def query(path: str) -> tuple[Any, Any]:
    keys = pq.read_table(path, columns=["key"])["key"].to_pylist()
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    parameters = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        contribution_bounds_already_enforced=True,
    )
    extractors = pipeline_dp.DataExtractors(partition_extractor=lambda key: key, value_extractor=lambda key: 0)
    lazy = engine.aggregate(keys, parameters, extractors)
    accountant.compute_budgets()
    released = [(key, metrics.count) for key, metrics in lazy]
    return [key for key, _ in released], [count for _, count in released]


if __name__ == "__main__":
    main("pipelinedp", "pipeline-dp", query, "unknown keys; half of epsilon selects them, half counts")

"""OpenDP: unknown keys through its Polars API; each row is one contribution."""

from __future__ import annotations

from typing import Any

import opendp.prelude as dp
import polars as pl

from peers.runner import DELTA, EPSILON, main

dp.enable_features("contrib")


def query(path: str) -> tuple[Any, Any]:
    context = dp.Context.compositor(
        data=pl.scan_parquet(path).select("key"),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=EPSILON, delta=DELTA),
        split_evenly_over=1,
    )
    released = context.query().group_by("key").agg(dp.len(signed=True)).release().collect()
    return released["key"].to_arrow(), released["len"].to_arrow()


if __name__ == "__main__":
    main("opendp", "opendp", query, "unknown keys; Laplace noise and a threshold in one step")

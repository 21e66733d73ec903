"""diffprivlib: a histogram over a public range, the only kind it has; delta is not used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.parquet as pq
from diffprivlib import tools

from peers.data import DOMAIN
from peers.runner import EPSILON, main


def query(path: str) -> tuple[Any, Any]:
    keys = pq.read_table(path, columns=["key"])["key"].to_numpy()
    counts, _ = tools.histogram(keys, epsilon=EPSILON, bins=DOMAIN, range=(0.5, DOMAIN + 0.5))
    return np.arange(1, DOMAIN + 1), counts


if __name__ == "__main__":
    main("diffprivlib", "diffprivlib", query, f"public keys 1…{DOMAIN:,}, all released; delta = 0")

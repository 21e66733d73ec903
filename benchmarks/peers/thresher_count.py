"""Thresher: unknown keys, straight from the file."""

from __future__ import annotations

from typing import Any

import thresher as th
from peers.runner import DELTA, EPSILON, main


def query(path: str) -> tuple[Any, Any]:
    released = th.histogram(path, "key", epsilon=EPSILON, delta=DELTA).to_arrow()
    return released["key"].combine_chunks(), released["estimate"].combine_chunks()


if __name__ == "__main__":
    main("thresher", "thresher", query, "unknown keys; a sample and a threshold")

"""Runs where only thresher-device is installed: everything that a device does, and what was loaded for it.

python -S device_alone.py SERVER KEY STATE VECTORS POLICY
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main(server: str, key: str, state: str, vectors: str, policy: str) -> None:
    import thresher

    loaded = sorted(name for name in sys.modules if name.startswith("thresher"))
    from thresher import Device, Policy
    from thresher.errors import InvalidSetting, MissingExtra

    refusals = []
    for use in (lambda: thresher.histogram, lambda: thresher.privacy.plan, lambda: Policy(max_epsilon=2)):
        try:
            use()
        except (MissingExtra, InvalidSetting) as error:
            refusals.append(f"{error.message} {error.hint}")
    attributes = {"word": lambda: "hello", "tags": ["a", "b"]}
    with Device(server, key, attributes, state, policy=Policy.from_file(policy)) as device:
        for _ in range(60):  # until both rounds are open
            device.check_in()
            if len(outcomes := device.core.outcomes()) == 2:
                break
            time.sleep(0.5)
    found = {
        "first": loaded,
        "device": f"{Device.__module__}.{Device.__qualname__}",
        "refusals": refusals,
        "outcomes": [[each.status, each.reason] for each in outcomes],
        "decided": decided(json.loads(Path(vectors).read_text())),
        "modules": sorted(name for name in sys.modules if name.startswith("thresher")),
        "heavy": sorted(
            {name.partition(".")[0] for name in sys.modules}
            & {"numpy", "scipy", "pyarrow", "duckdb", "dp_accounting", "narwhals", "pandas", "rich", "typer"}
        ),
        "where": str(Path(thresher.__file__).parent),
    }
    print(json.dumps(found))


def decided(vectors: list[dict]) -> int:
    """How many limits and costs of the default policy are as the vectors say."""
    from thresher.device.policy import Policy

    prices, right = Policy().prices, 0
    for vector in vectors:
        if vector["policy"] == "default":
            round = vector["round"]
            times = round["rounds"] * round["contributions"]
            assert prices.limit(times, round["threshold"]) == vector["limit"], vector
            assert prices.cost(times, round["threshold"], vector["rate"]) == vector["cost"], vector
            right += 1
    return right


if __name__ == "__main__":
    main(*sys.argv[1:])

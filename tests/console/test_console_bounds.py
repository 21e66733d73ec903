"""What may be asked is the same at every door, and what may not is refused before anything is charged."""

from __future__ import annotations

import asyncio
import functools
import json
import sys
from pathlib import Path

import httpx
import pytest
from console_client import CSRF
from typer.testing import CliRunner

sys.path.append(str(Path(__file__).parents[1] / "fleet"))
from server_cases import inside

import thresher as th
from thresher.cli import fleet as commands
from thresher.cli import fleet_options
from thresher.client.fleet import Fleet
from thresher.console import ask_form as asking
from thresher.console.adapter import console_pages
from thresher.errors import ThresherError
from thresher.questions import Bins, Values
from thresher.verbs import HeavyHittersQuery, HistogramQuery, QuantilesQuery, QueryTaker, RangesQuery
from thresher.verbs import asking as verbs

planned = functools.cache(th.plan)  # each of the doors plans the same
YEAR = 366 * 86_400
EPSILON, DELTA = 0.25, 1e-9
NAN = float("nan")
ANYWAY = "few-devices,short-round,policy,device-budget"  # no device is here

ROUNDS = {
    "contact_rate": ([1.0, 0.5], [0.0, 1.0001, -0.5, 1e-9, NAN]),
    "seconds": ([0.1, YEAR], [0.0, -1.0, 1e-300, 0.099, YEAR + 60.0, NAN]),
    "completions": ([1, 1 << 40], [0, -1, (1 << 40) + 1]),
    "bucket_size": ([48, 4096], [0, 32, 40, 47, 4097]),
    "sampled_by": (["device", "aggregator"], ["nobody"]),
}
"""Just inside and just outside, for every setting of a round."""
QUERIES = {
    "name": (["a", "a" * 100], ["a" * 101, "a b", "-a", "é"]),
    "column": (["x" * 200], ["x" * 201, "estimate"]),
    "epsilon": ([EPSILON], [0.0, -1.0, 100.5, NAN, 1e-5]),
    "delta": ([DELTA], [0.0, 1.0, -1.0, NAN]),
    "bins": ([1, 1000], [0, 1_000_001]),
    "step": ([2], [0, 100_000]),
    "probability": ([0.001], [0.0, 1.0, NAN]),
    "branching": ([2], [1, 100_000]),
    "lower": ([-1.0], [100.0, 101.0, NAN]),
    "levels": ([1], [0]),
}
KINDS = {
    **dict.fromkeys(("bins",), "bins"),
    **dict.fromkeys(("step",), "trie"),
    **dict.fromkeys(("probability",), "quantiles"),
    **dict.fromkeys(("branching", "lower", "levels"), "ranges"),
}
CASES = [
    (field, value, expected)
    for table in (ROUNDS, QUERIES)
    for field, sides in table.items()
    for values, expected in zip(sides, (True, False), strict=True)
    for value in values
]


class _Named(QueryTaker):
    """Submits to a fleet under a given name."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.fleet, self.name = fleet, name

    def submit(self, query, *, wait, progress):
        return self.fleet.submit(query, wait=wait, progress=progress, name=self.name, warn=False)


class Doors:
    """One server, and four ways to ask it."""

    def __init__(self, server, monkeypatch) -> None:
        self.server = server
        self.number = 0
        self.loop = asyncio.new_event_loop()
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(server.app), base_url="http://server")
        mark = CSRF.search(self._run(self.http.get("/login")).text)[1]
        self._run(self.http.post("/login", data={"csrf": mark, "token": server.token("analyst")}))
        self.csrf = CSRF.search(self._run(self.http.get("/")).text)[1]
        monkeypatch.setattr(fleet_options, "connected", lambda *given: self._fleet())
        for module in (verbs, asking):
            monkeypatch.setattr(module, "make_plan", planned)

    def close(self) -> None:
        self._run(self.http.aclose())
        self.loop.close()

    def _run(self, work):
        return self.loop.run_until_complete(work)

    def _fleet(self) -> Fleet:
        def handle(request: httpx.Request) -> httpx.Response:
            answer = self.server.ask(
                request.method, request.url.path, self.server.token("analyst"), content=request.content
            )
            return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)

        return Fleet("http://server", self.server.token("analyst"), transport=httpx.MockTransport(handle))

    def settings(self, field: str, value) -> dict:
        self.number += 1
        plain = {
            "name": f"n{self.number}",
            "column": "word",
            "epsilon": EPSILON,
            "delta": DELTA,
            "lower": 0.0,
            "levels": 2,
            "branching": 4,
            "step": 1,
            "probability": 0.5,
            "bins": 10,
            "kind": KINDS.get(field, "values"),
            "rounds": {},
        }
        if field in ROUNDS:
            return plain | {"rounds": {field: value}}
        return plain | {field: value}

    # Each returns whether the query was taken.

    def python(self, given: dict) -> bool:
        fleet = self._fleet()
        try:
            fleet = fleet.with_rounds(**given["rounds"])
            target = {"epsilon": given["epsilon"], "delta": given["delta"]}
            taker = _Named(fleet, given["name"])
            bounds = {"lower": given["lower"], "upper": 100.0}
            if given["kind"] == "values":
                th.histogram(taker, given["column"], **target, wait=False)
            elif given["kind"] == "bins":
                th.histogram(taker, given["column"], bins=given["bins"], **bounds, **target, wait=False)
            elif given["kind"] == "trie":
                levels = {"levels": given["levels"], "step": given["step"], "method": "trie"}
                th.heavy_hitters(taker, given["column"], **levels, **target, wait=False)
            elif given["kind"] == "quantiles":
                levels = {"levels": given["levels"], "branching": given["branching"], "method": "hierarchy"}
                th.quantiles(taker, given["column"], [given["probability"]], **levels, **bounds, **target, wait=False)
            else:
                levels = {"levels": given["levels"], "branching": given["branching"]}
                th.ranges(taker, given["column"], **levels, **bounds, **target, wait=False)
        except ThresherError:
            return False
        return True

    def command(self, given: dict) -> bool:
        verb = {"values": "histogram", "bins": "histogram", "trie": "heavy-hitters"}.get(given["kind"], given["kind"])
        options = {name: given[name] for name in ("epsilon", "delta", "name")}
        if given["kind"] == "bins":
            options |= {"bins": given["bins"]}
        if given["kind"] in ("bins", "quantiles", "ranges"):
            options |= {"lower": given["lower"], "upper": 100.0}
        if given["kind"] == "trie":
            options |= {"method": "trie", "levels": given["levels"], "step": given["step"]}
        if given["kind"] == "quantiles":
            options |= {"method": "hierarchy", "quantile": given["probability"]}
        if given["kind"] in ("quantiles", "ranges"):
            options |= {"levels": given["levels"], "branching": given["branching"]}
        arguments = ["query", verb, given["column"], "--server", "http://server", "--no-wait"]
        for name, value in (options | given["rounds"]).items():
            arguments.append(f"--{name.replace('_', '-')}={value}")
        result = CliRunner().invoke(commands.app, arguments)
        assert result.exit_code == 0 or isinstance(result.exception, ThresherError | SystemExit), result.exception
        return result.exit_code == 0

    def wire(self, given: dict) -> bool:
        """What no client of ours would send: the plan is a good one wherever the bad target has none."""
        try:
            plan = planned(given["epsilon"], given["delta"], rounds=self._rounds(given))
        except ThresherError:
            plan = planned(EPSILON, DELTA, rounds=1 if given["kind"] in ("values", "bins") else 2)
            content = plan.to_dict() | {name: given[name] for name in ("epsilon", "delta")}
            if given["kind"] == "ranges":
                content["rounds"] = given["levels"]
        else:
            content = plan.to_dict()
        make = {
            "values": lambda: HistogramQuery(Values("word"), plan),
            "bins": lambda: HistogramQuery(Bins("word", (0.0, 1.0)), plan),
            "trie": lambda: HeavyHittersQuery("word", plan, "trie", 1),
            "quantiles": lambda: QuantilesQuery("word", (0.5,), plan, 0.0, 100.0, "hierarchy"),
            "ranges": lambda: RangesQuery("word", plan, 0.0, 100.0, 4),
        }[given["kind"]]
        query = make().to_dict() | {"plan": content}
        names = {"trie": ("column", "step"), "quantiles": ("column", "lower", "branching")}
        if given["kind"] in ("values", "bins"):
            query["question"] |= (
                {"column": given["column"]} if given["kind"] == "bins" else {"columns": [given["column"]]}
            )
            if given["kind"] == "bins":
                query["question"]["edges"] = [
                    100.0 * index / max(given["bins"], 1) for index in range(given["bins"] + 1)
                ]
        else:
            for name in names.get(given["kind"], ("column", "lower", "branching")):
                query[name] = given[name]
        if given["kind"] == "quantiles":
            query["probabilities"] = [given["probability"]]
        body = {"name": given["name"], "query": query, "settings": given["rounds"]}
        content = json.dumps(body).encode()
        answer = self.server.ask("POST", "/v1/queries", self.server.token("analyst"), content=content)
        assert answer.status_code in (200, 400, 413, 422), answer.text
        return answer.status_code == 200

    def _rounds(self, given: dict) -> int:
        return 1 if given["kind"] in ("values", "bins") else given["levels"]

    def console(self, given: dict) -> bool:
        verb = {"values": "histogram", "bins": "histogram", "trie": "heavy_hitters"}.get(given["kind"], given["kind"])
        form = {"verb": verb, "attribute": given["column"], "name": given["name"]}
        form |= {"epsilon": given["epsilon"], "delta": given["delta"]}
        form |= {
            "histogram_group": "bins" if given["kind"] == "bins" else "values",
            "histogram_bins": given["bins"],
        }
        form |= {
            "histogram_lower": given["lower"],
            "heavy_hitters_method": "trie",
            "heavy_hitters_levels": given["levels"],
        }
        form |= {"heavy_hitters_step": given["step"], "quantiles_probabilities": given["probability"]}
        form |= {"quantiles_levels": given["levels"], "quantiles_upper": 100, "quantiles_lower": given["lower"]}
        form |= {"ranges_lower": given["lower"], "ranges_upper": 100, "ranges_levels": given["levels"]}
        form |= {"ranges_branching": given["branching"]}
        rounds = dict(given["rounds"])
        if "seconds" in rounds:
            rounds["minutes"] = repr(rounds.pop("seconds") / 60)
        if "contact_rate" in rounds:
            rounds["contact"] = repr(100 * rounds.pop("contact_rate"))
        form = {name: str(value) for name, value in (form | rounds).items()}
        agreed = asking.agreement(asking.filled(form))
        answer = self._run(self.http.post(f"/ask?agreed={agreed}&anyway={ANYWAY}", data={**form, "csrf": self.csrf}))
        assert answer.status_code in (303, 400, 422), answer.text
        return answer.status_code == 303


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("doors") / "data"
        with inside(path, pages=console_pages, budget_epsilon=100.0, budget_delta=0.1) as server:
            opened = Doors(server, patch)
            yield opened
            opened.close()


@pytest.mark.slow
@pytest.mark.parametrize(("field", "value", "expected"), CASES, ids=lambda part: str(part)[:20])
def test_every_door_takes_or_refuses_the_same(doors, field, value, expected):
    coordinator = doors.server.services.the_coordinator
    for index, name in enumerate(("python", "command", "wire", "console")):
        # Whoever asks is the same at all doors, so each needs names of its own.
        given = doors.settings(field, "bcde"[index] + value[1:] if field == "name" and expected else value)
        before = len(coordinator.ledger_view().charges)
        taken = getattr(doors, name)(given)
        after = len(coordinator.ledger_view().charges)
        assert taken is expected, name
        assert after - before == int(expected), name
        for status in coordinator.queries():
            assert status.problem is None
            if status.state == "running":
                coordinator.cancel(status.id, "test")
    assert doors.server.ask("GET", "/v1/queries", doors.server.token("analyst")).status_code == 200

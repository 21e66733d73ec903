"""Test vectors of policies: what a device decides about a round, and what its query costs.

    {"policy": "default", "now": …, "round": {…}, "charged": [{…}], "limit": …, "rate": …, "cost": …, "reason": null}

`policy` is the name of a file in policy-files.json. `round` is what a device has read of a configuration, and `charged`
the queries that count now. `rate` is the protecting rate. `reason` is null for a round that is answered.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from thresher.device.policy import DEFAULT_TABLE, LONGEST_ROUND, Policy
from thresher.device.policy_file import policy_from_dict
from thresher.device.spending import Spend
from thresher.device.terms import Terms, query_key
from thresher.errors import InvalidSetting
from thresher.privacy.whole_numbers import BEYOND, ONE, PERIOD
from thresher.protocol.readable import ReadableRound
from thresher.protocol.sealing import PublicKey
from thresher.questions import Among, Filtered, Question, Values, Where

_NOW = 1_800_000_000.0
_KEY = bytes(range(32))
_MANY = list(range(1, 4098))
_BOUNDS = [4.0, 1e-05, 20.0, 0.0001]
_TABLE = {
    "bounds": _BOUNDS,
    "rounds": [1, 3, 10, 1000],
    "rows": [
        {"threshold": 2, "limits": [9, 4, 0, 0], "rates": [3, 9], "costs": [1, BEYOND]},
        {"threshold": 5, "limits": [1 << 28, 1 << 27, 1 << 20, 5], "rates": [1, 1 << 20, 1 << 28], "costs": [2, 7, 9]},
        {
            "threshold": 20,
            "limits": [ONE - 1, 3 << 30, 1 << 31, 1 << 24],
            "rates": [1 << 24, 1 << 31, 3 << 30, ONE - 1],
            "costs": [1_000_000, 250_000_000, 500_000_000, PERIOD],
        },
        {"threshold": 21, "limits": [0, 0, 0, 0], "rates": [], "costs": []},
        {"threshold": 100, "limits": [ONE - 1] * 4, "rates": [ONE - 1], "costs": [1]},
    ],
}  # fmt: skip
"""Not the table of these bounds: its numbers are chosen to be looked up."""
_SETTINGS: dict[str, dict[str, Any]] = {
    "small": {},
    "named": {"attributes": ["a", "é"], "filters": None},
    "filtering": {"attributes": ["a"], "filters": ["b"]},
    "filters": {"attributes": None, "filters": ["b"]},
    "pinned-names": {"attributes": ["a"], "pinned_key": _KEY.hex().upper(), "coins": "aggregator"},
    "silent": {"attributes": [], "filters": []},
    "pinned": {"pinned_key": _KEY.hex()},
    "aggregator": {"coins": "aggregator", "hide_from_contact_list": False},
    "contacted": {"hide_from_contact_list": False},
    "strict": {"min_threshold": 20, "max_contributions": 2, "period_days": 0.5},
}
_LOOKED_UP = ("default", "small", "aggregator", "contacted", "strict")
_QUESTIONS: list[Question] = [
    Values(("a",)), Values(("é",)), Values(("e\u0301",)), Values(("a", "é")), Values(("a", "b")),
    Values(("__proto__",)), Filtered(Values(("a",)), Where((Among("b", ("x",)),))),
    Filtered(Values(("b",)), Where((Among("a", ("x",)),))), Filtered(Values(("a",)), Where((Among("a", ("x",)),))),
]  # fmt: skip


def policy_files() -> list[dict[str, Any]]:
    """The files: the default policy, and some with a small table."""
    default = json.loads(DEFAULT_TABLE.read_bytes())
    settings = {name: value for name, value in default.items() if name != "table"}
    small = [{"name": name, "policy": {**settings, **changes, "table": _TABLE}} for name, changes in _SETTINGS.items()]
    return [{"name": "default", "policy": default}, *small]


def policy_checks() -> list[dict[str, Any]]:
    """Files that a client accepts, and files that it refuses."""
    default = json.loads(DEFAULT_TABLE.read_bytes())
    good = {**{name: value for name, value in default.items() if name != "table"}, "table": _TABLE}
    row = _TABLE["rows"][1]  # type: ignore[index]

    def rowed(**changes: Any) -> dict[str, Any]:
        return good | {"table": {**_TABLE, "rows": [{**row, **changes}]}}

    cases: list[tuple[str, dict[str, Any]]] = [
        ("all members", good),
        ("only a table", {"table": _TABLE}),
        ("a pinned key in upper case", good | {"pinned_key": _KEY.hex().upper()}),
        ("no table", {name: value for name, value in good.items() if name != "table"} | {"max_epsilon": 3.0}),
        ("unknown member", good | {"atributes": []}),
        ("unknown version", good | {"version": 2}),
        ("bounds of other settings", good | {"max_delta": 1e-6}),
        ("bounds of other settings, by default", {"table": {**_TABLE, "bounds": [3.0, *_BOUNDS[1:]]}}),
        ("unknown coins", good | {"coins": "device"}),
        ("a short pinned key", good | {"pinned_key": "00" * 31}),
        ("one name", good | {"attributes": "a"}),
        ("no period", good | {"period_days": 0}),
        ("a threshold of 0", good | {"min_threshold": 0}),
        ("a further member in a table", good | {"table": {**_TABLE, "more": 1}}),
        ("a table without rows", good | {"table": {**_TABLE, "rows": []}}),
        ("rounds that fall", good | {"table": {**_TABLE, "rounds": [1, 10, 3, 1000]}}),
        ("a further member in a row", rowed(more=1)),
        ("too few limits", rowed(limits=row["limits"][1:])),
        ("rates that fall", rowed(rates=row["rates"][::-1])),
        ("costs that fall", rowed(costs=row["costs"][::-1])),
        ("more costs than rates", rowed(costs=[*row["costs"], 10])),
        ("a limit of 1", rowed(limits=[ONE] * 4)),
        ("a cost that is not whole", rowed(costs=[2, 7, 9.5])),
        ("more than 4,096 rates", rowed(rates=_MANY, costs=[1] * 4097)),
        ("4,096 rates", rowed(rates=_MANY[:-1], costs=[1] * 4096)),
        (
            "more than 4,096 rounds",
            good | {"table": {**_TABLE, "rounds": _MANY, "rows": [{**row, "limits": [0] * 4097}]}},
        ),
        ("a name that is no text", good | {"attributes": ["\ud800"]}),
        ("a filter's name that is no text", good | {"filters": ["a", "\udfff"]}),
        ("a bound that no double holds", good | {"table": {**_TABLE, "bounds": [10**400, *_BOUNDS[1:]]}}),
        ("rounds beyond 1,000,000", good | {"table": {**_TABLE, "rounds": [1, 3, 10, 1_000_001]}}),
        ("a threshold beyond 1,000,000 in a row", rowed(threshold=1_000_001)),
        *_at_the_edges(good),
        *_of_another_type(good),
    ]
    return [{"what": what, "policy": policy, "accepted": _is_accepted(policy)} for what, policy in cases]


def _at_the_edges(good: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each number of a policy at both ends of its range, and just outside of them."""
    for place, (name, least, most) in enumerate(
        (("max_epsilon", 1e-9, 100), ("max_delta", 1e-300, 1 - 2**-53), ("period_epsilon", 1e-9, 1_000_000),
         ("period_delta", 1e-300, 1 - 2**-53), ("period_days", 1e-9, 36_500), ("min_threshold", 1, 10_000_000),
         ("max_contributions", 1, 1_000))
    ):  # fmt: skip
        beyond = most + 1 if isinstance(most, int) else 1
        for value in (least, most, 0, -1, beyond):
            bounds = [value if number == place else bound for number, bound in enumerate(_BOUNDS)]
            yield f"{name} of {value}", good | {name: value, "table": {**_TABLE, "bounds": bounds}}


def _of_another_type(good: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each member as something that it is not."""
    other: Any
    for name in good:
        for other in (True, "1", [], {}, None, 1, "any", [1]):
            yield f"{name} as {json.dumps(other)}", good | {name: other}
    for name in ("bounds", "rounds", "rows"):
        for other in (True, "1", {}, None, 1, [True], ["1"], [[]], [{}], [None]):
            yield f"{name} of a table as {json.dumps(other)}", good | {"table": {**_TABLE, name: other}}
    row = _TABLE["rows"][1]  # type: ignore[index]
    for name in row:
        for other in (True, "1", {}, None, 1.5, [True], ["1"], [[]], [None]):
            rows = [{**row, name: other}]
            yield f"{name} of a row as {json.dumps(other)}", good | {"table": {**_TABLE, "rows": rows}}
    texts, mixed = [str(bound) for bound in _BOUNDS], [*_BOUNDS[:3], True]
    for what, bounds in (("texts", texts), ("a boolean", mixed), ("five numbers", [*_BOUNDS, 1])):
        yield f"bounds of a table as {what}", good | {"table": {**_TABLE, "bounds": bounds}}


def _is_accepted(policy: dict[str, Any]) -> bool:
    try:
        return policy_from_dict(policy).table is not None
    except InvalidSetting:
        return False


def decisions() -> Iterator[dict[str, Any]]:
    """Rounds at both sides of every limit, and many at random."""
    for file in policy_files():
        policy = policy_from_dict(file["policy"])
        chosen = random.Random(f"thresher policies {file['name']}")  # noqa: S311 - vectors are the same every time
        cases = [*_named(), *(_drawn(policy, chosen) for _ in range(60))]
        if file["name"] in _LOOKED_UP:
            cases += _edges(policy)
        for round, spends in cases:
            yield {"policy": file["name"], **_vector(policy, round, spends)}


def _vector(policy: Policy, round: ReadableRound, spends: dict[str, Spend]) -> dict[str, Any]:
    terms = Terms.of(round)
    described = {
        "fleet": round.fleet,
        "query": round.query,
        "index": round.index,
        "rounds": round.rounds,
        "contributions": round.contributions,
        "threshold": round.threshold,
        "contact_rate": round.contact_rate,
        "device_rate": round.device_rate,
        "aggregator_rate": round.aggregator_rate,
        "deadline": round.deadline,
        "public_key": round.public.raw.hex(),
        "question": round.question.to_dict(),
    }
    charged = [
        {
            "query": query,
            "rounds": spend.terms.rounds,
            "contributions": spend.terms.contributions,
            "threshold": spend.terms.threshold,
            "contact_rate": spend.terms.contact,
            "device_rate": spend.terms.device,
            "aggregator_rate": spend.terms.aggregator,
            "indexes": list(spend.indexes),
        }
        for query, spend in spends.items()
    ]
    return {
        "now": _NOW,
        "round": described,
        "charged": charged,
        "limit": policy.prices.limit(terms.times, terms.threshold),
        "rate": terms.protecting(policy.against),
        "cost": policy.cost(terms),
        "reason": policy.refusal(round, policy.charged(spends), _NOW),
    }


def _round(
    question: Question = _QUESTIONS[0],
    *,
    query: str = "q",
    index: int = 0,
    rounds: int = 1,
    contributions: int = 1,
    threshold: int = 20,
    rates: tuple[int, int, int] = (ONE, ONE, 1 << 24),
    deadline: float = _NOW + 3600,
    key: bytes = _KEY,
) -> ReadableRound:
    return ReadableRound(
        fleet="f",
        query=query,
        index=index,
        round="r",
        question=question,
        threshold=threshold,
        rounds=rounds,
        contributions=contributions,
        contact_rate=rates[0],
        device_rate=rates[1],
        aggregator_rate=rates[2],
        bucket_size=64,
        deadline=deadline,
        public=PublicKey("k", key),
        hash=b"",
    )


def _spend(round: ReadableRound, *indexes: int) -> Spend:
    return Spend(Terms.of(round), indexes or (0,), _NOW)


def _named() -> Iterator[tuple[ReadableRound, dict[str, Spend]]]:
    """Rounds of which names, keys and coins decide."""
    for question in _QUESTIONS:
        yield _round(question), {}
    for key in (bytes(32), bytes(range(1, 33)), _KEY[:31] + b" "):
        yield _round(key=key), {}
    yield _round(rates=(ONE, 1 << 24, ONE)), {}
    # Two reasons at once: the first of them counts.
    yield _round(_QUESTIONS[4], key=bytes(32)), {}
    yield _round(_QUESTIONS[4], rates=(ONE, 1 << 24, ONE)), {}
    yield _round(rates=(ONE, ONE, ONE)), {"f/q": _spend(_round())}
    # The same query of another fleet is another query.
    yield _round(), {"g/q": _spend(_round())}
    yield _round(), {"g/q": _spend(_round(threshold=19))}


def _edges(policy: Policy) -> Iterator[tuple[ReadableRound, dict[str, Spend]]]:
    """Rounds just within and just beyond each limit."""
    for deadline in (_NOW + LONGEST_ROUND, _NOW + LONGEST_ROUND + 1, _NOW - 1e6, -1e300, 1e300):
        yield _round(deadline=deadline), {}
    for threshold in (1, 2, 4, 5, 19, 20, 21, 22, 99, 100, 100_000):
        yield _round(threshold=threshold), {}
    for contributions in (1, 2, 3, 10, 11, 1_000):
        yield _round(contributions=contributions), {}
    for times in (1, 2, 3, 4, 9, 10, 11, 500, 1_000):
        yield _round(rounds=times, index=times - 1, rates=(ONE, 1 << 20, ONE)), {}
    for times, threshold in ((1, 5), (2, 5), (3, 20), (10, 20), (1, 20), (1, 12), (10, 15), (1_000, 64), (1, 1_024)):
        most = policy.prices.limit(times, threshold)
        for rate in (most - 1, most, most + 1):
            if 1 <= rate <= ONE:
                for rates in ((ONE, ONE, rate), (ONE, rate, ONE), (1 << 31, rate, ONE), (3 << 12, ONE, rate)):
                    yield _round(rounds=times, threshold=threshold, rates=rates), {}
    first = _round()
    for other in (
        first,
        _round(rounds=2),
        _round(contributions=2),
        _round(threshold=19),
        _round(rates=(1 << 31, ONE, 1 << 24)),
        _round(rates=(ONE, 1 << 24, ONE)),
    ):
        yield first, {query_key(first): _spend(other)}
    for index in range(3):
        yield _round(rounds=3, index=index), {"f/q": _spend(_round(rounds=3), 0, 2)}
    # Costs of 1, 1/2, 1/4 and 1/1000 of a period, and one that is beyond it.
    whole, half, quarter = (_round(rates=(ONE, ONE, rate)) for rate in (ONE - 1, 3 << 30, 1 << 31))
    dear = _round(rounds=3, rates=(ONE, ONE, 3 << 30))
    for asked in (whole, half, quarter, first, dear):
        for others in ([whole], [half], [half, quarter], [half, quarter, quarter], [quarter] * 4, [dear], [first] * 3):
            spends = {f"f/old-{number}": _spend(each) for number, each in enumerate(others)}
            yield asked, spends
            yield asked, {**spends, "f/q": _spend(asked, 1)}


def _drawn(policy: Policy, chosen: random.Random) -> tuple[ReadableRound, dict[str, Spend]]:
    """A round at random, with charges at random."""
    round = _anything(policy, chosen, "q")
    spends = {
        f"f/old-{number}": _spend(_anything(policy, chosen, "old")) for number in range(chosen.choice((0, 0, 1, 2, 5)))
    }
    if chosen.random() < 0.2:
        spends["f/q"] = _spend(round, *chosen.sample(range(round.rounds), min(round.rounds, 2)))
    return round, spends


def _anything(policy: Policy, chosen: random.Random, query: str) -> ReadableRound:
    contributions = chosen.choice((1, 1, 1, 2, 3))
    rounds = chosen.choice((1, 1, 2, 3, 5, 10, 12))
    threshold = chosen.choice((5, 8, 13, 20, 20, 25, 40, 110, 300))
    most = max(policy.prices.limit(rounds * contributions, threshold), 2)
    rate = min(max(int(most * 2.0 ** chosen.uniform(-12, 0.3)), 1), ONE)
    contact = ONE if contributions > 1 else chosen.choice((ONE, ONE, 1 << 31, 5 << 13))
    rates = (contact, ONE, rate) if chosen.random() < 0.6 else (contact, rate, ONE)
    return _round(
        chosen.choice(_QUESTIONS) if chosen.random() < 0.2 else _QUESTIONS[0],
        query=query,
        index=chosen.randrange(rounds),
        rounds=rounds,
        contributions=contributions,
        threshold=threshold,
        rates=rates,
    )

"""Changes of the vectors in docs/protocol/vectors that every device must notice.

For each file a function yields pairs of a field and the vector with that field changed: `size` is a vector with another
`size`, and `no size` is a vector without it. Tests give all of them to the devices in Python and in TypeScript. A
device's check of the vector must fail on every one of them.

A field is left out only where a device cannot notice its change. A comment says why.
"""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import policy_page
import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "protocol" / "vectors"
_LONG = 50_000
"""Characters of a trace from which on it takes long to play."""

_FEW = 50
"""Vectors of a file of which all are changed."""

Vector = dict[str, Any]
Change = tuple[str, Vector]


@functools.cache
def read(name: str) -> list[Vector]:
    """The vectors of a file. `plaintexts` has what a device pads, `plaintexts-read` what an aggregator reads."""
    if name == "plaintexts-read":
        return [vector for vector in _content("plaintexts") if "question" in vector]
    return [vector for vector in _content(name) if name != "plaintexts" or "question" not in vector]


def _content(name: str) -> list[Vector]:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))  # type: ignore[no-any-return]


def sample(name: str, every: int = 7) -> list[tuple[Vector, list[Change]]]:
    """Each `every`-th vector of a file with its changes; and vectors with a change of the fields that those lack.

    Edge cases: of a short file it is all vectors. A trace that takes long to play is there only for a field that no
    other trace has.
    """
    long = long_traces() if name == "traces" else []
    short = [vector for vector in read(name) if vector not in long]
    found = [(vector, list(CHANGES[name](vector))) for vector in short[:: every if len(short) > _FEW else 1]]
    missing = FIELDS[name] - {field for _, changes in found for field, _ in changes}
    for vector in (*short, *long):
        if not missing:
            break
        if changes := [(field, other) for field, other in CHANGES[name](vector) if field in missing]:
            found.append((vector, changes))
            missing -= {field for field, _ in changes}
    return found


@functools.cache
def long_traces() -> list[Vector]:
    """The traces that take long to play, the longest last."""
    return sorted((trace for trace in read("traces") if _length(trace) > _LONG), key=_length)


def _length(trace: Vector) -> int:
    return len(json.dumps(trace))


def assert_all_are_noticed(name: str, check: Callable[[Vector], object], every: int = 7) -> None:
    """Every change of a sample makes the check of a Python device fail, and the sample has every field."""
    seen, missed = set(), []
    for vector, changes in sample(name, every):
        for field, other in changes:
            seen.add(field)
            if _passes(check, other):
                missed.append((field, json.dumps(vector)[:500]))
    assert missed == []
    assert seen == FIELDS[name]


def _passes(check: Callable[[Vector], object], vector: Vector) -> bool:
    try:
        check(vector)
    except (Exception, pytest.fail.Exception):  # where a field is missing, a check may fail in any way
        return False
    return True


# What a change is made of


def _replaced(content: Any, path: Sequence[Any], to: Any) -> Any:
    """The content with another value at a path; the rest is shared, not copied."""
    first, *rest = path
    copied = content.copy()
    copied[first] = _replaced(content[first], rest, to) if rest else to
    return copied


def _removed(content: Any, path: Sequence[Any]) -> Any:
    *outer, last = path
    inner = functools.reduce(lambda found, key: found[key], outer, content)
    left = {name: value for name, value in inner.items() if name != last}
    return _replaced(content, outer, left) if outer else left


def _without(vector: Vector, fields: Iterable[str]) -> Iterator[Change]:
    for field in fields:
        yield f"no {field}", _removed(vector, [field])


def _other_digits(digits: str) -> str:
    """Hexadecimal digits of which one in the middle differs. At the ends, keys have bits that do not count."""
    middle = len(digits) // 2
    return digits[:middle] + ("1" if digits[middle] != "1" else "2") + digits[middle + 1 :]


class _Others:
    """For a field of a vector: its content in another vector, with which the result must be another."""

    def __init__(self, vectors: list[Vector], inputs: Collection[str], result: Callable[[Vector], Any]) -> None:
        self.inputs, self.result = inputs, result
        self._alike = defaultdict(list)
        for vector in vectors:
            for field, rest in self._rests(vector):
                self._alike[field, rest].append(vector)

    def _rests(self, vector: Vector) -> Iterator[tuple[str, Any]]:
        """Each input of a vector, with all of its other inputs."""
        written = {name: json.dumps(vector[name]) for name in self.inputs if name in vector}
        for field in written:
            yield field, tuple(item for item in written.items() if item[0] != field)

    def changes(self, vector: Vector) -> Iterator[Change]:
        own = self.result(vector)
        for field, rest in self._rests(vector):
            other = next((other for other in self._alike[field, rest] if self.result(other) != own), None)
            if other is not None:
                yield field, {**vector, field: other[field]}


# docs/protocol/answers.md

_ANSWERED = ("question", "value", "values", "size", "draw", "place")


@functools.cache
def _other_answers(name: str) -> _Others:
    def result(vector: Vector) -> Any:
        sent = vector["plaintexts"] if "plaintexts" in vector else [vector["plaintext"]]
        # From outside, a null of choices.json looks like a contribution that is missing.
        return sorted(each for each in sent if each) if name == "choices" else sent

    return _Others(read(name), _ANSWERED, result)


def _answers(name: str, vector: Vector) -> Iterator[Change]:
    # A list is looked at from its first element on where there is no place.
    yield from _without(vector, (field for field in vector if field != "place" or vector["place"] != 0))
    yield from _other_answers(name).changes(vector)
    yield "question", {**vector, "question": {"kind": "unknown"}}
    for field, other in (
        ("bucket", ["another"]),
        ("buckets", [["another"]]),
        ("plaintext", '["another"]'),
        ("plaintexts", ['["another"]']),
    ):
        if field in vector:
            yield field, {**vector, field: other}
    sent = [each for each in (vector.get("plaintext"), *vector.get("plaintexts", ())) if each]
    if sent:
        yield "size", {**vector, "size": max(len(each.encode()) for each in sent) + 1}


def _plaintexts(vector: Vector) -> Iterator[Change]:
    yield from _without(vector, vector)
    yield "content", {**vector, "content": '["another"]'}
    yield "size", {**vector, "size": vector["size"] + 1}
    yield "padded", {**vector, "padded": vector["padded"][:-2] + "01"}
    if "random" in vector:
        yield "random", {**vector, "random": _other_digits(vector["random"])}


@functools.cache
def _other_readings() -> _Others:
    def result(vector: Vector) -> Any:
        return [vector.get("read"), vector.get("wrong")]

    return _Others(read("plaintexts-read"), ("padded", "question"), result)


def _plaintexts_read(vector: Vector) -> Iterator[Change]:
    yield from _without(vector, vector)
    yield from (change for change in _other_readings().changes(vector) if change[0] == "padded")
    yield "question", {**vector, "question": {"kind": "unknown"}}
    if "read" in vector:
        yield "read", {**vector, "read": ["another"]}
        yield "padded", {**vector, "padded": vector["padded"][:-2] + "01"}
    else:
        yield "wrong", {**vector, "wrong": "another"}


def _marks(vector: Vector) -> Iterator[Change]:
    yield from _without(vector, vector)
    for field in ("first", "last"):
        for step in (-1, 1):
            yield field, {**vector, field: f"{int(vector[field], 16) + step:04X}"}


# docs/protocol/rounds.md


def _configurations(vector: Vector) -> Iterator[Change]:
    # `what` says for readers what the vector is about.
    yield from _without(vector, ("text", "hash", "round", "readable"))
    yield "text", {**vector, "text": vector["text"] + " " if vector["hash"] else "{}"}
    yield "hash", {**vector, "hash": "0" * 64}
    if vector["hash"]:
        yield "hash", {**vector, "hash": None}
    yield "round", {**vector, "round": "another"}
    yield "readable", {**vector, "readable": not vector["readable"]}


def _coins(vector: Vector) -> Iterator[Change]:
    yield from _without(vector, vector)
    bits, rate, heads = vector["bits"], vector["device_rate"], vector["heads"]
    yield "bits", {**vector, "bits": rate if heads else rate - 1}
    yield "device_rate", {**vector, "device_rate": bits if heads else bits + 1}
    yield "heads", {**vector, "heads": not heads}


@functools.cache
def _other_openings() -> _Others:
    return _Others(read("sealed"), ("private_key", "text", "sealed"), lambda vector: vector["plaintexts"])


def _sealed(vector: Vector) -> Iterator[Change]:
    # `what` says for readers what the vector is about.
    yield from _without(vector, (field for field in vector if field != "what"))
    yield from _other_openings().changes(vector)
    yield "hash", {**vector, "hash": _other_digits(vector["hash"])}
    yield "text", {**vector, "text": vector["text"] + " "}
    if vector["plaintexts"] is None:
        yield "plaintexts", {**vector, "plaintexts": ["00"]}
        return
    yield "plaintexts", {**vector, "plaintexts": None}
    for field in ("private_key", "public_key", "sealed"):
        yield field, {**vector, field: _other_digits(vector[field])}
    for field in ("plaintexts", "ephemeral_keys"):
        for place, digits in enumerate(vector[field]):
            yield field, _replaced(vector, [field, place], _other_digits(digits))


# docs/protocol/policy.md


@functools.cache
def policies() -> dict[str, Vector]:
    """The files of policy-files.json by their names."""
    return {each["name"]: each["policy"] for each in read("policy-files")}


@functools.cache
def decisions(name: str) -> list[Vector]:
    """The vectors of policies.json under the policy of this name."""
    return [vector for vector in read("policies") if vector["policy"] == name]


def _is_other(policy: Vector, vector: Vector) -> bool:
    """Whether the page gives another result than the vector."""
    return any(vector[name] != value for name, value in policy_page.results(policy, vector).items())


def _policies(vector: Vector) -> Iterator[Change]:
    yield from _without(vector, vector)
    for member in vector["round"]:
        yield f"no round.{member}", _removed(vector, ["round", member])
    for member in vector["charged"][0] if vector["charged"] else ():
        yield f"no charged.{member}", _removed(vector, ["charged", 0, member])
    for result in ("limit", "rate", "cost"):
        yield result, {**vector, result: vector[result] + 1}
    yield "reason", {**vector, "reason": "another"}
    # A member may have no part in a decision. So each gets several values, and the first with another result is taken.
    for field, path, values in _decided_by(vector):
        changed = (_replaced(vector, path, to) for to in values)
        other = next((other for other in changed if _is_other(policies()[other["policy"]], other)), None)
        if other is not None:
            yield field, other


def _decided_by(vector: Vector) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """What a decision may depend on: a field, its path in the vector, and values that it may have."""
    round, policy = vector["round"], policies()[vector["policy"]]
    yield "policy", ["policy"], list(policies())
    yield "now", ["now"], [round["deadline"], round["deadline"] - policy_page.LATEST - 1]
    yield "charged", ["charged"], [[]]
    deadlines = [vector["now"], vector["now"] + policy_page.LATEST + 1]
    keys = ["ab" * 32, (policy["pinned_key"] or "").lower()]
    counted = [{"kind": "values", "columns": [name]} for name in (*(policy["attributes"] or ()), "unknown")]
    filtered = [{"kind": "filtered", "question": each, "where": [{"column": "x", "among": ["x"]}]} for each in counted]
    members = {"deadline": deadlines, "public_key": keys, "question": counted + filtered}
    members |= {"fleet": ["another"], "query": ["another"], "index": [0, 1, 2, 999]}
    for member, values in (members | _terms(round)).items():
        yield f"round.{member}", ["round", member], values
    own = f"{round['fleet']}/{round['query']}"
    for is_own in (True, False):
        place = next((i for i, each in enumerate(vector["charged"]) if (each["query"] == own) == is_own), None)
        if place is None:
            continue
        charge = vector["charged"][place]
        unused = {own, "f/another"} - {each["query"] for each in vector["charged"]}
        members = {"query": sorted(unused), "indexes": [[], [round["index"]]]}
        for member, values in (members | _terms(charge)).items():
            yield f"charged.{member}", ["charged", place, member], values


def _terms(terms: Vector) -> dict[str, list[int]]:
    """Other terms of a query. The rate of a device or of the aggregator stays 2^32, as in every readable round."""
    found = {name: [terms[name] + 1, 1, 1000] for name in ("rounds", "contributions")}
    found["threshold"] = [1, terms["threshold"] + 1, 100_000]
    for name, of_another in (
        ("contact_rate", policy_page.ONE),
        ("device_rate", terms["aggregator_rate"]),
        ("aggregator_rate", terms["device_rate"]),
    ):
        if of_another == policy_page.ONE:
            found[name] = [policy_page.ONE, max(terms[name] - 1, 1), max(terms[name] // 2, 1)]
    return found


def _policy_checks(vector: Vector) -> Iterator[Change]:
    # `what` says for readers what the vector is about.
    yield from _without(vector, ("policy", "accepted"))
    yield "accepted", {**vector, "accepted": not vector["accepted"]}
    accepted = next(other["policy"] for other in read("policy-checks") if other["accepted"])
    refused = {**vector["policy"], "atributes": []}
    yield "policy", {**vector, "policy": refused if vector["accepted"] else accepted}


def _policy_files(vector: Vector) -> Iterator[Change]:
    """A file is checked with the vectors of policies.json that name it."""
    name, policy = vector["name"], vector["policy"]
    yield from _without(vector, vector)
    yield "name", {**vector, "name": "another"}
    for member in policy:
        yield f"no policy.{member}", _removed(vector, ["policy", member])
    yield "policy.version", _replaced(vector, ["policy", "version"], 2)
    for place, member in enumerate(("max_epsilon", "max_delta", "period_epsilon", "period_delta")):
        yield f"policy.{member}", _replaced(vector, ["policy", member], policy[member] / 2)
        yield "policy.table.bounds", _replaced(vector, ["policy", "table", "bounds", place], policy[member] / 2)
    # `period_days` says how long a charge counts, and a vector has only those that do. Traces are about it.
    table = policy["table"]
    others = {
        "min_threshold": 200_000,
        "max_contributions": 1,
        "hide_from_contact_list": not policy["hide_from_contact_list"],
        "coins": "any" if policy["coins"] == "aggregator" else "aggregator",
        "attributes": ["unknown"],
        "filters": ["unknown"],
        "pinned_key": "ab" * 32,
        "table.rounds": {**table, "rounds": [each + 1 for each in table["rounds"]]},
        "table.threshold": _rows(table, "threshold", lambda threshold: threshold + 1),
        "table.limits": _rows(table, "limits", lambda limits: [each - 1 if each else 1 for each in limits]),
        "table.rates": _rows(table, "rates", lambda rates: [each - 1 for each in rates]),
        "table.costs": _rows(table, "costs", lambda costs: [min(each + 1, policy_page.BEYOND) for each in costs]),
    }
    for field, to in others.items():
        changed = {**policy, field.split(".")[0]: to}
        if any(_is_other(changed, each) for each in decisions(name)):
            yield f"policy.{field}", {**vector, "policy": changed}


def _rows(table: Vector, member: str, change: Callable[[Any], Any]) -> Vector:
    return {**table, "rows": [{**row, member: change(row[member])} for row in table["rows"]]}


# Traces

_STATUSES = ("taken", "closed", "conflict", "rejected")
_NOTHING: Vector = {"version": 2, "reports": [], "rounds": [], "come_back": 12_345.0}


def _traces(trace: Vector) -> Iterator[Change]:
    """Each field is changed at the first and at the last of its places in the trace."""
    # `name` is a title. Runner and device have the same `enrolment_key`, so that nobody notices another one.
    needed = {"attributes", "enrolment_key", "steps", "policy"} & trace.keys()
    if _handed_in(trace):
        needed.add("plaintexts")
    if any(_enrols_again(exchanges) for _, exchanges, _ in _exchanges(trace)):
        needed.add("identity_secret")
    yield from _without(trace, sorted(needed))
    places: dict[str, list[tuple[list[Any], Any]]] = defaultdict(list)
    for field, path, to in (*_expected(trace), *_answered(trace)):
        places[field].append((path, to))
    for field, found in places.items():
        for path, to in found[:: max(len(found) - 1, 1)]:
            yield field, _replaced(trace, path, to)


def _handed_in(trace: Vector) -> dict[str, list[str | None]]:
    """What is inside the reports of a trace. `plaintexts` may also have a round that is listed and refused."""
    expected = [exchange["expect"].get("reports", []) for _, (exchange, *_), _ in _exchanges(trace)]
    if any(isinstance(each, int) for each in expected):
        return trace["plaintexts"]  # type: ignore[no-any-return]
    names = {name for each in expected for name in each}
    return {name: sent for name, sent in trace["plaintexts"].items() if name in names}


def _steps(trace: Vector) -> Iterator[tuple[list[Any], Vector]]:
    yield from ((["steps", place], step) for place, step in enumerate(trace["steps"]) if "now" in step)


def _exchanges(trace: Vector) -> Iterator[tuple[list[Any], list[Vector], Vector]]:
    """The path of each exchange; the exchange and those behind it in its step; what holds after the step."""
    for path, step in _steps(trace):
        for place in range(len(step["exchanges"])):
            yield [*path, "exchanges", place], step["exchanges"][place:], step.get("after", {})


def _expected(trace: Vector) -> Iterator[tuple[str, list[Any], Any]]:
    """What a device must do: a field, its path, and another value."""
    for name, sent in _handed_in(trace).items():
        yield "plaintexts", ["plaintexts", name], [*sent[1:], '["another"]']
    for path, step in _steps(trace):
        exchanges, after = step["exchanges"], step.get("after", {})
        yield "exchanges", [*path, "exchanges"], [*exchanges, exchanges[-1]]
        yield "exchanges", [*path, "exchanges"], exchanges[:-1]
        for member, to in (("records", {"x": "taken"}), ("reasons", {"x": "key"}), ("charged", ["x"]), ("token", "x")):
            if member in after:
                yield f"after.{member}", [*path, "after", member], to
        if "remembered" in after:
            yield "after.remembered", [*path, "after", "remembered"], after["remembered"] + 1
        if "wait" in after:
            yield "after.wait", [*path, "after", "wait"], [after["wait"][1] + 1, 1e9]
        if after:
            yield "after.ends", [*path, "after", "ends"], not after.get("ends", False)
    for path, (exchange, *_), _ in _exchanges(trace):
        expect = exchange["expect"]
        yield "expect.path", [*path, "expect", "path"], "/v2/other"
        if "reports" in expect:
            yield "expect.reports", [*path, "expect", "reports"], ["another"]
            yield "expect.rounds", [*path, "expect", "rounds"], not expect["rounds"]
            yield "expect.token", [*path, "expect", "token"], "another"


def _answered(trace: Vector) -> Iterator[tuple[str, list[Any], Any]]:
    """What a device is given: a field, its path, and another value, only where the device must then act differently."""
    # `crash` is left out: a device that had no answer in its place would send the same requests later. Answers that are
    # not the server's own are left out: many others would have the same effect.
    if any(each for sent in _handed_in(trace).values() for each in sent):
        yield "attributes", ["attributes"], {}
    for place, step in enumerate(trace["steps"]):
        if step.get("restart") and _counts_anew(trace, place):
            yield "restart", ["steps"], trace["steps"][:place] + trace["steps"][place + 1 :]
    for path, exchanges, after in _exchanges(trace):
        exchange, answer, at = exchanges[0], exchanges[0]["answer"], [*path, "answer"]
        asks, is_last = exchange["expect"].get("rounds"), len(exchanges) == 1
        body = answer["body"] if answer.get("status") in (200, 201) and isinstance(answer["body"], dict) else {}
        low, high = after.get("wait", (0, 0))
        if body and not is_last:
            yield "answer.status", [*at, "status"], 500
        if "token" in body and not is_last and exchanges[1]["expect"].get("token") == body["token"]:
            yield "answer.body.token", [*at, "body", "token"], "another"
        if asks and low == high == body.get("come_back"):
            yield "answer.body.come_back", [*at, "body", "come_back"], low + 1 if low < 86_400 else low - 1
        # All that is handed in later in the first visit was in this list, and is refused by a clock that is far behind.
        if asks and body and path[1] == 0 and not is_last:
            yield "answer.body.rounds", [*at, "body", "rounds"], []
            yield "now", ["steps", 0, "now"], trace["steps"][0]["now"] - 1e9
        for place, status in _final_statuses(body, exchange["expect"], after):
            other = _STATUSES[_STATUSES.index(status) - 1]
            yield "answer.body.reports", [*at, "body", "reports", place, "status"], other
        if _enrols_again(exchanges):
            yield "identity_secret", ["identity_secret"], _other_digits(trace["identity_secret"])
            yield "answer.proof", [*at, "proof"], "other" if answer["proof"] == "valid" else "valid"
            yield "answer.headers.content-type", [*at, "headers", "content-type"], "text/html"
        if answer.get("headers", {}).get("retry-after") and 300 <= low < high:  # without it, a device waits for less
            yield "answer.headers.retry-after", [*at, "headers", "retry-after"], "0"
        if "none" in answer and not low <= _NOTHING["come_back"] <= high and asks:
            yield "answer.none", at, {"status": 200, "body": _NOTHING}


def _counts_anew(trace: Vector, place: int) -> bool:
    """Whether a restart makes the wait after the visit behind it that of a first failure, and not of a third one."""
    waits = [step.get("after", {}).get("wait") for step in trace["steps"][place - 1 : place + 2 : 2]]
    return waits == [[0.5, 1.0], [0.25, 0.5]]


def _enrols_again(exchanges: list[Vector]) -> bool:
    """Whether the device has believed a proof: it enrols after a visit."""
    return [each["expect"]["path"] for each in exchanges[:2]] == ["/v2/visit", "/v2/devices"]


def _final_statuses(body: Vector, expect: Vector, after: Vector) -> Iterator[tuple[int, str]]:
    """Places in an answer's `reports` that alone have decided what became of a round."""
    named = [each.get("round") if isinstance(each, dict) else None for each in body.get("reports", ())]
    for place, name in enumerate(named):
        status = body["reports"][place].get("status") if name else None
        is_handed_in = isinstance(expect["reports"], list) and name in expect["reports"]
        if is_handed_in and named.count(name) == 1 and after.get("records", {}).get(name) == status in _STATUSES:
            yield place, status


CHANGES: dict[str, Callable[[Vector], Iterator[Change]]] = {
    "buckets": functools.partial(_answers, "buckets"),
    "choices": functools.partial(_answers, "choices"),
    "plaintexts": _plaintexts,
    "plaintexts-read": _plaintexts_read,
    "marks": _marks,
    "configurations": _configurations,
    "coins": _coins,
    "sealed": _sealed,
    "policies": _policies,
    "policy-checks": _policy_checks,
    "policy-files": _policy_files,
    "traces": _traces,
}


def _fields(changed: str, left_out: str) -> set[str]:
    return {*changed.split(), *(f"no {name}" for name in left_out.split())}


def _members(of: str, names: str) -> str:
    return " ".join(f"{of}.{name}" for name in names.split())


_TERMS = " ".join(policy_page.TERMS)
_ROUND = _members("round", f"fleet query index {_TERMS} deadline public_key question")
_CHARGE = _members("charged", f"query {_TERMS} indexes")
_DECISION = f"policy now charged limit rate cost reason {_ROUND} {_CHARGE}"
_SETTINGS = _members(
    "policy",
    "version max_epsilon max_delta period_epsilon period_delta min_threshold max_contributions hide_from_contact_list "
    "coins attributes filters pinned_key",
)
_TABLE = _members("policy.table", "bounds rounds threshold limits rates costs")
_BUCKETS = "question value values size draw place bucket buckets plaintext plaintexts"
_CHOICES = "question value values size buckets plaintexts"
_SEALED = "private_key public_key text hash plaintexts ephemeral_keys sealed"
_EXPECTED = _members("expect", "path reports rounds token") + " exchanges plaintexts"
_AFTER = _members("after", "records reasons charged token wait ends remembered")
_GIVEN = "attributes identity_secret now restart " + _members(
    "answer",
    "status body.token body.come_back body.rounds body.reports proof headers.content-type headers.retry-after none",
)

FIELDS: dict[str, set[str]] = {
    "buckets": _fields(_BUCKETS, _BUCKETS),
    "choices": _fields(_CHOICES, _CHOICES),
    "plaintexts": _fields("content size padded random", "content size padded random"),
    "plaintexts-read": _fields("padded question read wrong", "padded question read wrong"),
    "marks": _fields("first last", "first last"),
    "configurations": _fields("text hash round readable", "text hash round readable"),
    "coins": _fields("bits device_rate heads", "bits device_rate heads"),
    "sealed": _fields(_SEALED, _SEALED),
    "policies": _fields(_DECISION, f"{_DECISION} round"),
    "policy-checks": _fields("policy accepted", "policy accepted"),
    "policy-files": _fields(f"name {_SETTINGS} {_TABLE}", f"name policy policy.table {_SETTINGS} policy.period_days"),
    "traces": _fields(
        f"{_EXPECTED} {_AFTER} {_GIVEN}", "attributes enrolment_key identity_secret plaintexts steps policy"
    ),
}
"""The changes that a sample of each file must have."""

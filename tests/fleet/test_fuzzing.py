"""Requests and reports that nobody sensible sends: no 5xx, no hang, no memory that grows; nothing but `InvalidFormat`.

With THRESHER_LONG=1 in the environment there are more than 10,000 cases of each.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from canary_cases import right_bodies
from fleet_server import RunningServer, started
from fleet_under_load import EVERYTHING, LETTERS, SERVE
from hypothesis import given, settings
from hypothesis import strategies as st
from request_fuzzer import QUIET, Fuzzer, documents, leaves, resident
from schemathesis import GenerationMode

from thresher.errors import Conflict, InvalidFormat, NotFound
from thresher.privacy.exact import log_delta
from thresher.protocol.plaintext import DECOY, bucket_types, decode_payload, decoy, encode_bucket, payload, to_columns
from thresher.protocol.sealing import OVERHEAD, PrivateKey, open_sealed, seal
from thresher.questions import END, Below, Bins, Cells, Dates, Joint, Prefixes, Question, Values
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.aggregator.keys import KeyRing
from thresher.roles.aggregator.report_opening import Opening, Workers, open_reports
from thresher.roles.aggregator.round_drawing import LocalDrawing, count_reports, tally
from thresher.roles.aggregator.store import AggregatorStore
from thresher.verbs import HeavyHittersQuery, HistogramQuery, QuantilesQuery, RangesQuery

LONG = os.environ.get("THRESHER_LONG") == "1"
REQUESTS_EACH = 120 if LONG else 4
"""For each operation and each of valid and invalid."""
REPORTS = 12_000 if LONG else 600
MOST_GROWTH = 64 << 20
"""Bytes of resident memory, from after a first pass over all operations to the end: what is kept for each case would
have to be below 6 KB. Caches that are bounded fill up in the first pass."""
MANY = settings(QUIET, max_examples=REPORTS)


# Requests


def nearly_right_bodies(server: RunningServer, operations: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Bodies to begin with: for each operation one, and for queries one of each verb."""
    named = {operation.definition.raw["operationId"]: operation for operation in operations}
    for name, body in right_bodies(server).items():
        yield named[name], body
    questions = [Joint((Values("word"), Bins("age", (0, 18, 100)))), Dates("day", "week")]
    queries: list[Any] = [HistogramQuery(question, EVERYTHING) for question in questions]
    queries.append(HistogramQuery(Values("word"), EVERYTHING, domain=("a", "b")))
    queries.append(HeavyHittersQuery("word", LETTERS, method="trie", step=2))
    queries.append(QuantilesQuery("age", (0.1, 0.5), LETTERS, 0.0, 100.0, "search"))
    queries.append(RangesQuery("age", LETTERS, 0.0, 100.0))
    for query in queries:
        settings = {"contact_rate": 0.5, "sampled_by": "device", "bucket_size": 64, "seconds": 30, "completions": 9}
        body = json.loads(json.dumps({"name": "n", "query": query.to_dict(), "settings": settings, "version": 1}))
        yield named["plan_query"], body
        yield named["submit_query"], body
    schedule = {"every": "2 weeks", "releases": 1, "start": "2040-01-01 09:00", "time_zone": "Europe/Paris"}
    total = {"epsilon": 1.0, "delta": 0.99, "schedule": schedule | {"missed": "late"}}
    yield named["plan_series"], body | total
    yield named["create_series"], body | total


@pytest.mark.slow
@pytest.mark.timeout(3000 if LONG else 300)
def test_no_request_breaks_the_server(tmp_path: Path) -> None:
    with started(tmp_path / "data", *SERVE) as server, contextlib.ExitStack() as stack:
        fuzzer = stack.enter_context(contextlib.closing(Fuzzer(server)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own, about how it makes things up
            schema = schemathesis.openapi.from_dict(fuzzer.client.get("/openapi.json").json())
            operations = [result.ok() for result in schema.get_all_operations()]
            modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
            nearly = list(nearly_right_bodies(server, operations))
            for cases in (2, REQUESTS_EACH):
                before = resident(server)
                for operation in operations:
                    for mode in modes:
                        fuzzer.fuzz(operation, mode, cases)
                for operation, body in nearly:
                    fuzzer.nearly_right(operation, body, 2 * cases)
        with server.client() as client:
            assert client.get("/readyz").status_code == 200
        grown = resident(server) - before
        print(f"{sum(fuzzer.statuses.values())} requests, {dict(fuzzer.statuses)}")
        print(f"slowest {fuzzer.slowest}, grown by {grown / 1e6:.1f} MB")
        # The one device of before is still known, and so is its query.
        with fuzzer.few.client() as client:
            assert fuzzer.few.check_in(client, "one").status_code == 200
        assert sum(fuzzer.statuses.values()) > (10_000 if LONG else 300)
        assert {200, 400, 404} <= set(fuzzer.statuses)
        assert grown < MOST_GROWTH
        assert server.stop() == 0
        assert "Traceback" not in server.output and "internal error" not in server.output


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [5e-324, 1e-310, 1e-300, 1e-100, 1e-30])
@pytest.mark.parametrize(("rate", "threshold"), [(2**-12, 1), (0.25, 1), (2**-12, 2), (0.25, 10), (1e-6, 100)])
def test_the_smallest_epsilons_cost_what_small_ones_do(rate: float, threshold: int, epsilon: float) -> None:
    """Found by fuzzing: divisions by them overflowed. Delta rises as epsilon falls, here by less than rounding."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = log_delta(rate, threshold, epsilon, "replace")
    small = log_delta(rate, threshold, 1e-15, "replace")
    assert small - 2e-9 <= found <= small + 1e-6


# Reports

QUESTIONS: tuple[Question, ...] = (
    Values("word"),
    Values(("word", "other")),
    Bins("age", (0, 18, 30, 65.5, 100)),
    Dates("day", "week"),
    Prefixes("word", 3),
    Prefixes("word", 2, 1, frozenset({"a", "é"})),
    Cells("age", 0, 100, 16),
    Below("age", 30),
    Joint((Values("word"), Bins("age", (0, 18, 100)))),
)
SIZE = 64
KEY = PrivateKey.generate("k000001-00000000")
INFO = b"i" * 32
KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str, "double": float, "date32": dt.date, "int64": int, "bool": bool,
}  # fmt: skip

decoys = st.binary(min_size=16, max_size=16).map(lambda random: {"decoy": random.hex()})
odd_decoys = st.fixed_dictionaries({"decoy": st.sampled_from(["0" * 31, "G" * 32, "A" * 32]) | leaves})
arrays = st.lists(leaves, min_size=1, max_size=3)
near = st.sampled_from(["a", "ab", "abc", f"a{END}", "é", "2024-01-01", "2024-01-02", 0, 18, 18.0, 15, 16, True, False])
nearly_buckets = st.lists(near, min_size=1, max_size=2).map(lambda content: json.dumps(content).encode())
others = st.one_of(
    decoys.map(lambda content: json.dumps(content).encode()),
    odd_decoys.map(lambda content: json.dumps(content).encode()),
    (arrays | documents).map(lambda content: json.dumps(content).encode()),
    arrays.map(lambda content: json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")),
    st.binary(max_size=80),
    st.sampled_from(
        [b"[" * 5000, b'{"decoy":' * 3000, b"[1e999]", b"[NaN]", b'["\\ud800"]', b"[" + b"9" * 5000 + b"]"]
    ),
)
payloads = st.booleans().flatmap(lambda nearly: nearly_buckets if nearly else others)  # few of them fit the question


def read(content: bytes, question: Question) -> Any:
    """What a payload says; anything but a bucket of the question, a decoy or `InvalidFormat` fails the test."""
    try:
        bucket = decode_payload(content, question)
    except InvalidFormat as error:
        assert error.__cause__ is None and error.__suppress_context__ is not None
        assert not any(part in str(error) for part in re.findall(r"\w{12,}", content.decode("latin-1")))
        return None
    if bucket is not DECOY:
        parts = bucket if len(question.columns) > 1 else (bucket,)
        kinds = bucket_types(question)
        assert len(parts) == len(kinds)
        assert all(isinstance(part, KINDS[kind]) for part, kind in zip(parts, kinds, strict=True))
        assert all(len(column) == 1 for column in to_columns([bucket], question))
        again = encode_bucket(question, bucket, 1 << 16)
        assert again is not None and decode_payload(payload(again), question) == bucket
    return bucket


@pytest.mark.slow
def test_only_buckets_and_decoys_come_out_of_payloads() -> None:
    seen: Counter[str] = Counter()

    @MANY
    @given(payloads, st.sampled_from(QUESTIONS))
    def parse(content: bytes, question: Question) -> None:
        found = read(content, question)
        seen["malformed" if found is None else "decoy" if found is DECOY else "bucket"] += 1

    parse()
    print(dict(seen))
    # It went everywhere: of 600, some 27 are buckets and 30 decoys; there being none of them has probability 1e-11.
    assert all(seen[kind] for kind in ("malformed", "bucket", "decoy"))


@pytest.mark.slow
def test_only_padded_plaintexts_are_read() -> None:
    @MANY
    @given(st.binary(max_size=SIZE + 4), payloads, st.integers(0, 3), st.integers(-2, 2))
    def parse(noise: bytes, content: bytes, padding: int, off: int) -> None:
        whole = max(0, len(content) + off).to_bytes(4, "big")[2:] + content + bytes(padding)
        for plaintext in (noise, whole):
            try:
                found = payload(plaintext)
            except InvalidFormat:
                continue
            length = int.from_bytes(plaintext[:2], "big")
            assert 0 < len(found) == length and plaintext == plaintext[:2] + found + bytes(len(plaintext) - 2 - length)

    parse()


@pytest.mark.slow
def test_broken_seals_do_not_open() -> None:
    good = seal(decoy(SIZE), KEY.public, INFO)

    @MANY
    @given(st.binary(max_size=SIZE + OVERHEAD + 2), st.integers(0, len(good) - 1), st.integers(1, 255), st.booleans())
    def parse(noise: bytes, place: int, change: int, cut: bool) -> None:
        changed = bytearray(good)
        changed[place] ^= change
        for sealed in (noise, bytes(changed), good[:place], good + noise[:3] + b"x", bytes(32) + noise):
            # The highest bit of an X25519 public key is ignored (RFC 7748), but it is part of what is authenticated.
            with pytest.raises(InvalidFormat):
                open_sealed(sealed, KEY, INFO)

    parse()
    assert payload(open_sealed(good, KEY, INFO))


@pytest.mark.slow
def test_a_batch_of_anything_is_counted_or_dropped() -> None:
    """Rubbish, sealed rubbish and real reports together: what is real is counted, the rest is malformed."""
    workers = Workers(1)
    batches = max(20, REPORTS // 100)

    @settings(QUIET, max_examples=batches)
    @given(st.sampled_from(QUESTIONS), st.lists(st.binary(max_size=SIZE), max_size=20), st.lists(payloads, max_size=20))
    def count(question: Question, rubbish: list[bytes], contents: list[bytes]) -> None:
        noise = [each.ljust(SIZE + OVERHEAD, b"\0") for each in rubbish]
        padded = [
            (len(each).to_bytes(2, "big") + each).ljust(SIZE, b"\0") for each in contents if len(each) <= SIZE - 2
        ]
        sealed = [seal(each, KEY.public, INFO) for each in padded]
        opening = Opening(KEY.key_id, KEY.to_bytes(), INFO, question, SIZE)
        counts, malformed = open_reports(noise + sealed, opening)
        said = [read(each[2 : 2 + int.from_bytes(each[:2], "big")], question) for each in padded if each[:2] != b"\0\0"]
        assert sum(counts.values()) == sum(bucket is not None and bucket is not DECOY for bucket in said)
        assert malformed == len(noise) + len(padded) - sum(bucket is not None for bucket in said)
        blob = b"".join(noise + sealed)
        assert count_reports(lambda: [blob], opening.record) == len(noise) + len(sealed)
        whole = tally(lambda: [blob, blob], 2 * (len(noise) + len(sealed)), opening, workers)
        assert whole.counts == counts and whole.duplicates >= len(noise) + len(sealed)
        with pytest.raises(InvalidFormat):
            count_reports(lambda: [blob + b"x"], opening.record)

    count()


@pytest.mark.slow
def test_add_batch_takes_anything_and_refuses_in_words(tmp_path: Path) -> None:
    store = AggregatorStore.open(tmp_path)
    aggregator = Aggregator(store, KeyRing(tmp_path / "keys"), LocalDrawing(1))
    names = st.sampled_from(["r1", "r2", "", "x" * 101, "a/b", "é", "r1\n", "'; DROP TABLE rounds; --"]) | st.text()
    kept: dict[tuple[str, int], bytes] = {}

    @settings(QUIET, max_examples=max(50, REPORTS // 20))
    @given(names, st.integers(0, 999_999_999_999), st.binary(max_size=300))
    def add(round: str, number: int, blob: bytes) -> None:
        try:
            aggregator.add_batch(round, number, blob)
        except (InvalidFormat, NotFound, Conflict):
            return
        assert kept.setdefault((round, number), blob) == blob

    add()
    assert kept
    for (round, number), blob in kept.items():
        assert store.batch(round, number) == blob
    store.close()

"""Sealed batches become a release: what counts, what is dropped, and that nothing of it is shown."""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregation_cases import SIZE, WORD, configuration, opening, response, sealed, sealed_plain, spelled
from scipy import stats

from thresher.errors import InvalidFormat, ServerUnavailable
from thresher.mechanism import Release
from thresher.privacy import DEVICE
from thresher.protocol import plaintext
from thresher.protocol.sealing import OVERHEAD, PrivateKey
from thresher.questions import Below, Bins, Cells, Dates, Joint, Prefixes, Question, Values
from thresher.roles.aggregator import report_opening as opening_module
from thresher.roles.aggregator import round_drawing as tally_module
from thresher.roles.aggregator.report_opening import Opening, Workers, open_reports
from thresher.roles.aggregator.round_drawing import Tally, count_reports, draw, duplicates, tally
from thresher.testing import SeededRandomness

KEY = PrivateKey.generate("key")
CONFIG = configuration(KEY.public)
RECORD = SIZE + OVERHEAD
ALPHA = 1e-9  # false alarm per check


def counted(reports: list[bytes], config: Any = CONFIG, *, batch: int = 7, workers: Workers | None = None) -> Tally:
    """The tally of reports in batches of a few."""
    blobs = [b"".join(reports[start : start + batch]) for start in range(0, len(reports), batch)]
    return tally(lambda: blobs, len(reports), opening(config, KEY), workers or Workers(1))


def released(reports: list[bytes], config: Any, **settings: Any) -> Release:
    return draw(counted(reports, config).counts, config, response(config, len(reports)), **settings)


def test_every_report_counts_once_in_whatever_batches() -> None:
    reports = sealed(CONFIG, ["a"] * 5 + ["b"] * 3 + ["c"])
    for batch in (1, 2, 100):
        found = counted(reports, batch=batch)
        assert found.counts == Counter(a=5, b=3, c=1)
        assert (found.malformed, found.duplicates) == (0, 0)


def test_the_same_bytes_count_once_near_and_far() -> None:
    reports = sealed(CONFIG, ["a", "b", "c", "d"])
    found = counted([*reports, reports[0], *reports[::-1], *[reports[2]] * 20], batch=3)
    assert found.counts == Counter("abcd")
    assert found.duplicates == 25


@pytest.mark.parametrize("digests", [1, 3, 10, 1 << 20])
def test_duplicates_are_found_in_any_number_of_passes(monkeypatch: pytest.MonkeyPatch, digests: int) -> None:
    monkeypatch.setattr(tally_module, "DIGESTS", digests)
    drawn = random.Random(1)
    values = [hashlib.sha256(bytes([drawn.randrange(30)])).digest()[:20] for _ in range(100)]
    seen: set[bytes] = set()
    expected = [value in seen or bool(seen.add(value)) for value in values]
    for batch in (1, 9, 100):
        blobs = [b"".join(values[start : start + batch]) for start in range(0, 100, batch)]
        assert duplicates(lambda blobs=blobs: blobs, 20, 100).tolist() == expected
    assert any(expected)
    assert not all(expected)


def test_what_is_not_a_report_of_the_round_is_counted_as_malformed_only() -> None:
    good = sealed(CONFIG, ["a", "a"])
    other = configuration(KEY.public, threshold=4)
    stranger = configuration(PrivateKey.generate("key").public)
    broken = [
        *sealed(other, ["a"]),  # another configuration
        *sealed(stranger, ["a"]),  # another key
        good[0][:-1] + bytes([good[0][-1] ^ 1]),
        bytes(RECORD),
        os.urandom(RECORD),
        *(
            sealed_plain(spelled(content), CONFIG)
            for content in (
                b"",
                b"x",
                b'["a","b"]',
                b"[1]",
                b'"a"',
                b'{"decoy":"a"}',
                b"[" * 60,
                b'["\xff"]',
                b"[null]",
            )
        ),
        sealed_plain(spelled(b'["a"]')[:-1] + b"x", CONFIG),  # padding is not zero
        sealed_plain(b"\xff" * SIZE, CONFIG),  # longer than it is
    ]
    found = counted([*good, *broken])
    assert found.counts == Counter(a=2)
    assert found.malformed == len(broken)


def test_equal_buckets_are_merged_however_they_are_spelled() -> None:
    spellings = [b'["a"]', b'[ "a" ]', b'["\\u0061"]']
    found = counted([sealed_plain(spelled(each), CONFIG) for each in spellings])
    assert found.counts == Counter(a=3)


def test_a_batch_of_another_length_is_refused() -> None:
    with pytest.raises(InvalidFormat, match="whole number"):
        count_reports(lambda: [bytes(RECORD), bytes(RECORD + 1)], RECORD)
    assert count_reports(lambda: [bytes(RECORD), bytes(3 * RECORD)], RECORD) == 4
    assert count_reports(lambda: [], RECORD) == 0


def test_decoys_are_never_released_even_at_a_threshold_of_one() -> None:
    config = configuration(KEY.public, threshold=1)
    release = released(sealed(config, [None] * 50 + ["a"]), config)
    assert release.buckets == ["a"]
    same = plaintext.decoy(SIZE, randomness=bytes)  # not unique: a client that does not follow the protocol
    assert len(released([sealed_plain(same, config) for _ in range(50)], config)) == 0


def test_only_counts_at_the_threshold_are_released() -> None:
    release = released(sealed(CONFIG, ["a"] * 3 + ["b"] * 2 + ["c"] * 10 + [None] * 30), CONFIG)
    assert dict(zip(release.buckets, release.counts.tolist(), strict=True)) == {"c": 10, "a": 3}
    assert release.response == response(CONFIG, 45)
    assert release.verify() == CONFIG.planned.guarantee.for_unit(DEVICE)
    assert Release.from_json(release.to_json()).table.equals(release.table)


TYPED: list[tuple[Question, Any, list[str]]] = [
    (WORD, "1", ["string"]),
    (Values(("a", "b")), ("x", "y"), ["string", "string"]),
    (Bins("x", (0, 1, 2)), 1.0, ["double"]),
    (Dates("day", "week"), dt.date(2026, 11, 16), ["date32[day]"]),
    (Joint((WORD, Bins("x", (0, 1, 2)))), ("x", 0.0), ["string", "double"]),
    (Joint((WORD, Cells("x", 0, 8, 4))), ("x", 3), ["string", "int64"]),
    (Prefixes("word", 2), "a\0", ["string"]),
    (Cells("x", 0, 1, 8), 7, ["int64"]),
    (Below("x", 0.5), True, ["bool"]),
]


@pytest.mark.parametrize(("question", "bucket", "types"), TYPED, ids=lambda case: getattr(case, "kind", None))
def test_the_question_fixes_the_types_of_a_release(question: Question, bucket: Any, types: list[str]) -> None:
    config = configuration(KEY.public, question=question)
    full, empty = (released(sealed(config, [bucket] * number), config) for number in (3, 2))
    assert full.buckets == [bucket]
    assert len(empty) == 0
    assert full.table.schema == empty.table.schema
    assert [str(field.type) for field in full.table.schema][: len(types)] == types
    stored = Release.from_json(empty.to_json())
    assert stored.table.schema == full.table.schema
    assert stored.columns == question.columns
    assert isinstance(full.table, pa.Table)


def test_the_aggregator_thins_with_exact_binomials() -> None:
    """40 reports a bucket, rate 1/4: released counts are Binomial(40, 1/4) given that they reach the threshold."""
    config = configuration(KEY.public, rate=0.25, threshold=4, sampled_by="aggregator")
    held = 20_000
    counts = Counter({f"w{number}": 40 for number in range(held)})
    release = draw(counts, config, response(config, 40 * held))
    assert release.private

    def p_value(rate: float) -> float:
        cells = np.arange(4, 41)
        expected = stats.binom.pmf(cells, 40, rate) * held
        observed = np.bincount(release.counts, minlength=41)[4:]
        usual = expected >= 20
        lump = [*zip(observed[usual], expected[usual], strict=True)]
        lump.append((observed[~usual].sum(), expected[~usual].sum()))
        lump.append((held - len(release), held - expected.sum()))  # the dropped ones, together
        seen, wanted = np.array(lump).T
        return float(stats.chisquare(seen, wanted).pvalue)

    assert p_value(0.25) > ALPHA
    assert p_value(0.26) < ALPHA  # the test can fail


def test_at_rate_one_the_aggregator_draws_nothing() -> None:
    class NoRandomness:
        private = True

        def fill(self, buffer: Any) -> None:
            raise AssertionError("the devices tossed the coins")

    counts = Counter(a=1000, b=3)
    release = draw(counts, CONFIG, response(CONFIG, 1003), NoRandomness())
    assert release.counts.tolist() == [1000, 3]


def test_a_seeded_draw_is_marked() -> None:
    config = configuration(KEY.public, sampled_by="aggregator")
    draws = [released(sealed(config, ["a"] * 60), config, randomness=SeededRandomness(seed)) for seed in (1, 1)]
    assert not draws[0].private
    assert draws[0].table.equals(draws[1].table)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    pool = Workers(2)
    yield pool
    pool.close()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even small rounds use processes, in small pieces."""
    monkeypatch.setattr(opening_module, "SMALL", 0)
    monkeypatch.setattr(tally_module, "CHUNK", 5)


@pytest.mark.usefixtures("eager")
@pytest.mark.slow
def test_processes_count_what_one_process_counts(workers: Workers) -> None:
    words = [f"w{number % 17}" for number in range(300)]
    reports = sealed(CONFIG, [*words, *[None] * 50])
    reports += [reports[0], reports[299], os.urandom(RECORD)]
    found = counted(reports, batch=64, workers=workers)
    alone = counted(reports, batch=64)
    assert found.counts == alone.counts == Counter(words)
    assert (found.malformed, found.duplicates) == (alone.malformed, alone.duplicates) == (1, 2)


@pytest.mark.usefixtures("eager")
@pytest.mark.slow
def test_a_lost_process_is_reported_and_replaced(workers: Workers) -> None:
    reports = sealed(CONFIG, ["a"] * 20)
    assert counted(reports, workers=workers).counts == Counter(a=20)
    assert workers._pool is not None
    os.kill(next(iter(workers._pool._processes)), signal.SIGKILL)
    with pytest.raises(ServerUnavailable, match="lost"):
        for _ in range(100):
            counted(reports, workers=workers)
            time.sleep(0.05)
    assert counted(reports, workers=workers).counts == Counter(a=20)


@pytest.mark.slow
def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
import aggregation_cases as cases
from thresher.roles.aggregator import report_opening as opening
from thresher.protocol.sealing import PrivateKey

if __name__ == "__main__":
    opening.SMALL = 0
    key = PrivateKey.generate("key")
    config = cases.configuration(key.public)
    workers = opening.Workers(2)
    chunks = [b"".join(cases.sealed(config, ["a"]))] * 8
    list(workers.open(chunks, cases.opening(config, key), 8))
    print(*workers._pool._processes, flush=True)
    time.sleep(60)
"""
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        children = [int(word) for word in parent.stdout.readline().split()]
        assert children
        assert all(map(alive, children))
        parent.kill()
    deadline = time.monotonic() + 60
    while any(map(alive, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, children))


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


CANARY = "canary-7c1f"


class Trap(Exception):
    """What a bug might raise: an error that quotes a report."""


def _trap(content: bytes, question: Question) -> Any:
    raise Trap(content)


def test_an_error_while_opening_does_not_quote_reports(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(opening_module, "decode_payload", _trap)
    with pytest.raises(InvalidFormat, match="Trap") as caught:
        counted(sealed(CONFIG, [CANARY] * 3))
    shown = "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    out, err = capfd.readouterr()
    for text in (shown, caplog.text, out, err):
        assert CANARY not in text


class TrapQuestion:
    """A question that fails in the process that opens, and quotes what it was asked."""

    columns = ("word",)

    def __hash__(self) -> int:
        raise Trap(CANARY)


@pytest.mark.usefixtures("eager")
@pytest.mark.slow
def test_neither_does_one_in_another_process(workers: Workers, capfd: pytest.CaptureFixture[str]) -> None:
    plain = opening(CONFIG, KEY)
    trapped = Opening(plain.key_id, plain.private_key, plain.info, TrapQuestion(), SIZE)  # type: ignore[arg-type]
    reports = sealed(CONFIG, [CANARY] * 3)
    with pytest.raises(InvalidFormat, match="Trap") as caught:
        list(workers.open([b"".join(reports)], trapped, 3))
    shown = "".join(traceback.format_exception(caught.value))
    assert "RemoteTraceback" in shown  # what the other process said is in it
    out, err = capfd.readouterr()
    for text in (shown, out, err):
        assert CANARY not in text


def test_nothing_shows_what_a_tally_holds(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.DEBUG)
    found = counted(sealed(CONFIG, [CANARY] * 2))
    assert found.counts[CANARY] == 2
    secret = opening(CONFIG, KEY)
    assert secret.private_key == KEY.to_bytes()
    out, err = capfd.readouterr()
    for text in (repr(found), repr(secret), caplog.text, out, err):
        assert CANARY not in text
        assert repr(KEY.to_bytes())[2:-1] not in text


@pytest.mark.slow
def test_open_reports_takes_any_bytes() -> None:
    drawn = random.Random(2)
    hostile = [drawn.randbytes(drawn.randrange(200)) for _ in range(2000)]
    assert open_reports(hostile, opening(CONFIG, KEY)) == (Counter(), 2000)

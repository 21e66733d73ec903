"""The simulator's parts: what devices hold, how requests travel, and how a release is compared with the truth."""

import asyncio
import contextlib
import threading
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import thresher as th
from thresher.errors import InvalidSetting, ServerUnavailable
from thresher.simulator import population
from thresher.simulator.behaviour import Behaviour, Dropouts
from thresher.simulator.hostile import ATTACKS, Hostile
from thresher.simulator.http_client import Answer, HttpClient, Lost
from thresher.simulator.outcomes import Outcomes
from thresher.simulator.report import Result, compare

# What devices hold


def written(tmp_path, text):
    path = tmp_path / "values.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_values_depend_on_the_seed_alone():
    one, again, other = (population.zipf(population.words(50), 1000, seed) for seed in (3, 3, 4))
    assert np.array_equal(one.held, again.held)
    assert not np.array_equal(one.held, other.held)


def test_the_truth_counts_every_device_once():
    column = population.zipf(population.words(50), 1000, 3)
    truth = column.truth()
    assert truth.total() == 1000
    assert truth == Counter(column[device] for device in range(1000))


def test_distinct_lines_are_zipf_and_repeated_lines_are_as_common_as_they_are(tmp_path):
    distinct = population.from_file(written(tmp_path, "a\nb\nc\nd\n"), 20_000, 1).truth()
    assert distinct["a"] > 1.8 * distinct["b"] > 0  # 2^1.1 = 2.14
    repeated = population.from_file(written(tmp_path, "a\nb\nb\nb\n"), 20_000, 1).truth()
    assert 2.5 < repeated["b"] / repeated["a"] < 3.6
    equal = population.from_file(written(tmp_path, "a\nb\nc\nd\n"), 20_000, 1, exponent=0).truth()
    assert 0.9 < equal["a"] / equal["d"] < 1.1


def test_lines_may_have_weights(tmp_path):
    truth = population.from_file(written(tmp_path, "a\t1\nb c\t9\nd\t0\n"), 10_000, 1).truth()
    assert set(truth) == {"a", "b c"}
    assert 7 < truth["b c"] / truth["a"] < 11
    with pytest.raises(InvalidSetting, match="number after the tab"):
        population.from_file(written(tmp_path, "a\tone\n"), 10, 1)


def test_numbers_stay_text_where_writing_them_would_change_them(tmp_path):
    assert [population.plain(text) for text in ("42", "2.1", "2.10", "007", "1e5", "nan", "x")] == [
        42,
        2.1,
        "2.10",
        "007",
        "1e5",
        "nan",
        "x",
    ]
    versions = population.from_file(written(tmp_path, "2.1\n2.10\n"), 10, 1)
    assert set(versions.values) == {"2.1", "2.10"}
    numbers = population.from_file(written(tmp_path, "2.1\n2.10\n"), 10, 1, numbers=True)
    assert set(numbers.values) == {2.1}
    with pytest.raises(InvalidSetting, match="numbers"):
        population.from_file(written(tmp_path, "2.1\nlong\n"), 10, 1, numbers=True)


def test_files_that_cannot_be_used_are_refused(tmp_path):
    with pytest.raises(InvalidSetting, match="cannot be read"):
        population.from_file(tmp_path / "none", 10, 1)
    with pytest.raises(InvalidSetting, match="at least one value"):
        population.from_file(written(tmp_path, "\n\n"), 10, 1)


def test_invented_words_are_distinct():
    words = population.words(2000)
    assert len(set(words)) == len(words) == 2000


# What goes wrong


def test_the_same_number_drops_out_of_every_round_but_not_the_same_devices():
    dropouts = Dropouts(1000, 0.05)
    first = {device for device in range(1000) if dropouts.vanishes(device, "a")}
    second = {device for device in range(1000) if dropouts.vanishes(device, "b")}
    assert len(first) == len(second) == 50
    assert first != second  # equal by chance with probability below 1e-80
    assert first == {device for device in range(1000) if dropouts.vanishes(device, "a")}


def test_completions_leave_out_dropouts_and_count_false_reports():
    assert Behaviour().completions(1000) == 1000
    assert Behaviour(dropouts=0.1).completions(1000) == 900
    hostile = Behaviour(hostile=0.1)
    false = sum(ATTACKS[index % len(ATTACKS)].completes for index in range(100))
    assert 0 < false < 100
    assert hostile.completions(1000) == 1000 + false


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_shares_are_from_0_to_1(share):
    with pytest.raises(InvalidSetting):
        Behaviour(dropouts=share)


def test_outcomes_tell_what_should_not_have_been():
    outcomes = Outcomes()
    outcomes.note("report", 200, frozenset({200}))
    outcomes.note("report", 503, frozenset({200}))
    outcomes.note("report", 0, frozenset({200}))
    assert not outcomes.unexpected
    outcomes.note("wrong token", 200, frozenset({401}))
    outcomes.note("report", 500, frozenset({200}))
    assert outcomes.unexpected == {("wrong token", 200): 1, ("report", 500): 1}


# How requests travel


class Echo:
    """A server on a socket that answers as it is told and remembers what reached it."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.connections = 0

    async def __call__(self, reader, writer):
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.requests.append((head, await reader.readexactly(length)))
                if self.answer is None:
                    break
                writer.write(self.answer)
                await writer.drain()
        writer.close()


def with_server(answer, do, requests=0, **settings):
    """What `do` returns, and the server, once it has read that many requests."""

    async def main():
        echo = Echo(answer)
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        client = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/base/", **settings)
        try:
            result = await do(client)
            while len(echo.requests) < requests:
                await asyncio.sleep(0.01)
            return result, echo
        finally:
            await client.close()
            server.close()
            await asyncio.sleep(0.05)

    return asyncio.run(main())


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def test_a_request_and_its_answer():
    async def do(client):
        return await client.send("POST", "/v1/x", "secret", b"body")

    answer, echo = with_server(OK, do)
    assert (answer.status, answer.body, answer.retry_after) == (200, b"ok", None)
    head, body = echo.requests[0]
    assert head.startswith(b"POST /base/v1/x HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer secret\r\n" in head
    assert body == b"body"


def test_connections_are_used_again():
    async def do(client):
        for _ in range(20):
            await client.send("POST", "/", None, b"")
        await asyncio.gather(*(client.send("POST", "/", None, b"") for _ in range(3)))

    _, echo = with_server(OK, do)
    assert len(echo.requests) == 23
    assert echo.connections == 3
    assert b"Authorization" not in echo.requests[0][0]


def test_when_to_come_back_is_heard():
    busy = b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

    async def do(client):
        first = await client.send("POST", "/", None, b"")
        await asyncio.sleep(0.02)
        await client.send("POST", "/", None, b"")
        return first

    answer, echo = with_server(busy, do)
    assert (answer.status, answer.retry_after) == (503, 7.0)
    assert echo.connections == 2  # the server said that it would close


def test_a_lost_answer_is_not_an_answer():
    async def do(client):
        with pytest.raises(Lost):
            await client.send("POST", "/", None, b"x")

    _, echo = with_server(None, do)
    assert len(echo.requests) == 1


def test_no_answer_in_time_is_lost():
    async def do(client):
        with pytest.raises(Lost, match="in time"):
            await client.send("POST", "/", None, b"x")

    with_server(b"HTTP/1.1 200 OK\r\n", do, seconds=0.1)


def test_what_is_not_http_is_lost():
    async def do(client):
        with pytest.raises(Lost):
            await client.send("POST", "/", None, b"x")

    with_server(b"220 mail.example ready\r\n\r\n", do, seconds=2)


def test_leaving_early_still_delivers_the_request():
    async def do(client):
        await client.send_and_leave("POST", "/", "t", b"once")

    _, echo = with_server(OK, do, requests=1)
    assert [body for _, body in echo.requests] == [b"once"]


def test_a_slow_body_arrives_whole():
    async def do(client):
        return await client.send_slowly("POST", "/", "t", b"0123456789", pieces=3, pause=0.01)

    answer, echo = with_server(OK, do)
    assert answer.status == 200
    assert echo.requests[0][1] == b"0123456789"


def test_nobody_listening_says_so():
    async def do():
        with pytest.raises(ServerUnavailable, match="No server listens"):
            await HttpClient("http://127.0.0.1:9").send("POST", "/", None, b"")

    asyncio.run(do())
    with pytest.raises(InvalidSetting, match="address"):
        HttpClient("ftp://somewhere")


def test_a_connection_whose_body_was_refused_is_not_used_again():
    """The server hangs up on what is still on its way, and the next request would be lost with it."""
    connections = []

    async def serve(reader, writer):
        connections.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        status = b"413 Too Large" if len(connections) == 1 else b"200 OK"
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")

    async def do():
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            client = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            answers = [await client.send("POST", "/", None, b"") for _ in range(2)]
            await client.close()
            for writer in connections:
                writer.close()
                await writer.wait_closed()
            return [answer.status for answer in answers]

    assert asyncio.run(asyncio.wait_for(do(), 30)) == [413, 200]


@pytest.fixture
def no_pauses(monkeypatch):
    async def at_once(seconds):
        return None

    monkeypatch.setattr(asyncio, "sleep", at_once)


def attempts(attack):
    """How often a request is sent that gets no answer: once, where a server may hang up on it."""
    return 4 if attack.completes or attack.name == "unknown round" else 1


def test_hostile_clients_outlive_a_server_that_is_away_for_a_moment(no_pauses):
    outcomes = Outcomes()
    hostile = Hostile(HttpClient("http://127.0.0.1:9"), outcomes, lambda round: None)

    async def do():
        for attack in ATTACKS:
            await hostile.attack(attack, "thresher-device-x")

    asyncio.run(do())
    assert outcomes.answers.total() == sum(map(attempts, ATTACKS))
    assert {status for _, status in outcomes.answers} == {0}
    assert not outcomes.unexpected


def test_a_hostile_client_whose_connection_breaks_goes_on(no_pauses):
    """Rounds wait for its false report."""

    class Breaking:
        broke = False

        async def send(self, method, path, token, body):
            if not self.broke:
                self.broke = True
                raise Lost
            return Answer(200, b'{"version":2,"reports":[],"rounds":[],"come_back":1}')

    outcomes = Outcomes()
    asyncio.run(Hostile(Breaking(), outcomes, lambda round: None).attack(ATTACKS[0], "thresher-device-x"))
    assert outcomes.answers == {("hostile visit", 0): 1, ("hostile visit", 200): 1}


# Released beside true


def test_a_histogram_beside_the_truth():
    column = population.zipf(population.words(30), 20_000, 5)
    held = [column[device] for device in range(20_000)]
    answer = th.histogram(pa.table({"word": held}), "word", epsilon=1, delta=1e-8)
    comparison = compare(answer, column)
    truth = column.truth()
    assert {line.what: line.truth for line in comparison.lines} == {row.bucket: truth[row.bucket] for row in answer}
    assert comparison.invented == 0
    assert comparison.held == len(truth)
    assert comparison.large >= comparison.large_released > 0
    # 95 % each: fewer than two thirds of 30 inside has probability below 1e-6.
    assert comparison.inside >= 2 / 3 * len(comparison.lines)
    content = Result(20_000, 0, 1.0, 0, Outcomes(), comparison).to_dict()
    assert content["comparison"]["inside"] == comparison.inside


def test_a_value_that_nobody_holds_is_found():
    column = population.draw(["a", "b"], None, 10_000, 5)
    lie = th.histogram(pa.table({"word": ["c"] * 5000 + ["a"] * 5000}), "word", epsilon=1, delta=1e-8)
    comparison = compare(lie, column)
    assert comparison.invented == 1
    assert comparison.inside == sum(line.what == "a" and line.inside for line in comparison.lines)


@pytest.mark.slow
def test_the_other_verbs_beside_the_truth():
    column = population.waiting_times(20_000, 5)
    numbers = column.numbers().tolist()
    settings = {"lower": 0, "upper": 4096, "epsilon": 1, "delta": 1e-8}
    quantiles = compare(th.quantiles(pa.table({"ms": numbers}), "ms", [0.5], **settings), column)
    (line,) = quantiles.lines
    assert line.truth == np.sort(numbers)[9_999]
    # 2,600 sampled give the rank to 1 %, which is 4 ms here: five standard deviations, a false alarm below 1e-6.
    assert abs(line.estimate - line.truth) < 20
    ranges = compare(th.ranges(pa.table({"ms": numbers}), "ms", **settings), column, [(0, 128), (128, 4096)])
    assert sum(line.truth for line in ranges.lines) == sum(number < 4096 for number in numbers)
    assert ranges.held == 0

    words = population.zipf(["so", "song", "sun", "rare"], 20_000, 5, 1.5)
    held = [words[device] for device in range(20_000)]
    shape = {"method": "trie", "levels": 3, "step": 1}
    trie = compare(th.heavy_hitters(pa.table({"w": held}), "w", epsilon=2, delta=1e-6, **shape), words)
    by_name = {line.what: line.truth for line in trie.lines}
    assert by_name["so"] == words.truth()["so"]
    assert by_name["son…"] == words.truth()["song"]
    assert trie.invented == 0


# Lists


def test_devices_may_hold_lists_of_distinct_values():
    column = population.lists(list("abcdef"), 3_000, 3, 4)
    held = [column[device] for device in range(3_000)]
    assert {len(each) for each in held} == {1, 2, 3, 4}
    assert all(len(set(each)) == len(each) for each in held)
    truth = column.truth()
    assert truth == Counter(value for each in held for value in each)
    assert truth["a"] > 1.2 * truth["c"] > 0
    assert np.array_equal(column.held, population.lists(list("abcdef"), 3_000, 3, 4).held)
    assert population.Population({"tags": column}).attributes(7) == {"tags": held[7]}
    for most in (0, 7):
        with pytest.raises(InvalidSetting, match="held"):
            population.lists(list("abcdef"), 10, 1, most)
    with pytest.raises(InvalidSetting, match="held must be 1"):
        column.numbers()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_lists_of_a_fleet_beside_the_truth_and_hostile_clients_among_them(tmp_path):
    """Of three topics a device holds all count; hostile clients hand in garbage, and other numbers of pieces."""
    from fleet_server import started

    from thresher.questions import Values
    from thresher.simulator.simulation import Simulation, simulate
    from thresher.verbs import HistogramQuery

    column = population.lists(["a", "b", "c", "d", "e"], 600, 1, 3, 0.5)
    plan = th.plan(4, 1e-4, contributions=3)
    with started(tmp_path / "data", "--budget-epsilon", "50", "--budget-delta", "0.01") as server:
        simulation = Simulation(
            server.url, server.enrolment_key, population.Population({"tags": column}), Behaviour(hostile=0.05)
        )
        with th.Fleet(server.url, key=server.analyst) as fleet:
            rounds = fleet.with_rounds(seconds=120, completions=simulation.completions)
            query = HistogramQuery(Values(("tags",)), plan)
            answer = simulate(simulation, lambda: rounds.submit(query, wait=True, warn=False), stop=threading.Event())
    result = simulation.result
    assert not result.outcomes.unexpected
    tried = Counter(dict.fromkeys(("a piece too few", "a piece too many"), 0))
    for (what, status), number in result.outcomes.reports.items():
        if what in tried:
            assert status in ("rejected", "closed")
            tried[what] += number
    assert min(tried.values()) > 0
    compared = compare(answer, column)
    assert compared.invented == 0 and {line.what for line in compared.lines} == set("abcde")
    # Each interval misses with probability 5 % at most: four of five or more miss with a probability below 4e-5.
    assert compared.inside >= 2
    assert answer.releases[0].response.completed == simulation.completions

"""Plans in processes of their own: bounded in number and time, refused when all are busy, gone with the server."""

import asyncio
import contextlib
import operator
import os
import re
import select
import signal
import subprocess
import sys
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import httpx
import pytest
from guarded_server import guarding
from server_cases import ASK, histogram_request, inside

import thresher as th
from thresher.console.adapter import console_pages
from thresher.errors import InvalidFormat, InvalidSetting
from thresher.privacy.plans import Plan
from thresher.protocol.messages import decode
from thresher.roles.computing import current_caller, on_behalf_of
from thresher.roles.tokens import token_hash
from thresher.server import routing
from thresher.server.problem import Refused
from thresher.server.shared_calls import Alone
from thresher.server.worker import Broken
from thresher.server.workers import Workers


@contextlib.contextmanager
def working(*arguments, **settings):
    with contextlib.closing(Workers(*arguments, **settings)) as workers:
        yield workers


class Gate:
    """Holds whoever reads it, in any process, until it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    def open(self) -> None:
        """Let one reader go; waits for it to come."""
        self.path.write_bytes(b"{}")

    def open_for_each(self, held: list[Future]) -> None:
        """Let all readers go, one after another: one that is still reading would take the next one's turn."""
        left = set(held)
        while left:
            self.open()
            done, left = wait(left, timeout=60, return_when=FIRST_COMPLETED)
            assert done


def gone(pid: int) -> None:
    """Wait for the end of a process that is not ours."""
    with contextlib.suppress(ProcessLookupError):
        file = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(file, select.POLLIN)
            assert poll.poll(60_000), "the process goes on"
        finally:
            os.close(file)


@pytest.fixture(scope="module")
def workers():
    with working(1, patience=300.0) as workers:
        yield workers


@pytest.mark.slow
def test_results_and_errors_come_back(workers):
    assert workers(operator.add, 1, 2) == 3
    assert workers(os.getpid) == workers.processes[0] != os.getpid()
    with pytest.raises(InvalidSetting) as wrong:
        workers(Plan, 2.0, 10, 1.0, 1e-8)
    assert wrong.value.setting == "sampling_rate" and wrong.value.code == "invalid-setting"
    with pytest.raises(Broken, match=r"^ZeroDivisionError$"):
        workers(operator.truediv, 1, 0)
    with pytest.raises(InvalidFormat):
        workers(decode, dict, b"{")


@pytest.mark.slow
def test_a_process_that_was_killed_is_replaced(workers, tmp_path, caplog):
    [first] = [workers(os.getpid)]
    os.kill(first, signal.SIGKILL)
    assert workers(os.getpid) not in (first, os.getpid())
    gate = Gate(tmp_path / "gate")
    with ThreadPoolExecutor() as threads:
        held = threads.submit(workers, Path.read_bytes, gate.path)
        [process] = workers.processes
        os.kill(process, signal.SIGKILL)  # in the middle of a request, which is tried once more
        gone(process)
        gate.open()
        assert held.result(60) == b"{}"
    assert "replaced" in caplog.text


@pytest.mark.slow
def test_a_request_that_ends_every_process_is_given_up(workers):
    with pytest.raises(Refused) as refused:
        workers(os._exit, 1)
    assert refused.value.status == 503
    assert workers(operator.add, 1, 2) == 3


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["seconds", "patience"])
def test_what_takes_too_long_is_ended_and_named(tmp_path, limit):
    gate = Gate(tmp_path / "gate")
    with working(1, **{limit: 0.2}) as workers:
        process = workers(os.getpid)
        with pytest.raises(InvalidSetting, match="plan takes longer") as refused:
            if limit == "patience":
                workers(Path.read_bytes, gate.path)  # waits
            else:
                workers(pow, 7, 10**10)  # computes, in one step that nothing interrupts
        for setting in ("threshold", "rounds", "epsilon"):
            assert setting in refused.value.hint
        gone(process)
        assert workers(os.getpid) != process
        assert 'thresher_plans_refused_total{reason="seconds"} 1' in workers._metrics.text().decode()


@pytest.mark.slow
def test_a_full_queue_refuses_at_once(tmp_path):
    gate = Gate(tmp_path / "gate")
    with working(1, waiting=1, seconds=60, patience=300) as workers, ThreadPoolExecutor() as threads:
        held = [threads.submit(workers, Path.read_bytes, gate.path) for _ in range(2)]
        while workers.held < 2:
            assert not any(each.done() for each in held)
        with pytest.raises(Refused) as refused:
            workers(operator.add, 1, 2)
        assert refused.value.status == 429
        gate.open_for_each(held)
        assert workers(operator.add, 1, 2) == 3
        assert len(workers.processes) == 1


@pytest.mark.slow
def test_one_caller_has_a_share_and_others_get_their_turn(tmp_path):
    """Whoever sends many plans is refused alone, and never has all processes."""
    gates = {name: Gate(tmp_path / name) for name in ("greedy", "other", "third")}

    def call(workers, caller: str):
        with on_behalf_of(caller.encode()):
            return workers(Path.read_bytes, gates[caller].path)

    with working(2, waiting=2, patience=300) as workers, ThreadPoolExecutor() as threads:
        greedy = [threads.submit(call, workers, "greedy") for _ in range(2)]
        while workers.held < 2:
            assert not any(each.done() for each in greedy)
        with pytest.raises(Refused) as refused:
            call(workers, "greedy")
        assert (refused.value.status, refused.value.retry_after) == (429, 1)
        assert 'thresher_plans_refused_total{reason="caller"} 1' in workers._metrics.text().decode()
        other = threads.submit(call, workers, "other")
        gates["other"].open()  # it was given a process, though two requests came before it
        assert other.result(60) == b"{}"
        with on_behalf_of(b"fourth"):
            assert workers(operator.add, 1, 2) == 3
        assert len(workers.processes) == 2
        assert not any(each.done() for each in greedy)
        third = [threads.submit(call, workers, "third") for _ in range(2)]
        while workers.held < 4:
            assert not any(each.done() for each in third)
        with on_behalf_of(b"fifth"), pytest.raises(Refused) as refused:
            workers(operator.add, 1, 2)
        assert refused.value.retry_after == 30  # as many as may wait do
        gates["third"].open_for_each(third)
        gates["greedy"].open_for_each(greedy)
        assert workers.held == 0


def test_requests_are_computed_on_behalf_of_their_token(tmp_path):
    callers = []

    def compute(function, *arguments):
        callers.append(current_caller())
        return function(*arguments)

    with inside(tmp_path / "data", pages=console_pages) as server:
        server.services.coordinator._compute = compute
        for kind in ("analyst", "operator"):
            token = server.token(kind)
            assert server.ask("POST", "/v1/plans", token, json=histogram_request()).status_code == 200

            async def visit(token=token) -> None:
                transport = httpx.ASGITransport(server.app)
                async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
                    mark = re.search('name="csrf" value="([^"]+)"', (await http.get("/login")).text)[1]
                    await http.post("/login", data={"csrf": mark, "token": token})
                    page = await http.get("/ask/plan?attribute=word", headers={"x-fragment": "1"})
                    assert page.status_code == 200

            asyncio.run(visit())
        expected = [token_hash(server.token(kind)) for kind in ("analyst", "operator") for _ in range(2)]
        assert callers == expected


@pytest.mark.slow
def test_processes_end_when_the_pool_closes(tmp_path):
    with working(2, seconds=60) as workers:
        process = workers(os.getpid)
    gone(process)
    with pytest.raises(Refused):
        workers(os.getpid)


OWNER = """
import os, sys, threading
from pathlib import Path
from thresher.server.workers import Workers
workers = Workers(1, patience=600)
print(workers(os.getpid), flush=True)
workers(Path.read_bytes, Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_process_ends_with_a_server_that_was_killed(tmp_path):
    gate = Gate(tmp_path / "gate")
    with subprocess.Popen([sys.executable, "-c", OWNER, gate.path], stdout=subprocess.PIPE, text=True) as owner:
        process = int(owner.stdout.readline())
        owner.kill()
        owner.wait(60)
        gone(process)


@pytest.mark.slow
def test_a_process_is_told_no_secret(monkeypatch):
    monkeypatch.setenv("THRESHER_KEY", "canary-1")
    monkeypatch.setenv("PGPASSWORD", "canary-2")
    with working(1, seconds=60) as fresh:
        process = fresh(os.getpid)
        for file in ("cmdline", "environ"):
            assert b"canary" not in Path(f"/proc/{process}/{file}").read_bytes()


@pytest.fixture
def busy(tmp_path):
    """A server on a socket whose planner is held, with as many waiting as may, and the gate that holds it."""
    gate = Gate(tmp_path / "gate")

    class Holding(Workers):
        def __call__(self, function, *arguments):
            return super().__call__(Path.read_bytes, gate.path)

    with (
        inside(tmp_path / "data") as server,
        contextlib.closing(Holding(1, waiting=1, patience=600)) as workers,
        guarding(app=server.app) as door,
    ):
        server.services.coordinator._compute = workers
        yield server, gate, f"http://127.0.0.1:{door.port}"


@pytest.mark.slow
def test_plans_keep_nobody_from_health_or_devices(busy):
    server, gate, url = busy
    analyst = {"Authorization": f"Bearer {server.token('analyst')}"}
    device = {"Authorization": f"Bearer {server.enrol()}"}
    statuses = []

    def plan():
        with httpx.Client(base_url=url, trust_env=False, timeout=120) as client:
            answer = client.post("/v1/plans", json=histogram_request(), headers=analyst)
            statuses.append((answer.status_code, answer.headers.get("retry-after")))

    with (
        ThreadPoolExecutor(40) as threads,
        contextlib.closing(server.services.coordinator._compute),  # whatever fails, nobody waits for ever
        httpx.Client(base_url=url, trust_env=False, timeout=120) as client,
    ):
        asked = [threads.submit(plan) for _ in range(40)]
        while len(statuses) < 38:  # all but the one at work and the one that waits are refused while both are held
            assert client.get("/healthz").status_code == 200
        assert statuses == [(429, "1")] * 38  # they are all one analyst's
        for path in ("/healthz", "/readyz", "/metrics", "/openapi.json"):
            assert client.get(path).status_code == 200
        assert client.post("/v1/queries", json=histogram_request(), headers=analyst).status_code == 429
        assert client.post("/v2/visit", json=ASK, headers=device).status_code == 200
        assert client.get("/v1/ledger", headers=analyst).status_code == 200
        gate.open_for_each([each for each in asked if not each.done()])


@pytest.mark.slow
def test_health_has_its_own_way_when_every_thread_is_held(tmp_path, monkeypatch):
    begun, go_on = threading.Semaphore(0), threading.Event()

    def hold():
        begun.release()
        assert go_on.wait(120)

    with inside(tmp_path / "data") as server, guarding(app=server.app) as door:
        monkeypatch.setattr(server.services.coordinator, "ledger_view", hold)
        door.loop.call_soon_threadsafe(door.loop.set_default_executor, ThreadPoolExecutor(4))
        url, headers = f"http://127.0.0.1:{door.port}", {"Authorization": f"Bearer {server.token('analyst')}"}
        with ThreadPoolExecutor(8) as threads, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            asked = [threads.submit(httpx.get, url + "/v1/ledger", headers=headers, timeout=120) for _ in range(8)]
            try:
                for _ in range(4):
                    assert begun.acquire(timeout=60)
                for path in ("/healthz", "/readyz", "/metrics"):
                    assert client.get(path).status_code == 200
            finally:
                go_on.set()
            for each in asked:
                each.result(120)


def test_a_query_is_read_where_it_is_computed_and_long_bodies_not_in_the_event_loop(tmp_path, monkeypatch):
    """A body of 4 MiB takes a second to decode, in which nothing else would be answered."""
    given, decoded = [], []

    def compute(function, request, *arguments):
        given.append(request)
        return function(request, *arguments)

    def noted(kind, body):
        decoded.append((len(body), threading.current_thread() is threading.main_thread()))
        return decode(kind, body)

    monkeypatch.setattr(routing, "decode", noted)
    with inside(tmp_path / "data") as server:
        server.services.coordinator._compute = compute
        for path in ("/v1/plans", "/v1/queries"):
            assert server.ask("POST", path, server.token("analyst"), json=histogram_request()).status_code == 200
        assert [type(request) for request in given] == [bytes, bytes] and not decoded
        assert server.ask("POST", "/v1/plans", server.token("analyst"), content=b"{").status_code == 400
        key = server.token("coordinator-to-aggregator")
        long = b'{"in_use": [' + b" " * (60 << 10) + b"]}"
        server.ask("POST", "/v1/peer/aggregator/keys/retire", key, content=long)
        key = server.token("coordinator-to-collector")
        server.ask("POST", "/v1/peer/collector/rounds", key, content=b" " * (1 << 20) + b"{}")
    assert [(size < 64 << 10, main) for size, main in decoded] == [(True, True), (False, False)]


def test_who_asks_while_another_waits_gets_what_was_said_last():
    go_on = threading.Event()

    async def asking():
        alone = Alone()
        assert await alone(lambda: 1) == 1
        held = asyncio.ensure_future(alone(lambda: go_on.wait(60) and 2))
        await asyncio.sleep(0)
        assert await alone(lambda: 3) == 1
        gone = asyncio.ensure_future(alone(lambda: 3))
        await asyncio.sleep(0)
        gone.cancel()
        go_on.set()
        assert await held == 2
        assert await alone(lambda: 4) == 4

    asyncio.run(asking())


@pytest.mark.slow
def test_a_real_server_computes_plans_beside_itself(tmp_path):
    from fleet_server import started

    with started(tmp_path / "data", "--no-console") as server:
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        with th.Fleet(server.url, server.analyst) as fleet:
            assert not children.read_text().split()  # not before somebody asks
            fleet.plan(th.verbs.HistogramQuery(th.questions.Values("word"), th.plan(epsilon=1, delta=1e-8)))
            [child] = _children(server.process.pid)
            server.kill()
            gone(child)


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


ALONE = """
import socket, sys
from thresher.server import worker
worker._end_with = lambda file: None  # it ends the process too, sooner or later
ours, theirs = socket.socketpair()
if sys.argv[1] == "later":
    ours.sendall(bytes(3))  # a part of a request
ours.close()
worker.work(theirs.detach())
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_process_whose_server_was_killed_ends_without_a_word(when):
    done = subprocess.run([sys.executable, "-c", ALONE, when], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")

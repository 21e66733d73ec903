"""Whatever an app's code does when it is asked what a device holds, the device answers the round, once and in time."""

from __future__ import annotations

import _thread
import asyncio
import datetime as dt
import signal
import threading
from decimal import Decimal

import pytest
from device_cases import ALWAYS, configuration, device, opened, sealed, shown, take
from hostile_values import EXAMPLES, made

from thresher.device.device import Device
from thresher.device.held_values import Reader
from thresher.errors import InvalidSetting
from thresher.protocol.plaintext import DECOY
from thresher.protocol.sealing import OVERHEAD
from thresher.questions import Among, Between, Bins, Cells, Dates, Filtered, Joint, Prefixes, Values, Where

QUESTIONS = [
    Values(("word",)),
    Values(("word", "colour")),
    Bins("word", (0.0, 10.0, 100.0)),
    Dates("word", "month"),
    Prefixes("word", 3),
    Cells("word", 0.0, 100.0, 8),
    Joint((Values(("word",)), Bins("colour", (0.0, 1.0)))),
    Filtered(Values(("word",)), Where((Among("colour", ("red",)), Between("word", 0.0, 1.0)))),
]


def answer(holds, of, **settings):
    core = device(holds)
    core._reader.seconds = settings.get("seconds", 60.0)
    assert take(core, shown(of)) == [of.round]
    return opened(sealed(core, of.round), of)


class Ends(BaseException):
    """An error that is none of the usual ones."""


@pytest.mark.parametrize(
    "error", [SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError, RecursionError, StopIteration, Ends, OSError]
)
def test_whatever_a_function_raises_the_round_is_answered_with_a_decoy(error):
    def fails():
        raise error

    of = configuration(**ALWAYS)
    assert answer({"word": fails}, of) is DECOY
    assert answer(fails, of) is DECOY
    assert answer({"word": lambda: "read"}, of) == "read"


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.kind)
def test_whatever_is_held_the_round_is_answered_with_a_report_of_the_same_length(question):
    of = configuration(question=question, **ALWAYS)
    for example in EXAMPLES:
        for held in ({"word": made(example), "colour": made(example)}, {"word": lambda each=example: made(each)}):
            core = device(held)
            assert take(core, shown(of)) == [of.round]
            assert len(sealed(core)) == 64 + OVERHEAD


def leave(*_: object):
    raise SystemExit(3)


def evil(base: type, *methods: str) -> type:
    """A class whose methods end the process, if they are let. Made late: pytest looks at all that a module holds."""
    return type("Evil", (base,), dict.fromkeys(methods, leave))


EVERYTHING = ("__str__", "__repr__", "__float__", "__int__", "__len__", "__iter__", "__hash__", "__eq__", "__bool__")
HOLDINGS = {
    "object": lambda: {"word": evil(object, *EVERYTHING)()},
    "class": lambda: {"word": type("Evil", (), {"__class__": property(leave)})()},
    "element": lambda: {"word": [evil(object, *EVERYTHING)()]},
    "text": lambda: {"word": evil(str, "replace", "__hash__", "__eq__")("x")},
    "list": lambda: {"word": evil(list, "__len__", "__getitem__")(["x"])},
    "zone": lambda: {"word": dt.datetime(2024, 1, 1, tzinfo=evil(dt.tzinfo, "utcoffset")())},
    "mapping": lambda: evil(dict, "get")(word="x"),
    "attributes": lambda: evil(object, "__getattribute__")(),
}


@pytest.mark.parametrize("name", HOLDINGS)
def test_objects_that_end_the_process_do_not(name):
    for question in QUESTIONS:
        answer(HOLDINGS[name](), configuration(question=question, **ALWAYS))  # whatever it says, it answers


def test_plain_values_need_no_thread(monkeypatch):
    monkeypatch.setattr(Reader, "run", lambda *_: pytest.fail("a thread was asked for"))
    of = configuration(**ALWAYS)
    for value, text in (
        ("red", "red"),
        (42, "42"),
        (None, DECOY),
        (10**5000, DECOY),
        (["red"], "red"),
        ("x" * 99, DECOY),
    ):
        assert answer({"word": value}, of) == text


def test_a_function_that_does_not_return_costs_one_thread_and_no_round():
    free, calls = threading.Event(), []

    def hangs():
        calls.append(threading.current_thread())
        assert free.wait(60)
        return "late"

    core = device({"word": hangs, "colour": "red"})
    core._reader.seconds = 0.01
    rounds = [configuration(f"round-{index}", index=index, **ALWAYS) for index in range(3)]
    for of in rounds[:2]:  # two visits: the second finds the thread still there
        assert take(core, shown(of))[-1] == of.round
        assert opened(sealed(core, of.round), of) is DECOY
    assert len(calls) == 1
    plain = configuration("plain", query="query-1", question=Values(("colour",)), **ALWAYS)
    take(core, shown(plain))
    assert opened(sealed(core, "plain"), plain) == "red"  # what runs no code is read all the same
    free.set()
    calls[0].join(60)
    core._reader.seconds = 60.0
    take(core, shown(rounds[2]))
    assert opened(sealed(core, "round-2"), rounds[2]) == "late"


def test_each_function_is_called_once_a_visit():
    calls = []

    def word():
        calls.append("word")
        return ["a", "b"]

    core = device({"word": word, "colour": lambda: calls.append("colour")})
    rounds = [configuration(f"round-{index}", index=index, **ALWAYS) for index in range(3)]
    assert len(take(core, shown(*rounds))) == 3
    assert calls == ["word"]
    assert {opened(sealed(core, of.round), of) for of in rounds} <= {"a", "b"}
    take(core, shown(configuration("later", query="query-1", **ALWAYS)))
    assert calls == ["word", "word"]


def test_two_lists_are_chosen_from_independently():
    both = configuration(question=Values(("word", "colour")), **ALWAYS)
    holds = {"word": ["a", "b"], "colour": ["c", "d"]}
    # All four pairs come up: a missing one has probability 4 × (3/4)^200 < 1e-24.
    assert len({answer(holds, both) for _ in range(200)}) == 4


def test_an_interrupt_from_outside_stops_the_device_and_seals_nothing():
    """Ctrl-C reaches the thread that waits, also while the app's code is running."""
    free = threading.Event()

    def interrupted():
        _thread.interrupt_main()
        assert free.wait(60)
        return "late"

    core = device({"word": interrupted})
    core._reader.seconds = 60.0
    # Started in the background by a shell, these tests ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            take(core, shown(configuration(**ALWAYS)))
    finally:
        signal.signal(signal.SIGINT, before)
    free.set()
    assert core.outcomes() == []


def test_decimals_and_dates_are_read():
    of = configuration(**ALWAYS)
    assert answer({"word": Decimal("7.50")}, of) == "7.5"
    assert answer({"word": dt.date(2024, 6, 13)}, of) == "2024-06-13"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 1e9])
def test_times_that_make_no_sense_are_refused(seconds):
    with pytest.raises(InvalidSetting, match="reading_seconds"):
        Device("http://127.0.0.1:9", "key", {}, reading_seconds=seconds)


def test_an_event_loop_goes_on_while_the_apps_code_runs():
    """The asyncio visit reads in a thread: a function that waits for the loop does not wait in vain."""
    import httpx

    from thresher.protocol import messages

    of, went_on = configuration(**ALWAYS), threading.Event()
    asked: list[bytes] = []

    def word():
        loop.call_soon_threadsafe(went_on.set)
        return "read" if went_on.wait(60) else None

    def serve(request: httpx.Request) -> httpx.Response:
        asked.append(request.content)
        if request.url.path == "/v2/devices":
            return httpx.Response(200, json={"version": 2, "token": "thresher-device-1", "identity": None})
        visit = messages.decode(messages.Visit, request.content)
        taken = {report.round: "taken" for report in visit.reports}
        body = shown(*([of] if visit.rounds else ()), **taken)
        return httpx.Response(200, content=body, headers={"content-type": "application/json"})

    visitor = Device("http://fleet.test", "key", {"word": word}, transport=httpx.MockTransport(serve))

    async def visit():
        nonlocal loop
        loop = asyncio.get_running_loop()
        return await visitor.check_in_async()

    loop = None
    [outcome] = asyncio.run(visit())
    assert outcome.status == "taken"
    [report] = messages.decode(messages.Visit, asked[-1]).reports
    assert opened(report.sealed, of) == "read"

"""Series as the console reads them: schedules on the form, forms filled in again, answers kept, Python lines."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest

import thresher as th
from thresher.client.series_requests import SeriesSettings, series_request, verb_settings
from thresher.console import ask_form as asking
from thresher.console import following as following_module
from thresher.console import schedule_form
from thresher.console.following import MOST_DATES, Following
from thresher.console.form_filling import fields_of, says_all, series_fields
from thresher.console.python_line import following_line, series_line
from thresher.console.series_tables import latest_numbers, surfaced
from thresher.errors import InvalidFormat, InvalidSetting, StoreUnavailable
from thresher.protocol.analyst_messages import RoundSettings
from thresher.protocol.configurations import Guarantees
from thresher.protocol.rates import share
from thresher.protocol.series_messages import ScheduleStated, SeriesRelease, SeriesStatus
from thresher.protocol.states import GapState, QueryState, SeriesState
from thresher.questions import Dates, Values
from thresher.verbs import HeavyHittersQuery, HistogramQuery, QuantilesQuery, RangesQuery
from thresher.verbs.query import query_from_dict

PLAN = th.plan(epsilon=1.0, delta=1e-8)
ROUNDS = th.plan(epsilon=1.0, delta=1e-8, rounds=6)
NOW = dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC).timestamp()


class Clock:
    def now(self) -> float:
        return NOW


def status(
    releases: list[SeriesRelease], query: Any = None, *, total: th.Plan = PLAN, number: int = 60
) -> SeriesStatus:
    query = HistogramQuery(Values(("word",)), PLAN) if query is None else query
    rates, exact = share(query.plan)
    stated = Guarantees.of(exact, rates)
    return SeriesStatus(
        id="s1",
        name="weekly",
        verb=query.verb,
        what=query.describe(),
        by="ana",
        state=SeriesState.RUNNING,
        created=NOW,
        changed=None,
        changed_by=None,
        ended=None,
        query=query.with_plan(exact).to_dict(),
        settings=RoundSettings(),
        schedule=ScheduleStated(every="2 weeks", releases=number, start=NOW, time_zone="Europe/Paris", missed="late"),
        total=Guarantees.of(total, rates),
        each=stated,
        next=None,
        last=NOW,
        passed=len(releases),
        released=0,
        releases=releases,
    )


def dates(states: list[QueryState | None]) -> list[SeriesRelease]:
    return [
        SeriesRelease(
            index=index,
            due=NOW + 7 * 86_400 * index,
            query=None if state is None else f"q{index}",
            state=state,
            gap=GapState.MISSED if state is None else None,
        )
        for index, state in enumerate(states)
    ]


class Answers:
    """Answers by the id of their query, and which were read. Numbers are so far apart that 1e-7 is left to chance."""

    def __init__(self, unreadable: tuple[str, ...] = ()) -> None:
        self.read: list[str] = []
        self.unreadable = unreadable

    def __call__(self, query: str) -> Any:
        self.read.append(query)
        if query in self.unreadable:
            raise InvalidFormat("cannot be read")
        number = int(query.removeprefix("q"))
        words = ["yes"] * (3000 + 500 * number) + ["no"] * 1500 + ["new"] * (2500 if number == 2 else 0)
        return th.histogram(words, "value", plan=PLAN)


def test_answers_are_read_once_and_new_ones_when_they_come():
    answers = Answers()
    following = Following(answers)
    first = following.read(status(dates([QueryState.DONE, None, QueryState.RUNNING])))
    assert answers.read == ["q0"]
    assert first.changes is None
    assert len(first.over_time.missed) == 1  # the release that runs is not a gap
    assert following.read(status(dates([QueryState.DONE, None, QueryState.RUNNING]))) is first
    second = following.read(status(dates([QueryState.DONE, None, QueryState.DONE])))
    assert answers.read == ["q0", "q2"]
    assert second.newest == "q2"
    assert [row.label for row in second.latest] == ["yes", "new", "no"]
    assert second.small is not None


def test_the_last_numbers_have_their_changes_and_what_appeared_its_caveat():
    followed = Following(Answers()).read(status(dates([QueryState.DONE, None, QueryState.DONE])))
    yes, new, _ = latest_numbers(followed)
    assert yes.change.startswith("+") and " to " in yes.change_interval and yes.changed is True
    assert (new.change, new.changed) == ("", None)
    (appeared,) = surfaced(followed.changes, vanished=False)
    assert (appeared.label, appeared.certain) == ("new", True)
    assert int(appeared.bound.replace(",", "")) > 0
    assert surfaced(followed.changes, vanished=True) == []
    assert [each.label for each in latest_numbers(followed, 1)] == ["yes"]


def test_an_answer_that_cannot_be_read_is_a_gap_and_a_store_that_is_away_is_not_kept():
    followed = Following(Answers(("q0",))).read(status(dates([QueryState.DONE, QueryState.DONE])))
    assert (followed.unread, len(followed.over_time.released)) == (1, 1)
    nothing = Following(Answers(("q0", "q1"))).read(status(dates([QueryState.DONE, QueryState.DONE])))
    assert nothing.over_time is None
    assert "cannot be read" in nothing.problem

    def away(query: str) -> Any:
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        Following(away).read(status(dates([QueryState.DONE])))


def test_only_the_newest_dates_of_a_long_series_are_read():
    answers = Answers()
    states: list[QueryState | None] = [QueryState.DONE, *[None] * MOST_DATES]
    followed = Following(answers).read(status(dates(states), number=1000))
    assert answers.read == []
    assert followed.older == 1
    assert len(followed.over_time) == MOST_DATES


def test_fewer_dates_are_read_where_answers_are_long(monkeypatch):
    monkeypatch.setattr(following_module, "MOST_NUMBERS", 5)
    answers = Answers()
    followed = Following(answers).read(status(dates([QueryState.DONE] * 6)))
    assert answers.read == ["q5", "q4", "q3"]  # two numbers each, the newest first
    assert (followed.older, followed.newest) == (3, "q5")
    assert [date for date, _ in followed.over_time.released] == sorted(followed.over_time.dates)


@pytest.mark.parametrize(
    "query",
    [
        HistogramQuery(Values(("word",)), PLAN),
        HistogramQuery(Values(("word", "os")), PLAN),
        HistogramQuery(Values(("word",)), PLAN, ("a", "b c")),
        HistogramQuery(Dates("day", "month"), PLAN),
        th.verbs.asking.make("histogram", th.verbs.asking.Target(plan=PLAN), {"column": "n", "bins": [0, 2.5, 10]}),
        HeavyHittersQuery("word", PLAN, "one-shot"),
        HeavyHittersQuery("word", ROUNDS, "trie", 2),
        QuantilesQuery("n", (0.5, 0.95), ROUNDS, -5.0, 1e6, "search"),
        QuantilesQuery("n", (0.5,), ROUNDS, 0.0, 1000.0, "hierarchy"),
        RangesQuery("n", ROUNDS, 0.25, 1000.0),
    ],
)
def test_the_form_is_filled_in_with_what_was_asked(query):
    fields = fields_of(query, RoundSettings(contact_rate=0.3, sampled_by="device"))
    assert says_all(query, fields)
    filled = asking.filled(fields)
    assert asking.to_query(filled) == query
    assert (filled["contact"], filled["sampled_by"]) == ("30", "device")


def test_a_query_that_the_form_cannot_say_is_noticed():
    joint = th.verbs.asking.make(
        "histogram",
        th.verbs.asking.Target(plan=PLAN),
        {"column": ["n", "word"], "bins": {"n": [0, 10, 20]}},
    )
    assert not says_all(joint, fields_of(joint))


def test_a_schedule_is_read_from_the_form():
    fields = asking.filled({"attribute": "word"})
    assert not schedule_form.repeats(fields)
    for every, releases in schedule_form.USUAL.items():
        chosen = schedule_form.to_schedule({**fields, "every": every}, Clock())
        assert (chosen.every, chosen.releases, chosen.start, chosen.missed) == (every, releases, None, "skip")
    more = {"every": "week", "apart": "2", "until": "2026-03-31", "time_zone": "Europe/Paris", "missed": "late"}
    chosen = schedule_form.to_schedule({**fields, **more}, Clock())
    assert (chosen.every, chosen.releases, chosen.missed) == ("2 weeks", 3, "late")
    again = series_fields(status([]))
    assert (again["every"], again["apart"], again["missed"]) == ("week", "2", "late")
    with pytest.raises(InvalidSetting, match="apart"):
        schedule_form.to_schedule({**fields, "every": "week", "apart": "1000"}, Clock())


@pytest.mark.slow
@pytest.mark.parametrize("best", [True, False])
def test_the_python_line_asks_for_the_same_series(best):
    settings = {"every": "2 weeks", "releases": 6, "time_zone": "Europe/Paris", "missed": "late"}
    target = {"epsilon": 1.0, "delta": 1e-8} if best else {"plan": PLAN, "delta": 1e-7}
    asked = series_request("histogram", {"column": "word"}, SeriesSettings(**settings, **target), name="x")
    query = query_from_dict(asked.query)
    _, exact = share(query.plan)
    total = th.Plan(exact.sampling_rate, exact.threshold, asked.epsilon, asked.delta, exact.adjacency, 6)
    found = status([], query, total=total, number=6)
    line = series_line(query.with_plan(exact), found, "http://server")
    assert ("plan=" in line) is not best
    sent: list[Any] = []

    class Fleet:
        def __init__(self, url: str, *, key: str) -> None:
            assert (url, key) == ("http://server", "a-token")

        def series(self, verb: str, *arguments: Any, **given: Any) -> None:
            schedule = {name: given.pop(name) for name in list(given) if name in SeriesSettings.__slots__}
            own, chosen = verb_settings(verb, arguments, given)
            sent.append(series_request(own, chosen, SeriesSettings(**schedule), name="x"))

    eval(line, {"th": SimpleNamespace(Fleet=Fleet, plan=th.plan), "token": "a-token"})
    assert share(query_from_dict(sent[0].query).plan)[1] == exact
    assert sent[0].schedule == asked.schedule
    assert following_line("s1", "http://server").startswith("th.Fleet('http://server', key=token).series_by_id('s1')")

"""A ledger's unit, its references, and ledgers of Thresher 0.1.0."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ledger_cases import FORKS, charge_whole, total
from typer.testing import CliRunner

import thresher as th
from thresher.cli.app import app
from thresher.errors import BudgetExceeded, Conflict, InvalidFormat, InvalidSetting, LedgerUnavailable
from thresher.ledger import Ledger
from thresher.privacy import DEVICE, MEMBER, ROW, Unit
from thresher.tables.database_url import database_url
from thresher.verbs import asking

USER = Unit("column", "user")
PLAN = th.plan(1, 1e-8)

VERSION_1 = """
PRAGMA application_id = 1414025811;
PRAGMA user_version = 1;
CREATE TABLE budget (
    only INTEGER PRIMARY KEY CHECK (only = 1), epsilon TEXT NOT NULL, delta TEXT NOT NULL, adjacency TEXT NOT NULL,
    created TEXT NOT NULL
);
CREATE TABLE charges (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, what TEXT NOT NULL, epsilon TEXT NOT NULL,
    delta TEXT NOT NULL, adjacency TEXT NOT NULL, rounds INTEGER NOT NULL
);
INSERT INTO budget VALUES (1, '3.0', '1e-06', 'replace', '2026-01-01T00:00:00.000000+00:00');
"""
"""What Thresher 0.1.0 wrote; never edited."""


def version_1(path: Path, *texts: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1)
    for text in texts:
        connection.execute(
            "INSERT INTO charges (time, what, epsilon, delta, adjacency, rounds) VALUES (?, ?, ?, ?, ?, ?)",
            ("2026-01-02T00:00:00.000000+00:00", text, "0.5", "1e-08", "replace", 2),
        )
    connection.commit()
    connection.close()
    return path


VERSION_3 = """
PRAGMA application_id = 1414025811;
PRAGMA user_version = 3;
CREATE TABLE budget (
    only INTEGER PRIMARY KEY CHECK (only = 1), epsilon TEXT NOT NULL, delta TEXT NOT NULL, adjacency TEXT NOT NULL,
    created TEXT NOT NULL, unit TEXT
);
CREATE TABLE charges (
    id INTEGER PRIMARY KEY AUTOINCREMENT, reference TEXT NOT NULL UNIQUE, time TEXT NOT NULL, what TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, adjacency TEXT NOT NULL, rounds INTEGER NOT NULL, unit TEXT
);
CREATE TABLE same_units (unit TEXT PRIMARY KEY);
INSERT INTO budget VALUES (1, '3.0', '1e-06', 'replace', '2026-01-01T00:00:00.000000+00:00', 'column:user');
INSERT INTO charges (reference, time, what, epsilon, delta, adjacency, rounds, unit) VALUES
    ('q1', '2026-01-02T00:00:00.000000+00:00', 'histogram', '0.5', '1e-08', 'replace', 4, 'column:user');
"""


def version_3(path: Path, change: str = "") -> Path:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_3 + change)
    return path


# The unit.


def test_a_query_for_rows_is_not_added_to_one_for_people(tmp_path: Path) -> None:
    """One person has 400 rows: without `unit=`, their page is released, and that is no guarantee for a person."""
    visits = pa.table({"user": [1] * 400 + list(range(2, 602)), "page": ["/mine"] * 400 + ["/home"] * 600})
    ledger = Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-6, composition="sum")
    released = th.histogram(visits, "page", unit="user", plan=PLAN, ledger=ledger)
    assert "/mine" not in released.release.buckets
    with pytest.raises(InvalidSetting, match=r"unit is one row, and this ledger .* for one unit \(user\)") as caught:
        th.histogram(visits, "page", plan=PLAN, ledger=ledger)
    assert caught.value.setting == "unit"
    assert "another ledger" in caught.value.hint
    assert total(ledger.spent) == (1.0, 1e-8)
    assert (ledger.unit, ledger.history()[0].unit) == (USER, "column:user")


def test_the_first_charge_binds_a_ledger_durably(tmp_path: Path) -> None:
    path = tmp_path / "privacy.db"
    assert Ledger(path, epsilon=3, delta=1e-6, composition="sum").unit is None
    charge_whole(Ledger(path), PLAN, "histogram", ROW)
    again = Ledger(path)
    assert again.unit == ROW
    assert "for one row" in repr(again)
    for other in (USER, "user", "row", DEVICE, MEMBER):  # a column that is called "row" is not the rows
        with pytest.raises(InvalidSetting, match="unit is"):
            charge_whole(again, PLAN, "histogram", other)
        with pytest.raises(InvalidSetting, match="unit is"):
            again.check(PLAN, other)
        with pytest.raises(InvalidSetting, match="unit is"):
            again.restore(PLAN, "histogram", other, "q1")
        with pytest.raises(InvalidSetting, match="unit is"):
            Ledger(path, unit=other)
    assert total(again.spent) == (1.0, 1e-8)


def test_a_unit_can_be_given_when_a_ledger_is_made_or_opened(tmp_path: Path) -> None:
    assert Ledger(tmp_path / "new.db", epsilon=3, delta=1e-6, unit="user", composition="sum").unit == USER
    assert Ledger(tmp_path / "new.db", unit="user").unit == USER
    Ledger(tmp_path / "later.db", epsilon=3, delta=1e-6, composition="sum")
    Ledger(tmp_path / "later.db", unit=ROW)
    assert Ledger(tmp_path / "later.db").unit == ROW
    for wrong in ("", 3, ["user"]):
        with pytest.raises(InvalidSetting, match="unit"):
            Ledger(tmp_path / "none.db", epsilon=3, delta=1e-6, unit=wrong, composition="sum")  # type: ignore[arg-type]
    assert not (tmp_path / "none.db").exists()


def test_a_charge_that_does_not_fit_binds_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.db", epsilon=0.5, delta=1e-6, composition="sum")
    with pytest.raises(BudgetExceeded):
        charge_whole(ledger, PLAN, "histogram", ROW)
    assert ledger.unit is None


@pytest.mark.slow
def test_another_tables_column_may_name_the_same_units(tmp_path: Path) -> None:
    """A second ledger for the same people would promise each of two budgets, and not their sum."""
    path = tmp_path / "privacy.db"
    ledger = Ledger(path, epsilon=3, delta=1e-6, unit="user", composition="sum")
    with pytest.raises(InvalidSetting, match=r"one unit \(uid\)") as refused:
        ledger.charge(0.1, 1e-8, "histogram", unit="uid")
    assert "same_unit('uid')" in refused.value.hint
    ledger.same_unit("uid")
    ledger.same_unit("uid")
    ledger.same_unit("user")
    assert Ledger(path).same_units == {Unit("column", "uid")}
    visits = pa.table({"uid": list(range(1000)), "page": ["a"] * 1000})
    assert th.histogram(visits, "page", unit="uid", plan=PLAN, ledger=ledger)["a"].count > 0
    assert [entry.unit for entry in Ledger(path, unit="uid").history()] == ["column:uid"]
    assert Ledger(path).unit == USER
    for other in ("person", ROW, DEVICE):
        with pytest.raises(InvalidSetting, match="unit is"):
            ledger.charge(0.1, 1e-8, "histogram", unit=other)
    for name in ("", "\ud800"):
        with pytest.raises(InvalidSetting, match="name of one column"):
            ledger.same_unit(name)
    for unit, bound in ((ROW, "one row"), (None, "no unit yet")):
        with pytest.raises(InvalidSetting, match=f"of this ledger is {bound}"):
            Ledger(tmp_path / f"{bound}.db", epsilon=3, delta=1e-6, unit=unit, composition="sum").same_unit("uid")


@pytest.mark.slow
def test_the_command_line_says_which_columns_name_the_same_units(tmp_path: Path) -> None:
    path = str(tmp_path / "privacy.db")
    Ledger(path, epsilon=3, delta=1e-6, unit="user", composition="sum")
    said = CliRunner().invoke(app, ["ledger", "same-unit", path, "uid"])
    assert (said.exit_code, said.output) == (0, "Columns that name one unit of this ledger: 'uid', 'user'.\n")
    assert "'uid', 'user'" in CliRunner().invoke(app, ["ledger", "show", path]).output
    shown = json.loads(CliRunner().invoke(app, ["ledger", "show", path, "--json"]).output)
    assert (shown["budget"]["unit"], shown["budget"]["same_units"]) == ("column:user", ["column:uid"])


def test_a_ledger_of_version_2_is_read(tmp_path: Path) -> None:
    path = tmp_path / "privacy.db"
    version_3(path, "DROP TABLE same_units; PRAGMA user_version = 2;")
    ledger = Ledger(path)
    assert (ledger.unit, ledger.spent.epsilon, ledger.same_units) == (USER, 0.5, set())


def test_a_ledger_of_version_3_goes_on_adding_up(tmp_path: Path) -> None:
    path = version_3(tmp_path / "privacy.db", "INSERT INTO same_units VALUES ('column:uid')")
    ledger = Ledger(path)
    assert (ledger.composition, ledger.epsilon, ledger.periods, ledger.data_set) == ("sum", 3.0, None, None)
    assert (total(ledger.spent), ledger.same_units) == ((0.5, 1e-8), {Unit("column", "uid")})
    assert [promise.epsilon for promise in ledger.promises] == [3.0]
    [entry] = ledger.history()
    assert (entry.rounds, entry.drawn, entry.given_back, entry.ended) == (4, 4, 0, entry.time)
    ledger.draw("q1", 3)  # it was charged whole, so its rounds may go on
    assert ledger.drawn("q1") == {0, 1, 2, 3}
    assert (ledger.give_back("q1"), total(ledger.spent)) == (0, (0.5, 1e-8))
    with pytest.raises(InvalidSetting, match="composition differs"):
        Ledger(path, composition="adaptive")


def _bind(path: str, unit: str, start: Any, done: Any) -> None:
    ledger = Ledger(path)
    start.wait(60)
    try:
        ledger.charge(0.1, 1e-8, "first", unit=unit)
        done.put(unit)
    except InvalidSetting:
        done.put(None)


@pytest.mark.slow
def test_of_processes_that_charge_first_at_the_same_time_one_binds(tmp_path: Path) -> None:
    path = tmp_path / "privacy.db"
    Ledger(path, epsilon=3, delta=1e-6, composition="sum")
    start, done = FORKS.Barrier(4), FORKS.Queue()
    processes = [
        FORKS.Process(target=_bind, args=(str(path), f"unit{number}", start, done), daemon=True) for number in range(4)
    ]
    for process in processes:
        process.start()
    bound = [unit for _ in processes if (unit := done.get(timeout=120)) is not None]
    for process in processes:
        process.join(timeout=60)
    assert len(bound) == 1
    assert Ledger(path).unit == Unit("column", bound[0])
    assert len(Ledger(path).history()) == 1


@pytest.mark.parametrize("text", ["", "rows", "column:", "Row", 3])
def test_units_that_no_ledger_writes_are_refused(tmp_path: Path, text: Any) -> None:
    path = tmp_path / "privacy.db"
    ledger = Ledger(path, epsilon=3, delta=1e-6, unit="user", composition="sum")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE budget SET unit = ?", (text,))
    connection.close()
    with pytest.raises(InvalidFormat, match="damaged"):
        ledger.charge(0.1, 1e-8, "histogram", unit="user")
    with pytest.raises(InvalidFormat, match="damaged"):
        _ = ledger.unit


# Whether a query fits, before anything is opened.


def test_check_refuses_what_a_charge_would_and_writes_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.db", epsilon=1.5, delta=1e-6, composition="sum")
    before = ledger.path.read_bytes()
    ledger.check(PLAN, ROW)
    with pytest.raises(InvalidSetting, match="adjacency"):
        ledger.check(th.plan(1, 1e-8, adjacency="add-remove"), ROW)
    assert ledger.path.read_bytes() == before
    charge_whole(ledger, PLAN, "histogram", ROW)
    with pytest.raises(BudgetExceeded, match=r"epsilon = 0\.5"):
        ledger.check(PLAN, ROW)


# References.


def test_a_charge_under_its_reference_is_made_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.db", epsilon=1, delta=1e-6, composition="sum")
    first = charge_whole(ledger, PLAN, "histogram of word", DEVICE, reference="q1")
    assert charge_whole(ledger, PLAN, "another text", DEVICE, reference="q1") == first
    assert (total(ledger.spent), ledger.references()) == ((1.0, 1e-8), {"q1"})
    for other in ({"epsilon": 0.5}, {"delta": 1e-9}, {"rounds": 2}):
        with pytest.raises(Conflict, match="another charge under the reference q1"):
            ledger.charge(**({"epsilon": 1, "delta": 1e-8, "what": "x", "unit": DEVICE, "reference": "q1"} | other))
    with pytest.raises(BudgetExceeded):
        charge_whole(ledger, PLAN, "histogram of word", DEVICE, reference="q2")
    assert ledger.references() == {"q1"}


def test_charges_without_a_reference_get_one_of_their_own(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-6, composition="sum")
    for _ in range(2):
        charge_whole(ledger, PLAN, "histogram", ROW)
    assert len({entry.reference for entry in ledger.history()}) == 2
    for wrong in ("", "x" * 101):
        with pytest.raises(InvalidSetting, match="reference"):
            charge_whole(ledger, PLAN, "histogram", ROW, reference=wrong)


def test_what_is_restored_may_exceed_the_budget(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.db", epsilon=1.5, delta=1e-6, composition="sum")
    assert [ledger.restore(PLAN, "histogram", DEVICE, name) for name in ("q1", "q2", "q1")] == [True, True, False]
    assert (ledger.spent.epsilon, ledger.left.epsilon) == (2.0, 0.0)
    with pytest.raises(BudgetExceeded):
        ledger.charge(1e-6, 1e-12, "histogram", unit=DEVICE)


# Ledgers of Thresher 0.1.0.


def test_a_tables_ledger_of_version_1_is_read_and_bound_by_its_next_charge(tmp_path: Path) -> None:
    ledger = Ledger(version_1(tmp_path / "privacy.db", "histogram of page", "query q1: histogram of word"))
    assert (ledger.unit, total(ledger.spent)) == (None, (1.0, 2e-8))
    first, second = ledger.history()
    assert (first.what, first.unit, first.rounds) == ("histogram of page", None, 2)
    assert (second.what, second.unit, second.reference) == ("histogram of word", "device", "q1")
    assert ledger.charge(1, 1e-8, "histogram of page", unit="user") == 3
    assert Ledger(ledger.path).unit == USER


def test_a_fleets_ledger_of_version_1_keeps_its_queries_charges(tmp_path: Path) -> None:
    path = version_1(tmp_path / "privacy.db", "query q1: histogram of word", "query q1: histogram of word")
    assert Ledger(path).references() > {"q1"}  # the second has one of its own
    path = version_1(tmp_path / "fleet.db", "query q1: histogram of a\nb", "query q2: ranges of age")
    ledger = Ledger(path)
    assert (ledger.unit, ledger.references(), ledger.spent.epsilon) == (DEVICE, {"q1", "q2"}, 1.0)
    assert ledger.charge(0.5, 1e-8, "histogram of a\nb", unit=DEVICE, rounds=2, reference="q1") == 1
    assert ledger.spent.epsilon == 1.0


def test_an_empty_ledger_of_version_1_is_bound_to_nothing(tmp_path: Path) -> None:
    ledger = Ledger(version_1(tmp_path / "privacy.db"))
    assert (ledger.unit, ledger.history()) == (None, [])
    assert ledger.charge(1, 1e-8, "histogram", unit=ROW) == 1


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = version_1(tmp_path / "privacy.db", "histogram of page")
    before = path.read_bytes()

    def fails() -> str:
        raise sqlite3.OperationalError("disk full")

    monkeypatch.setattr("thresher.ledger.schema.new_reference", fails)
    with pytest.raises(LedgerUnavailable):
        Ledger(path)
    assert path.read_bytes() == before
    monkeypatch.undo()
    assert Ledger(path).spent.epsilon == 0.5


# Files.


def test_what_is_not_a_regular_file_is_no_ledger(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull), tmp_path):
        with pytest.raises(LedgerUnavailable, match="not a regular file"):
            Ledger(path, epsilon=1, delta=1e-6, composition="sum")
    assert not Path(os.devnull).is_file()


def test_a_ledger_of_version_5_goes_on_and_keeps_who_asked_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "privacy.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript((Path(__file__).parent / "ledger_version_5.sql").read_text())
    ledger = Ledger(path)
    kept = [(entry.by, entry.data, entry.contributions) for entry in ledger.history()]
    assert kept == [(None, None, 3), (None, None, 1)]
    assert ledger.spent.epsilon == pytest.approx(1.5023514654848245)  # as version 5 showed it
    assert ledger.left.share == pytest.approx(0.875873033580814)
    ledger.draw("second", 2)
    ledger.reserve(PLAN, "histogram", unit="user_id", by="a" * 200, data="visits.csv", drawn=1)
    last = Ledger(path).history()[-1]
    assert (last.by, last.data) == ("a" * 100, "visits.csv")
    assert Ledger(path).to_arrow()["data"].to_pylist() == [None, None, "visits.csv"]


def test_a_verb_says_who_asks_and_which_file_and_never_an_address(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("page\n" + "a\n" * 10)
    ledger = Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-5)
    th.histogram(str(tmp_path / "visits.csv"), "page", plan=PLAN, ledger=ledger)
    th.histogram(["a"] * 10, "value", plan=PLAN, ledger=ledger)
    assert [(entry.by, entry.data) for entry in ledger.history()] == [
        (pwd.getpwuid(os.getuid()).pw_name, "visits.csv"),
        (pwd.getpwuid(os.getuid()).pw_name, None),
    ]
    assert asking._name_of("postgresql://someone:secret@host/visits?password=x", None) == "postgresql://host/visits"
    assert asking._name_of("postgresql://someone:secret@host/visits", "pages") == "pages in postgresql://host/visits"
    assert asking._name_of("sqlite:////home/someone/visits.db", "pages") == "pages in visits.db"


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("snowflake://u:secret@account/shop/schema;pass=secret?warehouse=x", "snowflake://account/shop/schema"),
        ("databricks://token:secret@host:443/path;token=secret", "databricks://host:443/path"),
        ("databricks://host/path%3Btoken=secret", "databricks://host/path"),
        ("sqlite:////home/someone/a;b.db", "a;b.db"),
    ],
)
def test_parameters_of_a_path_are_not_kept(address: str, name: str) -> None:
    assert asking._name_of(address, None) == name
    url = database_url(address)
    assert url is not None and url.has_password == ("secret" in address)


def test_the_environment_does_not_say_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where the system has no name for its user; and nothing that a terminal would act on is kept."""
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "somebody\x1b[2J\n")
    ledger = Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-5)
    th.histogram(["a"] * 10, "value", plan=PLAN, ledger=ledger)

    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    th.histogram(["a"] * 10, "value", plan=PLAN, ledger=ledger)
    first, second = ledger.history()
    assert first.by is not None and "somebody" not in first.by
    assert second.by == "somebody\\x1b[2J\\n"


def test_names_that_utf_8_cannot_write(tmp_path: Path) -> None:
    """Such names of files and columns are kept with escapes; what must be told apart is refused."""
    odd = os.fsdecode(b"visits\xe9")
    path = tmp_path / f"{odd}.csv"
    path.write_text("page\n" + "a\n" * 10)
    ledger = Ledger(tmp_path / f"{odd}.db", epsilon=3, delta=1e-5)
    th.histogram(str(path), "page", plan=PLAN, ledger=ledger)
    ledger.reserve(PLAN, f"histogram of {odd}", unit=ROW, by=odd, data=odd)
    last = [(entry.by, entry.data, entry.what) for entry in Ledger(ledger.path).history()]
    assert last[0][1] == "visits\\udce9.csv"
    assert last[1] == ("visits\\udce9", "visits\\udce9", "histogram of visits\\udce9")
    refused: list[Callable[[], object]] = [
        lambda: ledger.reserve(PLAN, "histogram", unit=ROW, reference=odd),
        lambda: ledger.reserve(PLAN, "histogram", unit=odd),
        lambda: ledger.draw(odd, 0),
        lambda: ledger.same_unit(odd),
        lambda: ledger.reserve(PLAN, "histogram", unit=ROW, data_set=odd),
        lambda: Ledger(tmp_path / "other.db", epsilon=3, delta=1e-5, unit=odd),
        lambda: Ledger(tmp_path / "other.db", epsilon=3, delta=1e-5, data_set=odd),
    ]
    for ask in refused:
        with pytest.raises(InvalidSetting):
            ask()
    assert len(Ledger(ledger.path).history()) == 2


def test_a_ledger_that_an_older_one_replaced_says_so(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-5)
    older = tmp_path / "older.db"
    with contextlib.closing(sqlite3.connect(older)) as connection:
        connection.executescript((Path(__file__).parent / "ledger_version_5.sql").read_text())
    older.replace(ledger.path)
    for ask in (lambda: ledger.reserve(PLAN, "histogram", unit="user_id"), lambda: ledger.left, ledger.history):
        with pytest.raises(LedgerUnavailable, match="replaced by one of version 5") as caught:
            ask()
        assert "Open it again" in str(caught.value)
    assert len(Ledger(ledger.path).history()) == 2


LONG = "quantiles of a_column_with_a_long_name by country, hierarchy where country in fr, de, it"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "data", "what", "beside"),
    [
        ("alice", "visits.parquet", "histogram of country where os = linux", True),
        ("someone.with.a.name", "visits-of-2026-and-before.parquet", LONG, False),
    ],
)
def test_the_table_of_a_ledger_fits_80_columns(tmp_path: Path, who: str, data: str, what: str, beside: bool) -> None:
    path = tmp_path / "privacy.db"
    ledger = Ledger(path, epsilon=3, delta=1e-6)
    ledger.reserve(PLAN, what, unit="user_id", by=who, data=data, drawn=1)
    ledger.reserve(th.plan(1, 1e-8, rounds=4), "heavy_hitters of page", unit="user_id", reference="q", drawn=2)
    ledger.give_back("q")
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["ledger", "show", str(path)]).output.splitlines()
    start = next(index for index, line in enumerate(shown) if line.startswith("when"))
    table = shown[start:]
    headings = ["when", "(UTC)", "data", "unit", "who", "what", "cost", "left"]
    assert (table[0].split() == headings) == beside  # else each is a line of a name and a value
    assert max(map(len, table)) <= 80 and "…" not in "".join(table)
    assert {who, data, *what.split(), "2", "given", "back"} <= set(" ".join(table).split())

"""Databases on the command line: every verb, and no password in the list of processes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import psycopg
import pytest
from command_line import THRESHER, in_this_process

import thresher as th

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # of Ibis itself

TARGET = ("--epsilon", "1", "--delta", "1e-8")
SECRET = "hunter2"


@pytest.fixture
def visits(postgresql_url: str) -> str:
    with psycopg.connect(postgresql_url) as connection:
        connection.execute(
            "create table visits as select case n % 3 when 0 then 'fr' else 'de' end as country, n % 100 as age, "
            "(n % 1000)::float8 as latency, n / 2 as who from generate_series(1, 6000) as n"
        )
    return postgresql_url


def run(*arguments: object, code: int = 0) -> str:
    done = in_this_process(*arguments)
    assert done.returncode == code, done.stderr.decode()
    assert SECRET.encode() not in done.stdout + done.stderr
    return (done.stdout if code == 0 else done.stderr).decode()


def test_every_verb_on_an_address(visits: str, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    ledger = tmp_path / "ledger.db"
    th.Ledger(ledger, epsilon=10, delta=1e-6)
    select = ("--sql", "select country, who from visits where age < 90 -- x;\n;")
    shown = run(
        *("histogram", visits, *select, "--column", "country", "--unit", "who", *TARGET),
        *("--output", answer, "--ledger", ledger),
    )
    assert "de" in shown and "fr" in shown and "Each who is a unit" in shown
    assert {row.bucket for row in th.load(answer).release} == {"de", "fr"}
    assert "host=" not in answer.read_text() + str(th.Ledger(ledger).to_arrow().to_pylist())
    table = (visits, "--table", "public.visits")
    run("heavy-hitters", *table, "--column", "country", *TARGET)
    run("quantiles", *table, "--column", "latency", "--lower", "0", "--upper", "1000", "--quantile", "0.5", *TARGET)
    run("ranges", *table, "--column", "age", "--lower", "0", "--upper", "128", "--range", "18:65", *TARGET)
    run("mean", *table, "--column", "latency", "--lower", "0", "--upper", "1000", *TARGET)
    seen = json.loads(run("look", *table, "--json"))
    assert seen["types"] == {"country": "text", "age": "whole numbers", "latency": "floats", "who": "whole numbers"}
    assert seen["rows"] == 0


def test_a_password_is_no_argument(visits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("--table", "visits", "--column", "country", *TARGET)
    secret = visits.replace("thresher@", f"thresher:{SECRET}@")
    for data in (secret, f"{visits}&password={SECRET}"):
        for command in (("histogram", data, *asked), ("look", data, "--table", "visits")):
            assert "env:DATABASE_URL" in run(*command, code=2)
    assert "is not set" in run("histogram", "env:NO_ADDRESS", *asked, code=2)
    monkeypatch.setenv("DATABASE_ADDRESS", secret)
    assert "fr" in run("histogram", "env:DATABASE_ADDRESS", *asked)
    assert "does not exist" in run("look", "env:DATABASE_ADDRESS", "--table", "nobody", code=2)


def test_no_password_in_the_list_of_processes(visits: str) -> None:
    """Of the command, and of every process that it may have started, while it waits for a lock of ours."""
    secret = visits.replace("thresher@", f"thresher:{SECRET}@")
    command = [THRESHER, "histogram", "env:DATABASE_ADDRESS", "--table", "visits", "--column", "age", *TARGET]
    with psycopg.connect(visits) as holding, psycopg.connect(visits, autocommit=True) as watching:
        holding.execute("lock table visits in access exclusive mode")
        process = subprocess.Popen(
            command, env={**os.environ, "DATABASE_ADDRESS": secret}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        waiting = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        )
        while watching.execute(waiting).fetchone() == (0,):
            assert process.poll() is None
            watching.execute("select pg_sleep(0.05)")
        shown = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        assert any(b"env:DATABASE_ADDRESS" in line for line in shown)
        assert not any(SECRET.encode() in line for line in shown)
        holding.rollback()
        out, error = process.communicate(timeout=120)
    assert process.returncode == 0 and SECRET.encode() not in out + error


def test_exactly_one_of_them(visits: str, tmp_path: Path) -> None:
    asked = ("--column", "country", *TARGET)
    assert "--table visits or --sql" in run("histogram", visits, *asked, code=2).replace("\n", " ")
    run("histogram", visits, "--table", "visits", "--sql", "select 1", *asked, code=2)
    (tmp_path / "some.csv").write_text("country\nfr\n")
    assert "is for databases" in run("histogram", tmp_path / "some.csv", "--table", "visits", *asked, code=2)

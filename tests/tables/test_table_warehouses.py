"""Databases behind Ibis: what they are asked, what comes here, and what only their collations could change."""

from __future__ import annotations

import datetime as dt
import re
import sys
import unicodedata
from typing import Any

import ibis
import ibis.expr.datatypes as types
import psycopg
import pyarrow as pa
import pytest
from database_cases import on_clickhouse, on_mariadb, on_postgresql, on_sqlite
from scipy.stats import binomtest
from table_cases import Maker, counted, expected

import thresher as th
from thresher.errors import InvalidSetting
from thresher.questions import Bins, Cells, Dates, Filtered, Joint, Prefixes, Question, Values
from thresher.questions.conditions import Among, Between, Where
from thresher.questions.normal_form import NORMALISED_TO_ASCII, composed, spellings
from thresher.tables import Table
from thresher.tables.ibis_databases import DATABASES
from thresher.tables.ibis_engine import MOST_SPELLINGS, IbisEngine
from thresher.tables.ibis_forms import FormRows
from thresher.tables.ibis_grouping import Redshift

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ibis itself

WORDS = Values(("word",))
SHAPE = ibis.table(
    {
        "word": "string",
        'or"der': "string",
        "number": "int64",
        "share": "float64",
        "at": types.Timestamp(timezone="UTC"),
        "day": "date",
        "who": "string",
    },
    name="people",
)


def engine_for(name: str) -> IbisEngine:
    return IbisEngine(SHAPE, Redshift() if name == "redshift" else DATABASES[name])


def sql(query: Any, name: str) -> str:
    """What would be sent, in one line."""
    dialect = "postgres" if name == "redshift" else name
    text = re.sub(r"\s+", " ", ibis.to_sql(query, dialect=dialect))
    return text.replace("( ", "(").replace(" )", ")")


def asked(name: str, question: Question, at_least: int = 20) -> str:
    """The query of a histogram, as this database would be sent it."""
    rows = engine_for(name).rows(question.columns)
    if isinstance(rows, FormRows):
        return sql(rows.grouped(question, at_least), name)
    return sql(rows.counted(question, at_least=at_least).to_native(), name)


GROUPING = {
    "snowflake": "HEX_ENCODE(",
    "databricks": "HEX(",
    "redshift": "FROM_VARBYTE(TO_VARBYTE(",
    "clickhouse": "HEX(",
    "mysql": "HEX(",
    "datafusion": "ENCODE(CAST(",
}
"""Databases that cannot normalise, each with how it makes the key of a text."""

NORMALISING = {"bigquery": "CAST(`t0`.`word` AS BYTES)", "trino": "TO_UTF8("}


@pytest.mark.parametrize("name", GROUPING)
def test_forms_are_grouped_by_their_bytes_and_the_threshold_is_for_ascii_alone(name: str) -> None:
    for question in (WORDS, Values(("word", 'or"der')), Joint((WORDS, Bins("share", (0, 1, 10))))):
        query = asked(name, question)
        assert query.count(GROUPING[name]) >= sum(column != "share" for column in question.columns)
        assert query.count("GROUP BY") == 1
        assert "ORDER BY" not in query
        plain = re.sub(r"[\"`]", "", query)
        assert re.search(r" WHERE \((t\d)\.w >= 20\) OR \(\1\.a = 0\)$", plain), plain
    # A prefix may be that of a text with several forms.
    assert ">= 20" not in asked(name, Prefixes("word", 3))


@pytest.mark.parametrize("name", NORMALISING)
def test_normalised_text_is_counted_and_cut_off_in_the_database(name: str) -> None:
    for question in (WORDS, Values(("word", 'or"der')), Prefixes("word", 3)):
        query = asked(name, question)
        assert NORMALISING[name].split("(")[0] in query
        assert "NORMALIZE(" in query
        assert query.endswith(">= 20")
        assert "ORDER BY" not in query


@pytest.mark.parametrize("name", [*GROUPING, *NORMALISING])
def test_units_and_filters_compile(name: str) -> None:
    engine = engine_for(name)
    units = engine._of_units(("word",), "who")
    query = sql(units, name)
    key = GROUPING.get(name, "BYTES" if name == "bigquery" else "TO_UTF8(")
    assert key in query
    if name in GROUPING:
        others = sql(engine.copying(("word",), "who", alone_too=False)[0], name)
        assert re.search(r"MIN\(.*\) OVER \(PARTITION BY ", others)
    table = Table.__new__(Table)
    table._engine, table._types, table._time_zone = engine, {}, "UTC"
    where = Where((Among("word", ("caf\u00e9", "tea")), Between("day", dt.date(2024, 1, 1), None)))
    tests = table._filter(Filtered(Values(("number",)), where))
    filtered = sql(engine.filtered(tests)._select(("number",)), name)
    if name in GROUPING:
        forms = ["caf\u00e9".encode().hex(), "cafe\u0301".encode().hex(), b"tea".hex()]
        assert all(form in filtered.lower() for form in forms)
    else:
        assert "'caf\u00e9'" in filtered
    assert "2024" in filtered


@pytest.mark.parametrize("name", ["bigquery", "trino", "redshift"])
def test_instants_are_read_on_another_clock_in_the_database(name: str) -> None:
    engine = engine_for(name)
    engine.time_zone = "Europe/Paris"
    assert "'Europe/Paris'" in sql(engine.rows(("at",)).counted(Dates("at", "day")).to_native(), name)


@pytest.mark.parametrize("name", ["snowflake", "databricks", "clickhouse", "mysql"])
def test_instants_come_here_as_numbers(name: str) -> None:
    query = asked(name, Dates("at", "day"))
    assert "MICRO" in query.upper() or "UNIX_TIMESTAMP" in query or "REINTERPRETASINT64" in query.upper()
    assert ">= 20" not in query  # many instants are one day


def test_texts_of_an_unknown_database_are_not_compared_there() -> None:
    """Rows come here, as the driver reads them: SQL Server's collations would take several spellings for one."""
    engine = engine_for("mssql")
    rows, forms, places, _ = engine.copying(("word", "number"), "who", distinct=True)
    query = sql(rows, "mssql")
    assert not {"GROUP BY", "DISTINCT", "ORDER BY", "PARTITION"} & set(query.split())
    assert (forms, places) == ({}, {"word": "c0", "number": "c1"})


def test_instants_of_an_unknown_database_are_refused_before_anything_is_charged(tmp_path: Any) -> None:
    backend = ibis.sqlite.connect()
    backend.con.execute("CREATE TABLE people (at TIMESTAMPTZ)")
    ledger = th.Ledger(tmp_path / "ledger.db", epsilon=5, delta=1e-2)
    table = Table(backend.table("people"))
    table._engine = IbisEngine(backend.table("people"))
    with pytest.raises(InvalidSetting, match="times with a zone"):
        th.histogram(table, "at", dates="day", plan=th.Plan(0.5, 20, 1.0, 1e-3), ledger=ledger)
    assert ledger.history() == []


def test_instants_keep_their_microseconds(database: Maker) -> None:
    instants = [dt.datetime(2024, 1, 31, 23, 59, 59, 999_999, dt.UTC), dt.datetime(2024, 7, 1, 0, 0, 0, 1, dt.UTC)]
    table = pa.table({"at": pa.array(instants * 2, pa.timestamp("us", "UTC"))})
    with Table(database(table), time_zone="Asia/Tokyo") as population:
        tokyo = [(instant + dt.timedelta(hours=9)).replace(tzinfo=None) for instant in instants]
        assert counted(population, Values(("at",))) == dict.fromkeys(tokyo, 2)
        where = Where((Between("at", dt.date(2024, 2, 1), dt.date(2024, 3, 1)),))
        assert counted(population, Filtered(Dates("at", "month"), where)) == {dt.date(2024, 2, 1): 2}


# What spellings a text has.


def test_three_characters_become_ascii() -> None:
    """The rule by which the threshold is pushed down: no other text is ASCII once it is normalised."""
    found = {}
    for character in map(chr, range(128, sys.maxunicode + 1)):
        normal = unicodedata.normalize("NFC", character)
        if normal.isascii():
            found[character] = normal
    assert found == NORMALISED_TO_ASCII


@pytest.mark.parametrize("text", ["", "tea", "caf\u00e9", "K\u00c5", "각", "ệ", "q\u0323\u0307", "\u09cb;"])
def test_all_spellings_of_a_text(text: str) -> None:
    found = spellings(text, 1000)
    assert found is not None
    assert unicodedata.normalize("NFC", text) in found
    assert {unicodedata.normalize("NFD", text)} <= found
    assert {composed(each) for each in found} == {unicodedata.normalize("NFC", text)}
    known = {"": 1, "tea": 1, "caf\u00e9": 3, "K\u00c5": 6, "각": 3, "ệ": 5, "q\u0323\u0307": 2, "\u09cb;": 4}
    assert len(found) == known[text]


def test_a_filter_of_too_many_spellings_is_refused() -> None:
    assert spellings("ệ" * 7, MOST_SPELLINGS) is None
    backend = ibis.datafusion.connect()
    backend.con.from_arrow(pa.table({"word": ["ệ" * 7], "number": [1]}), "people")
    with Table(backend.table("people")) as table, pytest.raises(InvalidSetting, match="more than 10,000 ways"):
        counted(table, Filtered(Values(("number",)), Where((Among("word", ("ệ" * 7,)),))))


# What comes here.

FORMS = ["K" * 12, "\u212a" * 12, "ab", "a\x00b", "caf\u00e9", "cafe\u0301", "few", ";", "\u037e"]


def test_the_forms_of_one_text_reach_the_threshold_together(database: Maker) -> None:
    counts = [12, 9, 11, 9, 8, 12, 19, 10, 10]
    table = pa.table({"word": [word for word, count in zip(FORMS, counts, strict=True) for _ in range(count)]})
    with Table(database(table)) as population:
        found = counted(population, WORDS, at_least=20)
    assert found == {"K" * 12: 21, "ab": 20, "caf\u00e9": 20, ";": 20}


def test_a_unit_in_several_forms_is_one(database: Maker) -> None:
    """Also where one of its forms is ASCII and another is not."""
    who = ["K1", "\u212a1", "\u00fc", "u\u0308", "k1", "K1 ", ";", "\u037e"]
    table = pa.table({"who": who * 3, "number": list(range(8)) * 3, "word": ["\u00e9", "e\u0301"] * 12})
    with Table(database(table), unit="who") as population:
        assert sum(counted(population, Values(("number",))).values()) == 5
        assert counted(population, WORDS) == {"\u00e9": 5}
        buckets, counts = population._tally(WORDS, contributions=3)
        assert (buckets["word"].to_pylist(), counts.tolist()) == (["\u00e9"], [5])


@pytest.mark.parametrize("who", ["u{}", "\u00fc{}", None])
def test_a_unit_is_counted_under_a_value_that_it_has(database: Maker, who: str | None) -> None:
    """Each of its rows that has one is as likely as the others, whatever the database does not normalise."""
    words = ["tea", "a" + "\u0301" * 40, "caf\u00e9 " * 20, "o"]
    units = [row // 4 if who is None else who.format(row // 4) for row in range(400)]
    table = pa.table({"word": words * 100, "who": units, "number": list(range(4)) * 100})
    with Table(database(table), unit="who") as population:
        found = counted(population, WORDS)
        pairs = counted(population, Values(("word", "number")))
    assert sum(found.values()) == sum(pairs.values()) == 100
    assert set(pairs) == {(words[row], row) for row in (0, 2, 3)}
    assert all(binomtest(count, 100, 1 / 3).pvalue > 1e-9 for count in found.values())


def test_only_texts_that_are_not_ascii_leave_below_the_threshold() -> None:
    backend = ibis.datafusion.connect()
    words = ["many"] * 30 + ["few"] * 3 + ["f\u00e9w"] * 2 + ["\u212aelvin"]
    backend.con.from_arrow(pa.table({"word": words}), "people")
    with Table(backend.table("people")) as table:
        rows = table._engine.rows(("word",))
        assert isinstance(rows, FormRows)
        brought = rows.grouped(WORDS, 20).to_pyarrow().to_pydict()
    texts = [bytes.fromhex(form).decode() for form in brought["v0"]]
    assert dict(zip(texts, brought["w"], strict=True)) == {"many": 30, "f\u00e9w": 2}


def test_a_long_text(database: Maker) -> None:
    long = "x" * 5000
    table = pa.table({"word": [long + "\u00e9", long + "e\u0301", long, "x"]})
    with Table(database(table)) as population:
        assert counted(population, WORDS) == {long + "\u00e9": 2, long: 1, "x": 1}


def test_long_names_of_units(database: Maker) -> None:
    """MariaDB sorts by the first bytes of a text alone, and units by turns look like one."""
    who = [f"{'x' * 3000}{row % 10}" for row in range(40)]
    table = pa.table({"who": who, "number": [row % 20 for row in range(40)]})
    with Table(database(table), unit="who") as population:
        assert sum(counted(population, Values(("number",))).values()) == 10
        _, counts = population._tally(Values(("number",)), contributions=3)
        assert sum(counts.tolist()) == 20


def test_columns_called_like_keywords(database: Maker) -> None:
    names = ['or"der', "select", "v0", "u", "w", "a", "c0", "k0", "f0"]
    table = pa.table({name: [f"{name}{row % 3}" for row in range(12)] for name in names})
    question = Filtered(Values(tuple(names[1:])), Where((Among("f0", ("f01",)), Among('or"der', ('or"der1',)))))
    with Table(database(table)) as population:
        assert counted(population, question) == {tuple(f"{name}1" for name in names[1:]): 4}
    with Table(database(table), unit="u") as population:
        assert counted(population, Values(('or"der',))) == {f'or"der{row}': 1 for row in range(3)}


# An unknown database: everything with text comes here.


@pytest.mark.slow
@pytest.mark.parametrize("unit", [None, "who"])
def test_an_unknown_database_counts_the_same(unit: str | None) -> None:
    words = ["caf\u00e9", "cafe\u0301", "Caf\u00e9", "tea", "Tea", "a\x00b", "ab"]
    table = pa.table({"word": words * 3, "number": list(range(21)), "who": [f"\u00fc{row}" for row in range(21)]})
    frame = on_sqlite()(table)
    with Table(frame, unit=unit) as population:
        population._engine = IbisEngine(frame)
        for question in (WORDS, Values(("word", "number")), Prefixes("word", 2), Cells("number", 0, 21, 3)):
            assert counted(population, question) == expected(table, question), question
        for word, number in (("caf\u00e9", 6), ("tea", 3)):
            question = Filtered(Values(("word",)), Where((Among("word", (word,)),)))
            assert counted(population, question) == {word: number}
        if unit is not None:
            for question in (WORDS, Prefixes("word", 2)):
                _, counts = population._tally(question, contributions=3)
                assert sum(counts.tolist()) == 21


def test_a_database_of_another_encoding_counts_text_here(postgresql_server: str) -> None:
    """PostgreSQL normalises text only where its databases are UTF-8."""
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    address = postgresql_server.replace("/postgres?", "/latin?client_encoding=utf8&")
    with psycopg.connect(address, autocommit=True) as connection:
        frame = on_postgresql(connection, "text")(pa.table({"word": ["\u00e9"] * 3 + ["E", "e"], "who": list("aabcd")}))
        with Table(frame) as population:
            assert counted(population, WORDS) == {"\u00e9": 3, "E": 1, "e": 1}
        with Table(frame, unit="who") as population:
            assert sum(counted(population, WORDS).values()) == 4


# Types and collations of each database.

SPELLINGS = ["paris", "Paris", "PARIS", "paris ", "par\u00eds", "pari\u0301s", "", " "]


def assert_bytes_decide(make: Maker, words: list[str]) -> None:
    table = pa.table({"word": words * 2, "number": [1] * len(words) * 2})
    with Table(make(table)) as population:
        assert counted(population, WORDS) == expected(table, WORDS)
        for word in words[1:5:3]:
            question = Filtered(WORDS, Where((Among("word", (word,)),)))
            assert counted(population, question) == expected(table.select(["word"]), question)
    with Table(make(table), unit="word") as population:
        assert counted(population, Values(("number",))) == {1: len(expected(table, WORDS))}


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
        "VARCHAR(20) CHARACTER SET utf16",
        "LONGTEXT CHARACTER SET utf8mb4",
        "LONGTEXT CHARACTER SET utf16",
    ],
)
def test_collations_of_mariadb(mariadb_connection: Any, text: str) -> None:
    assert_bytes_decide(on_mariadb(mariadb_connection, text), SPELLINGS)


@pytest.mark.slow
def test_columns_of_mariadb_in_another_character_set(mariadb_connection: Any) -> None:
    words = [word for word in SPELLINGS if "\u0301" not in word]
    assert_bytes_decide(on_mariadb(mariadb_connection, "VARCHAR(20) CHARACTER SET latin1"), words)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["String", "LowCardinality(String)", "FixedString(16)"])
def test_types_of_clickhouse(clickhouse_client: Any, text: str) -> None:
    assert_bytes_decide(on_clickhouse(clickhouse_client, text), SPELLINGS)


@pytest.mark.slow
def test_bytes_of_clickhouse_that_are_no_text(clickhouse_client: Any) -> None:
    """They are no value and name no unit; a unit chooses among its other rows."""
    clickhouse_client.command("CREATE TABLE bytes (word String, who String) ENGINE = Memory")
    rows = [(each, name) for name in range(40) for each in ("unhex('FF')", "'tea'")]
    values = ", ".join(f"({word}, 'p{name}')" for word, name in rows)
    clickhouse_client.command(f"INSERT INTO bytes VALUES {values}, ('tea', unhex('FE'))")
    people = ibis.clickhouse.from_connection(clickhouse_client).table("bytes")
    with Table(people) as population:
        assert counted(population, WORDS) == {"tea": 41}
    with Table(people, unit="who") as population:
        assert counted(population, WORDS) == {"tea": 40}


@pytest.mark.slow
def test_enumerations_and_short_dates_of_clickhouse(clickhouse_client: Any) -> None:
    columns = "kind Enum8('a' = 1, 'é' = 2), at DateTime('America/New_York'), day Date, who UUID"
    clickhouse_client.command(f"CREATE TABLE odd ({columns}) ENGINE = Memory")
    row = "1704067199, '2023-12-31', '61f0c404-5cb3-11e7-907b-a6006ad3dba0'"
    clickhouse_client.command(f"INSERT INTO odd VALUES ('a', {row}), ('é', {row})")
    people = ibis.clickhouse.from_connection(clickhouse_client).table("odd")
    with Table(people, time_zone="Asia/Tokyo") as population:
        assert counted(population, Values(("kind",))) == {"a": 1, "é": 1}
        assert counted(population, Dates("at", "day")) == {dt.date(2024, 1, 1): 2}
        assert counted(population, Dates("day", "week")) == {dt.date(2023, 12, 25): 2}
        assert counted(population, Values(("who",))) == {"61f0c404-5cb3-11e7-907b-a6006ad3dba0": 2}
    with Table(people, unit="who") as population:
        assert counted(population, Dates("day", "day")) == {dt.date(2023, 12, 31): 1}


@pytest.mark.slow
@pytest.mark.parametrize("text", ["citext", "varchar(20) COLLATE blind"])
def test_types_of_postgresql(postgresql_connection: Any, text: str) -> None:
    assert_bytes_decide(on_postgresql(postgresql_connection, text), SPELLINGS)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["TEXT COLLATE NOCASE", "VARCHAR(5) COLLATE RTRIM"])
def test_collations_of_sqlite(text: str) -> None:
    assert_bytes_decide(on_sqlite(text), SPELLINGS)


def test_what_sqlite_stores_otherwise_is_no_text() -> None:
    backend = ibis.sqlite.connect()
    backend.con.execute("CREATE TABLE people (word TEXT)")
    backend.con.execute(
        "INSERT INTO people VALUES ('a'), ('a'), (x'61'), (NULL), (CAST(x'ff' AS TEXT)), (CAST(x'6100' AS TEXT))"
    )
    with Table(backend.table("people")) as population:
        assert counted(population, WORDS) == {"a": 3}


@pytest.mark.slow
def test_every_verb_on_every_database(database: Maker) -> None:
    """The verbs that ask several rounds, groups, and text in all places."""
    guarantee = {"epsilon": 5.0, "delta": 1e-3}
    rows = 2400
    table = pa.table(
        {
            "word": [["caf\u00e9", "cafe\u0301", "tea"][row % 3] for row in range(rows)],
            "number": [float(row % 100) for row in range(rows)],
            "who": [["u", "\u00fc", "u\u0308"][row % 3] + str(row // 3) for row in range(rows)],
        }
    )
    frame = database(table)
    hitters = th.heavy_hitters(frame, "word", method="trie", **guarantee)
    assert {row.item for row in hitters} == {"caf\u00e9", "tea"}
    found = th.histogram(frame, "word", unit="who", where={"word": ["caf\u00e9"]}, **guarantee)
    assert [row.bucket for row in found] == ["caf\u00e9"]
    with Table(frame, unit="who") as population:  # 800 units called u…, and 800 called ü…, whose rows are in both forms
        assert counted(population, WORDS)["caf\u00e9"] >= 800
        assert counted(population, Filtered(WORDS, Where((Among("word", ("caf\u00e9",)),)))) == {"caf\u00e9": 1600}
    medians = th.quantiles(frame, "number", 0.5, lower=0, upper=100, levels=3, by="word", **guarantee)
    assert set(medians.groups) == {"caf\u00e9", "tea"}
    means = th.mean(frame, "number", lower=0, upper=100, by="word", **guarantee)
    assert set(means.groups) == {"caf\u00e9", "tea"}

"""Which rows of a database are meant: one SELECT, or a table's name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from thresher.errors import InvalidSetting, require
from thresher.privacy.settings import is_writable
from thresher.tables.error_guard import withheld

_NAME = re.compile(r'"(?:[^"]|"")+"|[^".]+')
_PLAIN_NAME = re.compile(r"[^\W\d][\w$]*(\.[^\W\d][\w$]*)*")
_BEGINNINGS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "L_PAREN")
_ONE_SELECT = "Give one SELECT, as `sql='select country from visits'`. Thresher only reads."

_TEXT = r"'(?:[^'\\]|\\[^'])*+'"
_NAME_IN_QUOTES = r'"(?:[^"\\]|\\[^"])*+"'
_LINE = r"[^\r\n]*+(?:\r?\n|\Z)"
_COMMENT = r"/\*(?:[^*/]|\*(?!/)|/(?!\*))*+\*/"
_OTHER = r"-(?!-)|/(?!\*)"
_PLAIN = {
    dialect: re.compile(f"(?:{'|'.join([_TEXT, _NAME_IN_QUOTES, _OTHER, *parts])})*+")
    for dialect, parts in {
        "postgres": [_COMMENT, f"--{_LINE}", r"\$(?![^\s$]*\$)", r"[^'\"$;/-]"],
        "mysql": [rf"(?!/\*M?!){_COMMENT}", rf"(?:--(?=\s)|\#){_LINE}", "`[^`]*+`", r"[^'\"`;/#-]"],
    }.items()
}
"""SQL in which all parsers, and a server under all of its settings, find the ends of texts and comments at one place.

So no text has a backslash before a quote, which ends some texts and not others; no comment is inside another, and none
is executed; PostgreSQL gets no text in dollars. Semicolons are in texts and comments alone.
"""


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows that `sql` or `table` says; exactly one of them is given."""

    sql: str | None
    table: str | None

    @property
    def setting(self) -> str:
        """The setting that was given."""
        return "table" if self.sql is None else "sql"

    @property
    def parts(self) -> list[str]:
        """The parts of the table's name, without quotes."""
        found = _NAME.findall(self.table or "")
        return [part[1:-1].replace('""', '"') if part.startswith('"') else part for part in found]

    def query(self, dialect: Any, quote: str | None = '"') -> str:
        """One SELECT, which may stand in parentheses. With `quote=None`, names are left as they are.

        Raises: `InvalidSetting` for several statements, and for what is no SELECT.
        """
        if self.sql is not None:
            return one_select(self.sql, dialect)
        if quote is not None:
            return _all_of(".".join(quoted(part, quote) for part in self.parts))
        if self.table is not None and _PLAIN_NAME.fullmatch(self.table):
            return _all_of(self.table)
        raise InvalidSetting(
            "table", "must be a name of letters and digits here", hint="Give `sql='select * from …'` with its quotes."
        )


def selection(sql: Any, table: Any) -> Selection | None:
    """What `sql` and `table` say; None where neither is given. Not yet whether there is such a table."""
    if sql is None and table is None:
        return None
    if sql is not None and table is not None:
        raise InvalidSetting("sql", "and `table` cannot both be given", hint="Leave one of them out.")
    name, text = ("table", table) if sql is None else ("sql", sql)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InvalidSetting(name, "must be a text that is not empty")
    if not is_writable(text):
        raise InvalidSetting(name, "holds a character that UTF-8 cannot write")
    chosen = Selection(sql, table)
    if name == "table" and ".".join(_NAME.findall(text)) != text:
        raise InvalidSetting(
            "table", "must be a name, as visits or schema.visits", hint="A dot in a name stands in quotes: '\"a.b\"'."
        )
    return chosen


def _all_of(table: str) -> str:
    return f"SELECT * FROM {table}"  # noqa: S608 - names in quotes, or of letters and digits


def quoted(name: str, quote: str = '"') -> str:
    """A name in quotes."""
    return f"{quote}{name.replace(quote, 2 * quote)}{quote}"


def one_select(sql: str, dialect: Any) -> str:
    """The one SELECT that a text holds, without comments and semicolons after it."""
    tokens = _tokens(sql, dialect)
    while tokens and tokens[-1].token_type.name == "SEMICOLON":
        tokens.pop()
    kinds = [token.token_type.name for token in tokens]
    if "SEMICOLON" in kinds:
        raise not_one_select("holds several statements")
    if not tokens or kinds[0] not in _BEGINNINGS:
        raise not_one_select("is no SELECT")
    depth = 0
    for kind in kinds:
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(kind, 0)
        if depth < 0:
            break
    if depth != 0:
        raise not_one_select("has parentheses that do not match")
    query = sql[tokens[0].start : tokens[-1].end + 1]
    plain = _PLAIN.get(dialect if isinstance(dialect, str) else dialect.__name__.lower())
    if plain is not None and not plain.fullmatch(query):
        raise InvalidSetting(
            "sql",
            "has quotes or comments that parsers of SQL read in different ways",
            hint="Write a quote in a text twice, as 'it''s'. Leave out backslashes before quotes, texts in dollars, "
            "comments in comments and comments that are executed (/*!).",
        )
    return query


def check_reads(query: str, dialect: Any, setting: str) -> None:
    """Require that Ibis can read a SELECT, and that no part of it changes data."""
    from sqlglot import exp, parse_one

    unread = InvalidSetting(
        setting,
        "cannot be read as a SELECT",
        hint="If the database takes it, make a view of it there and give `table` with the view's name.",
    )
    tree = withheld(lambda: parse_one(query, read=dialect), lambda _: unread)
    changing = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Into, exp.Command)
    if not isinstance(tree, exp.Query | exp.Values) or tree.find(*changing) is not None:
        raise InvalidSetting(setting, "must only read", hint=_ONE_SELECT)


def not_one_select(problem: str) -> InvalidSetting:
    """The error for a text that is something else."""
    return InvalidSetting("sql", problem, hint=_ONE_SELECT)


def _tokens(sql: str, dialect: Any) -> list[Any]:
    require("sqlglot", "ibis")
    from sqlglot import tokenize

    return withheld(
        lambda: list(tokenize(sql, read=dialect)), lambda _: not_one_select("has quotes or a comment that do not end")
    )

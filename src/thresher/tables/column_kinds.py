"""What columns hold, and which questions can be asked of them.

Before anything is counted, a column is cleaned in its engine, so that every engine counts the same things:

    text            NFC, without NUL, compared by its bytes whatever collation a column, session or database has;
                    categories, enumerations and UUIDs are text
    whole numbers   64-bit integers
    floats          doubles; NaN is "no value", -0.0 is 0.0
    decimals        their text; questions about numbers read the nearest double
    booleans
    dates
    times           whole microseconds; those with a zone on the wall clock of the table's `time_zone`
    nothing         a column that has no type, because it has no value; no unit has an answer

Dates and times are those of the years 1 to 9999; others, and whole numbers of more than 64 bits, are no value.

A kind comes from a schema that is public: that of an Arrow table, a Parquet file, a database, a typed frame. Where
there is none (CSV, JSON lines, lists, columns of Python objects) a column is *untyped*: it holds text, whatever its
rows say, unless the caller declares its type, and questions about numbers, dates and times read each value by itself
(see `text_reading`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from thresher.errors import Hint, InvalidSetting
from thresher.questions import Part, Question, spelling
from thresher.questions.question import ColumnKind

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa

Kind: TypeAlias = ColumnKind

DECLARABLE: tuple[Kind, ...] = ("text", "whole numbers", "floats", "booleans", "dates", "times")
"""What text can be declared to hold with `types=`."""
MOST_DIGITS = 38
"""Of a decimal: no engine has more."""


def kind_of_arrow(dtype: pa.DataType) -> Kind | None:
    """The kind of an Arrow column, or None if it cannot be counted."""
    from pyarrow import types

    if types.is_dictionary(dtype):
        return kind_of_arrow(dtype.value_type)
    if types.is_uint64(dtype) or (types.is_decimal(dtype) and (dtype.precision > MOST_DIGITS or dtype.scale < 0)):
        return None
    tests: list[tuple[Any, Kind]] = [
        (types.is_string, "text"),
        (types.is_large_string, "text"),
        (types.is_string_view, "text"),
        (types.is_null, "nothing"),
        (types.is_integer, "whole numbers"),
        (types.is_floating, "floats"),
        (types.is_decimal, "decimals"),
        (types.is_boolean, "booleans"),
        (types.is_date, "dates"),
        (types.is_timestamp, "times"),
    ]
    return next((kind for test, kind in tests if test(dtype)), None)


def kind_of_narwhals(dtype: nw.dtypes.DType) -> Kind | None:
    """The kind of a column of a frame that narwhals reads, or None if it cannot be counted."""
    import narwhals as nw

    if dtype in (nw.UInt64, nw.Int128, nw.UInt128):
        return None
    tests: list[tuple[bool, Kind]] = [
        (dtype in (nw.String, nw.Categorical, nw.Enum), "text"),
        (dtype.is_integer(), "whole numbers"),
        (dtype.is_float(), "floats"),
        (dtype.is_decimal(), "decimals"),
        (dtype == nw.Boolean, "booleans"),
        (dtype == nw.Date, "dates"),
        (dtype == nw.Datetime, "times"),
    ]
    return next((kind for holds, kind in tests if holds), None)


def check_distinct(names: Sequence[str]) -> None:
    """Require that no two columns of a file have the same name: engines would silently rename one of them."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice and look_like_values(names):
        raise InvalidSetting("data", "has two columns with one name", hint=_NO_HEADER)
    if twice:
        raise InvalidSetting("data", f"has two columns called {twice[0]!r}", hint="Rename one of them.")


def check_types(types: Any) -> dict[str, Kind]:
    """The declared types of columns, as a mapping from their names."""
    if types is None:
        return {}
    if not isinstance(types, Mapping) or not all(isinstance(name, str) for name in types):
        raise InvalidSetting("types", "must map columns to their types", hint=_declared("age", "whole numbers"))
    for name, kind in types.items():
        if kind not in DECLARABLE:
            raise InvalidSetting(
                "types",
                f"of {name!r} must be {_listed(DECLARABLE)}",
                hint=_declared("age", "whole numbers"),
            )
    return dict(types)


def check_declared(column: str, declared: Kind, kind: Kind | None) -> None:
    """Require that a column can be read as the declared kind: text as any kind, other kinds as themselves."""
    if kind not in ("text", "nothing", declared):
        raise InvalidSetting(
            "types",
            f"of {column!r} cannot be declared: the data's own schema gives it another type",
            hint="Only text is read as something else. Cast the column in the data.",
        )


def counted_as(question: Question, column: str) -> Kind:
    """The kind as which a question reads an untyped column: text, unless it needs numbers or dates."""
    readable = _part(question, column).reads
    return "text" if "text" in readable else "floats" if "floats" in readable else "times"


def check_name(column: str, names: Sequence[str] | None, *, setting: str = "column") -> None:
    """Require that exactly one column has this name. Names of columns may be shown, values never.

    Edge cases: where `names` is None, columns are not known (JSON lines), and every name passes. Names that look like
    values are shown for no engine: pandas, Polars or Spark may have read a frame from a file without a header.
    """
    if names is None:
        return
    if names.count(column) > 1:
        raise InvalidSetting(setting, f"{column!r} is the name of two columns", hint="Rename one of them.")
    if column in names:
        return
    if look_like_values(names):
        raise InvalidSetting(setting, f"{column!r} is not in the data", hint=_NO_HEADER)
    alike = [name for name in names if name.strip().lower() == column.strip().lower()]
    close = alike or difflib.get_close_matches(column, names, n=3)
    listed = ", ".join(map(repr, close or names[:20]))
    hint = f"Did you mean {listed}?" if close else f"The columns are {listed}."
    raise InvalidSetting(setting, f"{column!r} is not in the data", hint=hint if names else "It has no columns.")


def check_unit(column: str, names: Sequence[str] | None, nested: Callable[[str], bool]) -> None:
    """Require that one column has this name, and that its values tell units apart."""
    check_name(column, names, setting="unit")
    if nested(column):
        raise InvalidSetting(
            "unit",
            f"{column!r} holds lists or structures, which do not tell units apart by their bytes",
            hint="Give a column of text or numbers.",
        )


def check_kind(column: str, kind: Kind | None, question: Question) -> None:
    """Require that a question can read a column of this kind."""
    check_readable(column, kind, _part(question, column).reads)


def check_readable(column: str, kind: Kind | None, readable: tuple[Kind, ...], *, setting: str = "column") -> None:
    """Require that a column of this kind can be read as one of these."""
    if kind is None:
        raise InvalidSetting(
            setting,
            f"{column!r} is of a type that cannot be counted",
            hint="Use text, whole numbers of at most 64 bits, floats, decimals of at most 38 digits, booleans, dates "
            "or times; cast anything else first.",
        )
    if kind not in (*readable, "nothing"):
        asks = "this question" if setting == "column" else "this condition"
        raise InvalidSetting(
            setting,
            f"{column!r} holds {kind}, and {asks} reads {_listed(readable)}",
            hint=f"Declare what its text says. {_declared(column, _example(readable))}"
            if kind == "text"
            else Hint(
                "Give a range of days, as ts >= 2024-01-01 and ts < 2024-02-01.",
                python="Give a range of days, as ('2024-01-01', '2024-02-01').",
            )
            if kind == "times" and setting == "where"
            else "",
        )


FIRST_LINE = (
    "The first line looks like data: some of its fields read as numbers or dates. It is taken for the columns' names. "
    "If it is a person's values, write the columns' names into a line before it."
)
"""What whoever may see the data is told of such a file. Everybody else is told `_NO_HEADER`, which shows no field."""

_NO_HEADER = (
    "Its columns are not listed here: some have names that read as numbers or dates. Where a file has no header line, "
    "they are a person's values. Then write the columns' names into its first line."
)


def look_like_values(names: Sequence[str]) -> bool:
    """Whether the names of a file's columns may be a person's values, since it has no header."""
    return any(
        re.fullmatch(f"(?:{spelling.FLOAT}|{spelling.TIME})", name.strip(spelling.BLANKS), re.DOTALL) for name in names
    )


def _declared(column: str, kind: Kind) -> str:
    """How a type is declared."""
    return f"For example `types={ {column: kind}!r}`."


def _part(question: Question, column: str) -> Part:
    return question.parts[question.columns.index(column)]


def _example(kinds: tuple[Kind, ...]) -> Kind:
    return "floats" if "floats" in kinds else kinds[0]


def _listed(kinds: tuple[Kind, ...]) -> str:
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"

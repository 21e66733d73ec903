"""A verb's settings, described once: in the annotations of its public function.

    levels: Annotated[int | None, Whole("Rounds of the trie.", usual=10, only=("method", "trie"))] = None

The Python checks, command line options, fields of the console's form, the "same again" line and the reference come from
this description. `settings_of` reads it.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any, ClassVar, Unpack, get_args, get_origin, get_type_hints

from thresher.charts.numbers import amount
from thresher.errors import InvalidSetting
from thresher.privacy.settings import check_count, check_flag, check_rounds
from thresher.questions import Where
from thresher.questions.where_text import in_words, to_lines, to_where

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_LARGEST = 1e300


@dataclass(frozen=True)
class Cases:
    """Several values of a setting with which another one matters, in words and by a test."""

    words: str
    has: Callable[[Any], bool]


@dataclass(frozen=True)
class Setting:
    """One setting. `help` says in one sentence what it is.

    `label` is its name on a form. `usual` is what a form is filled with. `only` names another setting, which stands
    before it, and the value of it (or `Cases`) with which this one matters. `earlier` is the default of earlier
    versions, where it was another: queries of then have it, also where it does not matter. `group` names one of several
    alternatives that a form lets choose from. `option` is its name on the command line. `is_rounds` says that it is a
    number of rounds. `on_form` says whether the console's form has it; `needed` that its group makes no sense without
    it.
    """

    help: str
    label: str = ""
    usual: Any = None
    only: tuple[str, str | Cases] | None = None
    earlier: Any = None
    group: str = ""
    option: str = ""
    is_rounds: bool = False
    on_form: bool = True
    needed: bool = False
    name: str = field(default="", init=False)
    default: Any = field(default=inspect.Parameter.empty, init=False)
    positional: bool = field(default=False, init=False)

    input: ClassVar[str] = "text"
    """The type of a form's field."""
    option_type: ClassVar[Any] = str
    """What the command line reads it as."""

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty

    @property
    def title(self) -> str:
        """Its name on a form."""
        return self.label or self.name.replace("_", " ").capitalize()

    @property
    def choices(self) -> Mapping[str, str]:
        """What may be chosen, each with a few words; empty where anything may be given."""
        return {}

    def matters(self, given: Mapping[str, Any]) -> bool:
        """Whether it does with these values of the other settings; see `only`."""
        if self.only is None:
            return True
        other, wanted = given.get(self.only[0]), self.only[1]
        return wanted.has(other) if isinstance(wanted, Cases) else other == wanted

    @property
    def panel(self) -> tuple[str, str] | None:
        """The setting and the choice of it beside which a form shows this one; None where it stands by itself."""
        return (self.only[0], self.only[1]) if self.only is not None and isinstance(self.only[1], str) else None

    @property
    def stands_for(self) -> Any:
        """What leaving it out means: its default, or the usual value; None where that depends on others."""
        return self.usual if self.default is None and not self.group else self.default

    def left_out(self, value: Any) -> bool:
        """Whether a value says no more than leaving it out."""
        if isinstance(value, Iterable) and not isinstance(value, str):
            return isinstance(value, Sized) and not len(value)
        return value in (None, self.default, self.stands_for, self.earlier)

    def check_needed(self, value: Any, given: Mapping[str, Any]) -> None:
        """Refuse a value that would do nothing, or contradict, with these values of the other settings."""
        if self.only is None or self.matters(given) or self.left_out(value):
            return
        name, wanted = self.only
        words = wanted.words if isinstance(wanted, Cases) else f"`{name}={wanted!r}`"
        raise InvalidSetting(self.name, f"needs {words}", hint="Leave it out.")

    def check(self, value: Any) -> Any:
        """The value as the verb takes it; `InvalidSetting` names the setting."""
        return value

    def read(self, text: Any) -> Any:
        """The value that somebody typed, on a form or a command line."""
        return text

    def write(self, value: Any) -> str:
        """The text of a form's field that `read` reads as this value; of a value that no text says, something else."""
        return ", ".join(map(self.write, value)) if isinstance(value, list | tuple) else written(value)

    def in_words(self, value: Any) -> str:
        """A value as people read it beside the setting's title."""
        if isinstance(value, list):
            return ", ".join(map(self.in_words, value))
        return amount(value) if isinstance(value, int | float) else str(value)

    def example(self) -> str:
        """The text that a form is filled with."""
        return "" if self.usual is None else str(self.usual)


@dataclass(frozen=True)
class Text(Setting):
    """Any text."""


@dataclass(frozen=True)
class Column(Setting):
    """The name of a column or attribute."""


@dataclass(frozen=True)
class Columns(Setting):
    """The name of a column or attribute, or several names."""

    option_type: ClassVar[Any] = list[str]

    def read(self, text: Any) -> Any:
        """One name, or several with commas between."""
        names = [part.strip() for part in text.split(",") if part.strip()] if isinstance(text, str) else list(text)
        return names[0] if len(names) == 1 else names


@dataclass(frozen=True)
class Whole(Setting):
    """A whole number."""

    least: int = 1
    most: int | None = None
    input: ClassVar[str] = "number"
    option_type: ClassVar[Any] = int

    def check(self, value: Any) -> Any:
        """A whole number within the bounds."""
        if value is None:
            return None
        if self.is_rounds:
            return check_rounds(value, setting=self.name)
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if whole and self.most is not None and not self.least <= value <= self.most:
            raise InvalidSetting(self.name, f"must be from {self.least} to {self.most:,}")
        return check_count(value, setting=self.name, least=self.least, example=self.usual or self.least)

    def read(self, text: Any) -> Any:
        """A whole number from text."""
        return read_whole(text, self.name) if isinstance(text, str) else text


@dataclass(frozen=True)
class Number(Setting):
    """A number."""

    option_type: ClassVar[Any] = float

    def check(self, value: Any) -> Any:
        """A number, whatever its type."""
        if value is not None and (isinstance(value, bool | str) or not hasattr(value, "__float__")):
            example = 1 if self.usual is None else self.usual
            kind = type(value).__name__
            raise InvalidSetting(
                self.name, f"must be a number, not {kind}", hint=f"For example `{self.name}={example}`."
            )
        return value

    def read(self, text: Any) -> Any:
        """A number from text."""
        return read_number(text, self.name) if isinstance(text, str) else text


@dataclass(frozen=True)
class Numbers(Setting):
    """Several numbers."""

    option_type: ClassVar[Any] = list[float]

    def read(self, text: Any) -> Any:
        """Numbers with commas or blanks between."""
        if not isinstance(text, str):
            return text
        return [read_number(part, self.name) for part in re.split(r"[,;\s]+", text) if part]


@dataclass(frozen=True)
class Choice(Setting):
    """One of a few words; `options` has a label for each."""

    options: Mapping[str, str] = field(default_factory=dict)
    input: ClassVar[str] = "choice"

    @property
    def choices(self) -> Mapping[str, str]:
        """The words and their labels."""
        return self.options

    def in_words(self, value: Any) -> str:
        """The label, without what explains it."""
        if isinstance(value, Mapping):
            return "; ".join(f"{column}: {self.in_words(each)}" for column, each in value.items())
        return self.options[value].partition(": ")[0]

    def check(self, value: Any) -> Any:
        """One of the words; None where the setting may be left out. A mapping from columns is left for the verb."""
        if isinstance(value, Mapping):
            return value
        if not (isinstance(value, str) and value in self.options) and not (value is None and self.default is None):
            words = [repr(word) for word in self.options]
            raise InvalidSetting(self.name, f"must be {', '.join(words[:-1])} or {words[-1]}")
        return value


@dataclass(frozen=True)
class YesNo(Choice):
    """True or False, or None where the verb decides."""

    options: Mapping[str, str] = field(default_factory=lambda: {"no": "No", "yes": "Yes"})

    def in_words(self, value: Any) -> str:
        """Yes or no."""
        return self.options[self.write(value)]

    def check(self, value: Any) -> Any:
        """True or False; None where the setting may be left out."""
        return None if value is None and self.default is None else check_flag(value, setting=self.name)

    def read(self, text: Any) -> Any:
        """The word yes or no, of which some people write true or false."""
        found = {"yes": True, "true": True, "no": False, "false": False}.get(str(text).lower())
        if found is None:
            raise InvalidSetting(self.name, "must be yes or no")
        return found

    def write(self, value: Any) -> str:
        """Yes or no."""
        return "yes" if value else "no"

    def example(self) -> str:
        """No, unless it is usual: a form has no third choice."""
        return self.write(self.usual)


@dataclass(frozen=True)
class Edges(Setting):
    """Edges of bins, or how many equal ones there are."""

    def in_words(self, value: Any) -> str:
        """How many bins, from where to where; of several columns, for each."""
        if isinstance(value, Mapping):
            return "; ".join(f"{column}: {self.in_words(edges)}" for column, edges in value.items())
        return f"{len(value) - 1:,} from {amount(value[0])} to {amount(value[-1])}"

    def read(self, text: Any) -> Any:
        """Edges with commas between, or a whole number."""
        if not isinstance(text, str):
            return text
        try:
            return [float(edge) for edge in text.split(",")] if "," in text else int(text)
        except ValueError:
            raise InvalidSetting(self.name, "must be edges, as 0,18,65,130, or a whole number") from None


@dataclass(frozen=True)
class Listed(Setting):
    """A public list of buckets."""

    input: ClassVar[str] = "lines"
    option_type: ClassVar[Any] = Path

    def write(self, value: Any) -> str:
        """One bucket a line."""
        return "\n".join(map(str, value))

    def in_words(self, value: Any) -> str:
        """How many there are."""
        return f"{len(value):,} values"

    def check(self, value: Any) -> Any:
        """The list once and for all; a single text is left for the verb to refuse."""
        if value is None or isinstance(value, str):
            return value
        if not isinstance(value, Iterable):
            raise InvalidSetting(self.name, f"must be a list of buckets, not {type(value).__name__}")
        return tuple(value)

    def read(self, text: Any) -> Any:
        """One bucket a line, from a form's field or from a file."""
        if isinstance(text, Path):
            try:
                return [line for line in text.read_text(encoding="utf-8").splitlines() if line]
            except (OSError, UnicodeDecodeError):
                raise InvalidSetting(self.name, f"{str(text)!r} cannot be read", hint="Give a text file.") from None
        return list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


@dataclass(frozen=True)
class Conditions(Setting):
    """A filter: which units are asked."""

    input: ClassVar[str] = "lines"
    option_type: ClassVar[Any] = list[str]

    def write(self, value: Any) -> str:
        """One condition a line."""
        return "\n".join(to_lines(self._checked(value)))

    def in_words(self, value: Any) -> str:
        """All conditions in one line."""
        return in_words(self._checked(value))

    def check(self, value: Any) -> Where | None:
        """The filter; None where there is no condition."""
        return to_where(value)

    def read(self, text: Any) -> Any:
        """One condition a line, or a list of them."""
        return text.splitlines() if isinstance(text, str) else text

    def _checked(self, value: Any) -> Where:
        where = to_where(value)
        assert where is not None
        return where


@functools.cache
def settings_of(function: Callable[..., Any]) -> dict[str, Setting]:
    """The settings that a verb's public function describes, in its order; then those that every verb takes."""
    found = {}
    parameters = inspect.signature(function, follow_wrapped=True).parameters
    hints = get_type_hints(function, include_extras=True)
    common = [each for hint in hints.values() if get_origin(hint) is Unpack for each in get_args(hint)]
    for name, hint in itertools.chain(hints.items(), *(_hints(each).items() for each in common)):
        described = [each for each in get_args(hint)[1:] if isinstance(each, Setting)]
        if get_origin(hint) is not Annotated or not described:
            continue
        setting = replace(described[0])
        parameter = parameters[name]
        object.__setattr__(setting, "name", name)
        object.__setattr__(setting, "default", parameter.default)
        object.__setattr__(setting, "positional", parameter.kind is not inspect.Parameter.KEYWORD_ONLY)
        found[name] = setting
    return found


def _hints(common: type) -> dict[str, Any]:
    """What the arguments that every verb takes are annotated with."""
    return get_type_hints(common, include_extras=True)


def written(value: Any) -> str:
    """A value as it is typed into a form; a number that is read again is exactly the same."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value).replace("e-0", "e-")
    return str(value)


def read_number(text: str, setting: str) -> float:
    """A finite number, as people write one; `setting` is what an error calls it."""
    if not _NUMBER.fullmatch(text):
        hint = "Write 0.5 or 1e-8: a point, no comma, no space." if "," in text or " " in text else ""
        raise InvalidSetting(setting, "must be a number", hint=hint)
    number = float(text)
    if not -_LARGEST < number < _LARGEST:
        raise InvalidSetting(setting, "must be a finite number")
    return number


def read_whole(text: str, setting: str) -> int:
    """A whole number, as people write one."""
    number = read_number(text, setting)
    if number != int(number):
        raise InvalidSetting(setting, "must be a whole number")
    return int(number)

"""Every error Thresher raises, in one tree.

    ThresherError                 code, message, hint
    ├── InvalidSetting            a setting is missing, of the wrong kind or out of range   (also a ValueError)
    ├── Unreachable               no sampling rate and threshold can meet the target
    ├── BudgetExceeded            the ledger has not enough left; nothing was drawn
    ├── LedgerUnavailable         the ledger's file is busy or cannot be written; nothing was drawn
    ├── NotReleased               a bucket that this release does not contain               (also a KeyError)
    ├── VerificationFailed        a release does not have the guarantee it claims
    ├── InvalidFormat             a stored plan, a release or a message cannot be read
    ├── Unauthorised              a token is missing, wrong, expired or for another role
    ├── NotFound                  no such query, round or key
    ├── Conflict                  something else is stored already under this name
    ├── StoreUnavailable          a role's database cannot be reached or written; nothing was acknowledged
    ├── ServerUnavailable         a server cannot be reached, or asks to come back later
    ├── QueryEnded                a query was cancelled or could not go on
    └── MissingExtra              an optional dependency is not installed                   (also an ImportError)

    ThresherWarning               what speaks against a query; nothing was charged yet          (a UserWarning)
    └── WeakGuarantee             epsilon is above 10, or delta 1/1000 or more

Messages name settings and columns, never a person's value. The HTTP status and the exit code of each error stand in one
table, which the server, the console and the command read.

Messages and hints speak the language of the door where they are read. A setting stands in them between backticks, as
Python writes it: "Plan with `rounds=1`." Each door writes it in its own way (`ThresherError.worded`): Python rounds=1,
the command --rounds 1, a page “rounds” 1, the wire "rounds": 1. Where doors need other sentences, the hint is a `Hint`.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

Door = Literal["python", "command", "page", "wire"]
Naming = Callable[[str, str | None], str]
"""How a door writes a setting, from its name and its value as Python writes both; None for a name alone."""

_MARK = re.compile(r'`(?:([a-z_-]+)(?:=([^`]*))?|"([a-z_-]+)": ([^`]*))`')
"""A setting in a text: `rounds=1` or `rounds`, or as it stands on the wire, `"rounds": 1`."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A hint whose sentences are not the same at every door. `otherwise` is for doors without words of their own."""

    otherwise: str = ""
    python: str | None = None
    command: str | None = None
    page: str | None = None
    wire: str | None = None

    def at(self, door: Door) -> str:
        """The words for a door."""
        words: str | None = getattr(self, door)
        return self.otherwise if words is None else words


def in_python(name: str, value: str | None) -> str:
    """A setting as Python writes it."""
    return name if value is None else f"{name}={value}"


def worded(text: str, naming: Naming) -> str:
    """A text with each setting in it as a door writes it."""

    def named(found: re.Match[str]) -> str:
        name, value, sent_name, sent = found.groups()
        return naming(name, value) if sent_name is None else naming(sent_name, _received(sent))

    return _MARK.sub(named, text)


def _received(value: str) -> str:
    """A value of the wire as Python writes it."""
    try:
        return repr(json.loads(value))
    except ValueError:
        return value


class ThresherError(Exception):
    """Base of all errors: a stable `code`, what happened, and a `hint` that says what to do."""

    code = "error"

    def __init__(self, message: str, *, hint: str | Hint = "") -> None:
        super().__init__(message)
        self._message, self._hint = message, hint

    @property
    def message(self) -> str:
        """What happened, as Python says it."""
        return worded(self._message, in_python)

    @property
    def hint(self) -> str:
        """What to do, as Python says it."""
        return self.worded("python", in_python)[1]

    @hint.setter
    def hint(self, hint: str | Hint) -> None:
        self._hint = hint

    def call(self, name: str, otherwise: str) -> None:
        """Call what has this name in the message and the hint otherwise, as the door does where they are read."""
        self._message = self._message.replace(name, otherwise)
        self.args = (self._message,)
        if isinstance(self._hint, str):
            self._hint = self._hint.replace(name, otherwise)

    @property
    def marked_hint(self) -> str | Hint:
        """The hint as it was given, for an error that is made from this one."""
        return self._hint

    def worded(self, door: Door, naming: Naming) -> tuple[str, str]:
        """Message and hint in the words of a door, which writes settings as `naming` says."""
        hint = self._hint.at(door) if isinstance(self._hint, Hint) else self._hint
        return worded(self._message, naming), worded(hint, naming)

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint, self.__dict__))


def _rebuild(kind: type[ThresherError], message: str, hint: str, state: dict[str, object]) -> ThresherError:
    """Recreate an error on the other side of a process boundary."""
    error = kind.__new__(kind)
    ThresherError.__init__(error, message, hint=hint)
    error.__dict__.update(state)
    return error


class ThresherWarning(UserWarning):
    """What speaks against a query: it may give no answer. The warning comes before anything is charged."""


class WeakGuarantee(ThresherWarning):
    """The guarantee is so weak that it hardly protects anybody; `reason` says why.

    `warnings.simplefilter("ignore", thresher.WeakGuarantee)` switches these warnings off.
    """

    code = "weak-guarantee"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f'{self.reason} To switch this warning off: warnings.simplefilter("ignore", thresher.WeakGuarantee)'


class InvalidSetting(ThresherError, ValueError):
    """A setting is missing, of the wrong kind or out of range; `setting` names it."""

    code = "invalid-setting"

    def __init__(self, setting: str, problem: str, *, hint: str | Hint = "") -> None:
        marked = f"`{setting}`"
        super().__init__(f"{marked if _MARK.fullmatch(marked) else setting} {problem}.", hint=hint)
        self.setting = setting


class Unreachable(ThresherError):
    """No sampling rate and threshold can meet the target."""

    code = "unreachable"


class BudgetExceeded(ThresherError):
    """The ledger has not enough left. Raised before anything is drawn."""

    code = "budget-exceeded"


class LedgerUnavailable(ThresherError):
    """The ledger's file is busy, or cannot be read or written. Raised before anything is drawn."""

    code = "ledger-unavailable"


class NotReleased(ThresherError, KeyError):
    """The release has no such bucket: it was below the threshold, or nobody holds it; the two look the same."""

    code = "not-released"


class VerificationFailed(ThresherError):
    """A release or certificate does not have the guarantee that it claims."""

    code = "verification-failed"


class InvalidFormat(ThresherError):
    """A stored plan, a release or a message cannot be read."""

    code = "invalid-format"


class Unauthorised(ThresherError):
    """A token is missing, wrong, expired or for another role."""

    code = "unauthorised"


class NotFound(ThresherError):
    """No such query, round or key."""

    code = "not-found"


class Conflict(ThresherError):
    """Something else is stored already under this name; nothing was changed."""

    code = "conflict"


class StoreUnavailable(ThresherError):
    """A role's database cannot be reached or written. Nothing was acknowledged, nothing is lost.

    `lasting`: waiting does not help, because a password, a right or an address must be changed.
    """

    code = "store-unavailable"

    def __init__(self, message: str, *, hint: str | Hint = "", lasting: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.lasting = lasting


class ServerUnavailable(ThresherError):
    """A server cannot be reached, or asks to come back later: after `retry_after` seconds, if it says when."""

    code = "server-unavailable"

    def __init__(self, message: str, *, hint: str | Hint = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class QueryEnded(ThresherError):
    """A query was cancelled or could not go on; rounds that were drawn stay charged."""

    code = "query-ended"


class MissingExtra(ThresherError, ImportError):
    """An optional dependency is not installed."""

    code = "missing-extra"


# A class that is not listed has the status and the code of its base; a test checks every class of the tree.
_STATUSES: dict[type[ThresherError], tuple[int, int]] = {
    #                   HTTP  exit
    ThresherError:      (500, 1),
    InvalidSetting:     (422, 2),
    Unreachable:        (422, 3),
    BudgetExceeded:     (402, 4),
    LedgerUnavailable:  (503, 1),
    NotReleased:        (404, 1),
    VerificationFailed: (422, 5),
    InvalidFormat:      (400, 2),
    Unauthorised:       (401, 1),
    NotFound:           (404, 1),
    Conflict:           (409, 1),
    StoreUnavailable:   (503, 1),
    ServerUnavailable:  (503, 1),
    QueryEnded:         (409, 1),
    MissingExtra:       (501, 6),
}  # fmt: skip


def http_status(error: ThresherError) -> int:
    """The HTTP status of an error, in the API and in the console.

    The budget has 402 and not 409, so that a client can tell "ask for less" from "that name is taken" by the status.
    """
    return _statuses(type(error))[0]


def exit_code(error: ThresherError) -> int:
    """The exit code of the command when it ends with an error."""
    return _statuses(type(error))[1]


def _statuses(kind: type[ThresherError]) -> tuple[int, int]:
    return next(_STATUSES[base] for base in kind.__mro__ if base in _STATUSES)


def require(module: str, extra: str) -> ModuleType:
    """Import an optional module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"This needs the package {module.partition('.')[0]}, which is not installed.",
            hint=f"Install it with: pip install 'thresher[{extra}]'",
        ) from error


def only_the_device(name: str) -> MissingExtra:
    """The error for a public name that `thresher-device` does not have."""
    return MissingExtra(
        f"{name} is not there: only the device is installed.",
        hint="Run: pip uninstall thresher-device, then pip install thresher",
    )

"""Every error of the tree has a status for servers and an exit code for the command, in one table."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import thresher
from thresher import errors
from thresher.errors import ThresherError

SOURCE = Path(thresher.__file__).parent


def tree(kind: type[ThresherError] = ThresherError) -> Iterator[type[ThresherError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


def test_every_error_of_the_tree_stands_in_the_table() -> None:
    public = [kind for kind in tree() if kind.__module__ == errors.__name__]
    assert len(public) > 10
    assert set(errors._STATUSES) == set(public)
    for kind in public:
        drawn = kind is ThresherError or f"── {kind.__name__} " in (errors.__doc__ or "")
        assert drawn, f"{kind.__name__} is missing in the picture of the tree"


def test_errors_that_live_elsewhere_have_the_door_of_their_base() -> None:
    """Only `Refused` is a bare ThresherError: it carries its own status."""
    for module in pkgutil.walk_packages([str(SOURCE)], "thresher."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    elsewhere = [kind for kind in tree() if kind.__module__.startswith("thresher.") and kind not in errors._STATUSES]
    assert elsewhere
    fallen = {kind.__name__ for kind in elsewhere if errors._statuses(kind) == errors._STATUSES[ThresherError]}
    assert fallen == {"Refused"}


def test_no_error_of_ours_is_an_internal_one() -> None:
    assert [kind.__name__ for kind, (status, _) in errors._STATUSES.items() if status == 500] == ["ThresherError"]
    raised = [path for path in SOURCE.rglob("*.py") if "raise ThresherError(" in path.read_text(encoding="utf-8")]
    assert raised == []  # whoever raises says what kind of error it is


def test_a_budget_that_is_exceeded_is_402_at_every_door() -> None:
    from thresher.server.problem import answer_of

    error = errors.BudgetExceeded("words")
    assert (errors.http_status(error), errors.exit_code(error)) == (402, 4)
    assert answer_of(error)[0] == 402
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "BudgetExceeded, 4" not in text and "BudgetExceeded: 4" not in text, f"{path} has a table of its own"


@pytest.mark.parametrize(
    ("kind", "code"),
    [(errors.InvalidFormat, 2), (errors.Unreachable, 3), (errors.VerificationFailed, 5), (errors.Conflict, 1)],
)
def test_exit_codes(kind: type[ThresherError], code: int) -> None:
    assert errors.exit_code(kind("words")) == code

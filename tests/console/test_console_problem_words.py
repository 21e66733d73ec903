"""What pages say of errors whose own words are for programs."""

from __future__ import annotations

import pytest

from thresher.console.problem_words import shown_problem
from thresher.errors import Conflict, InvalidSetting, ThresherError
from thresher.roles.coordinator.series import found_series
from thresher.server.problem import Refused, problem_of
from thresher.verbs.alert_rules import Rule


def raised(call) -> ThresherError:
    with pytest.raises(ThresherError) as found:
        call()
    return found.value


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (raised(lambda: Rule("above")), "For example 1000."),
        (raised(lambda: found_series(None)), "The page Series lists them."),
        (Refused(429, "busy", "Busy.", hint="Wait as long as Retry-After says."), "Wait a moment, then try again."),
        (Conflict("Another series is stored under this name.", hint="Choose another name."), "Send it again"),
        (InvalidSetting("lower", "is wrong", hint="For example `lower=0`, `upper=1`."), "“from” 0, “to” 1."),
        (InvalidSetting("method", "is wrong", hint="Use `method='trie'`."), "Use “method” trie."),
    ],
)
def test_a_page_speaks_to_people(error, hint):
    shown, plain = shown_problem(error), problem_of(error)
    assert hint in shown.hint
    assert (shown.status, shown.code) == (plain.status, plain.code)
    assert "this name" not in shown.detail

"""What a hostile or clumsy neighbour must not achieve: a server, an analyst, a proxy, a token that was revoked."""

from __future__ import annotations

import pytest
from device_cases import KEY, PLAN, StillClock, checked_in, configuration, opened

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.fleet.device_core import DeviceCore
from thresher.fleet.messages import check_configuration
from thresher.fleet.plaintext import DECOY, encode_bucket, fleet_bucket
from thresher.questions import Cells, Joint, Prefixes, Values, from_dict, to_dict

ALWAYS = {"contact_rate": 1 / 16}  # then the device's own rate is 1


class Unreadable:
    """A question whose buckets no aggregator reads: a stand-in for whatever somebody may yet invent."""

    columns = ("word",)

    def bucket(self, value):
        return value


def test_a_device_sends_a_decoy_where_its_bucket_would_be_malformed():
    # How many reports were malformed is in /metrics: it must not depend on what devices hold.
    bucket = fleet_bucket(Unreadable(), "x")
    assert bucket == "x"
    assert encode_bucket(Unreadable(), bucket, 64) is None


@pytest.mark.parametrize(
    "question",
    [
        {"kind": "joint", "parts": [to_dict(Values(("word",)))]},  # "x" was malformed, "xy" a decoy
        {"kind": "joint", "parts": []},
        {"kind": "joint", "parts": [to_dict(Joint((Values(("a",)), Values(("b",))))), to_dict(Values(("c",)))]},
        {"kind": "joint", "parts": [to_dict(Cells("a", 0, 1, 4)), to_dict(Values(("c",)))]},
        {"kind": "cells", "column": "word", "lower": 0, "upper": 100, "cells": 2.5},  # 90 was malformed, 10 counted
        {"kind": "cells", "column": "word", "lower": 0, "upper": 100, "cells": True},
        {"kind": "prefixes", "column": "word", "length": 2.0, "known": 0, "parents": []},
    ],
)
def test_a_question_whose_buckets_cannot_be_read_back_is_refused_by_everybody(question):
    with pytest.raises((InvalidSetting, InvalidFormat)):
        from_dict(question)
    import msgspec

    asked = msgspec.structs.replace(configuration(**ALWAYS), question=question)
    with pytest.raises(InvalidFormat):
        check_configuration(asked)
    core = DeviceCore({"word": "x"}, clock=StillClock())
    assert core.take(checked_in(asked)) == []
    assert core.outcome(asked.round).status == "refused"


def test_whole_numbers_of_any_type_still_make_cells_and_prefixes():
    import numpy as np

    assert Cells("x", 0, 1, np.int64(4)).bucket(0.6) == 2
    assert Prefixes("x", np.int64(2)).bucket("word") == "wo"

"""Messages and rates: strict reading, a hash that never moves, exact products, configurations that hold together."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import replace
from fractions import Fraction

import msgspec
import pytest
from device_cases import KEY, PLAN, configuration
from hypothesis import example, given, settings
from hypothesis import strategies as st

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.privacy import DEVICE
from thresher.privacy.guarantee import delta
from thresher.privacy.plans import Plan
from thresher.privacy.rates import ONE, Rates, contact_list_guarantee, injected_guarantee
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.protocol.configurations import GuaranteeStated, RoundConfiguration
from thresher.protocol.messages import Enrol, Enrolled, Report, ReportTaken, Visit, Visited, canonical, decode, encode
from thresher.protocol.rates import share
from thresher.protocol.readable import LARGEST_REPORT, read_round
from thresher.protocol.recomputation import check_configuration
from thresher.questions import Bins, Joint, Prefixes, Values

CONFIGURATION = configuration()
MESSAGES = [
    CONFIGURATION,
    Enrol(versions=[2]),
    Visit(versions=[2, 3], reports=[Report(round="r", sealed=b"\x00\xff" * 56)], rounds=True),
    Visited(
        version=2,
        reports=[ReportTaken(round="r", status="taken")],
        rounds=[CONFIGURATION.text],
        come_back=60.0,
    ),
    Report(round="r", sealed=b"\x00\xff" * 56),
    QueryRequest(name="mine", query={"verb": "histogram"}, settings=RoundSettings(contact_rate=0.5)),
]

# Reading


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_come_back_as_they_were(message):
    assert decode(type(message), encode(message)) == message
    assert decode(type(message), canonical(message)) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_unknown_fields_are_refused(message):
    content = {**msgspec.to_builtins(message), "more": 1}
    with pytest.raises(InvalidFormat):
        decode(type(message), json.dumps(content))


@pytest.mark.parametrize("field", RoundConfiguration.__struct_fields__)
def test_every_field_of_a_configuration_is_needed_and_typed(field):
    content = msgspec.to_builtins(CONFIGURATION)
    for wrong in (None, [], "\x00 "):
        with pytest.raises(InvalidFormat):
            decode(RoundConfiguration, json.dumps({**content, field: wrong}))
    del content[field]
    with pytest.raises(InvalidFormat):
        decode(RoundConfiguration, json.dumps(content))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("version", [0, 4, "1", True]),
        ("index", [-1, 100_001]),
        ("contact_rate", [0, ONE + 1, 0.5]),
        ("bucket_size", [47, 4097]),
        ("public_key", ["0" * 63, "0" * 65, "G" * 64, "A" * 64, "0" * 64 + "\n"]),
        ("round", ["", "a/b", "-a", "a b", "a\n", "x" * 101, "é"]),
        ("fleet", ["../up", ".hidden"]),
    ],
)
def test_values_out_of_range_are_refused(field, values):
    content = msgspec.to_builtins(CONFIGURATION)
    for value in values:
        with pytest.raises(InvalidFormat):
            decode(RoundConfiguration, json.dumps({**content, field: value}))


@pytest.mark.parametrize("size", [0, LARGEST_REPORT + 1])
def test_reports_of_no_or_too_many_bytes_are_refused(size):
    with pytest.raises(InvalidFormat):
        decode(Report, json.dumps({"round": "r", "sealed": base64.b64encode(bytes(size)).decode()}))
    with pytest.raises(InvalidSetting, match="sealed"):
        Report(round="r", sealed=bytes(size))


@pytest.mark.parametrize(
    ("kind", "content", "field"),
    [
        (RoundSettings, {"bucket_size": 40}, "bucket_size"),
        (RoundSettings, {"bucket_size": 64.5}, "bucket_size"),
        (RoundSettings, {"seconds": math.nan}, "seconds"),
        (RoundSettings, {"completions": True}, "completions"),
        (RoundSettings, {"sampled_by": "nobody"}, "sampled_by"),
        (QueryRequest, {"name": "a b", "query": {}}, "name"),
        (QueryRequest, {"name": "a", "query": []}, "query"),
        (Visited, {"version": 2, "reports": [], "rounds": [], "come_back": math.inf}, "come_back"),
        (Visited, {"version": 2, "reports": [], "rounds": [1], "come_back": 1.0}, "rounds"),
        (Visit, {"versions": [], "reports": [], "rounds": True}, "versions"),
        (Visit, {"versions": [2], "reports": [Report(round="r", sealed=b"x")] * 257, "rounds": True}, "reports"),
        (Visit, {"versions": [2], "reports": [], "rounds": 1}, "rounds"),
        (
            GuaranteeStated,
            {"epsilon": math.nan, "delta": 0.0, "adjacency": "replace", "rounds": 1},
            "epsilon",
        ),
    ],
)
def test_what_could_not_be_read_back_cannot_be_made(kind, content, field):
    with pytest.raises(InvalidSetting, match=f"^{field}"):
        kind(**content)


def test_a_change_is_checked_like_the_first_making():
    with pytest.raises(InvalidSetting, match="bucket_size must be from 48 to 4,096"):
        msgspec.structs.replace(CONFIGURATION, bucket_size=40)


def test_what_was_made_is_what_is_read_also_where_a_whole_number_stands_for_a_float():
    made = msgspec.structs.replace(CONFIGURATION, deadline=1_800_000_000)
    assert type(made.deadline) is float
    assert canonical(decode(RoundConfiguration, encode(made))) == canonical(made)


BODIES = [b"", b"{", b"[]", b"null", b"\xff", b'{"sealed":"?"}', b"[" * 100_000, b'{"sealed":1e999}']


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_bytes_that_are_no_message_are_one_kind_of_error(body):
    with pytest.raises(InvalidFormat):
        decode(Report, body)


def test_an_error_names_the_field_and_never_its_content():
    content = msgspec.to_builtins(CONFIGURATION)
    content["guarantees"]["analyst"]["epsilon"] = "canary-7f3a"
    with pytest.raises(InvalidFormat, match=r"guarantees\.analyst\.epsilon") as caught:
        decode(RoundConfiguration, json.dumps(content))
    assert "canary" not in str(caught.value)
    content = {"version": 2, "token": "canary-7f3a" * 40}
    with pytest.raises(InvalidFormat, match="token") as caught:
        decode(Enrolled, json.dumps(content))
    assert "canary" not in str(caught.value)


# The hash

GOLDEN = (
    '{"aggregator_rate":268435456,"bucket_size":64,"contact_rate":4294967296,"deadline":1003600.0,'
    '"device_rate":4294967296,"fleet":"fleet","guarantees":{"analyst":{"adjacency":"replace","delta":1e-08,'
    '"epsilon":1.0,"rounds":3},"contact_list":{"adjacency":"replace","delta":1e-08,"epsilon":1.0,"rounds":3},'
    '"injected":{"adjacency":"replace","delta":1e-08,"epsilon":1.0,"rounds":3}},'
    '"index":0,"key_id":"key-1","plan":{"adjacency":"replace","delta":1e-08,"epsilon":1.0,"format":"thresher-plan",'
    '"rounds":3,"sampling_rate":0.0625,"threshold":12,"version":1},'
    '"public_key":"8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f","query":"query-0",'
    '"question":{"columns":["naïve"],"kind":"values"},"round":"round-0","version":3}'
)
GOLDEN_HASH = "3f6667d8b442a53d442eb3c6353c87c02e66825b0f8dfcc3b0335d06b7e85601"

GOLDEN_2 = GOLDEN.replace('"version":3}', '"version":2}')
GOLDEN_HASH_2 = "bd08b67b834c4e9e854254f57f2ae73a70b586c85f0eec01307b4529a4cedd29"

GOLDEN_1 = (
    '{"aggregator_rate":4294967296,"bucket_size":64,"contact_rate":4294967296,"deadline":1003600.0,'
    '"device_rate":268435456,"fleet":"fleet","guarantees":{"analyst":{"adjacency":"replace","delta":1e-08,'
    '"epsilon":1.0,"rounds":3},"contact_list":{"adjacency":"replace","delta":1e-08,"epsilon":1.0,"rounds":3}},'
    '"index":0,"key_id":"key-1","plan":{"adjacency":"replace","delta":1e-08,"epsilon":1.0,"format":"thresher-plan",'
    '"rounds":3,"sampling_rate":0.0625,"threshold":12,"version":1},'
    '"public_key":"8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f","query":"query-0",'
    '"question":{"columns":["naïve"],"kind":"values"},"round":"round-0","version":1}'
)
GOLDEN_HASH_1 = "ded34bd3241c2daed01422bfe6c11d51d8778402b7d79ed49f049336e7206817"


def test_the_hash_of_a_configuration_never_moves():
    """Provenance: written by hand and hashed with the command sha256sum:

        (printf 'thresher round 3\\0'; printf '%s' "$GOLDEN") | sha256sum

    If this fails, devices and servers of two versions do not understand each other: raise the protocol's version
    instead of changing the number.
    """
    ours = configuration(question=Values(("naïve",)), sampled_by="aggregator")
    assert canonical(ours).decode() == GOLDEN
    assert ours.hash.hex() == GOLDEN_HASH
    assert RoundConfiguration.read(GOLDEN).hash.hex() == GOLDEN_HASH
    shown = read_round(GOLDEN).round
    assert shown is not None and shown.hash.hex() == GOLDEN_HASH


def test_a_round_that_version_two_opened_can_be_finished_and_not_answered():
    before = RoundConfiguration.read(GOLDEN_2)
    assert before.hash.hex() == GOLDEN_HASH_2
    check_configuration(before)
    assert read_round(GOLDEN_2).round is None


def test_a_round_that_version_one_opened_can_be_finished_and_not_answered():
    """Its reports are sealed to a hash that has not moved. Devices want to know what holds against injected reports."""
    before = RoundConfiguration.read(GOLDEN_1)
    assert before.text == GOLDEN_1
    assert before.hash.hex() == GOLDEN_HASH_1
    check_configuration(before)
    assert read_round(GOLDEN_1).round is None
    for half in (
        msgspec.structs.replace(before, version=2),
        msgspec.structs.replace(before, guarantees=configuration().guarantees),
    ):
        with pytest.raises(InvalidFormat):
            check_configuration(half)


def other_spellings(text):
    """Strings that many readers of JSON take for the same configuration, or that some do."""
    content = json.loads(text)
    yield json.dumps(content)
    yield json.dumps(content, indent=3)
    yield json.dumps(dict(reversed(list(content.items()))), separators=(",", ":"), ensure_ascii=False)
    yield text + " "
    yield text.replace('"index":0', '"index":-0')
    yield text.replace('"index":0', '"index":1,"index":0')
    yield text.replace('"threshold":12', '"threshold":5,"threshold":12')
    yield text.replace('"deadline":1003600.0', '"deadline":1003600')
    yield text.replace("0.0625", "6.25e-2")
    yield text.replace('"fleet":"fleet"', '"fleet":"\\u0066leet"')
    yield text.replace("naïve", "na\\u00efve")
    yield "\ufeff" + text


def test_a_server_reads_only_what_it_would_write():
    """A device hashes the string that it got: nobody may be able to read it as something else."""
    assert RoundConfiguration.read(GOLDEN).text == GOLDEN
    others = list(other_spellings(GOLDEN))
    assert len({*others, GOLDEN}) == 13
    for text in others:
        with pytest.raises(InvalidFormat):
            RoundConfiguration.read(text)
    for text in ("", "\ud800", GOLDEN.replace("naïve", "\ud800"), GOLDEN.encode("utf-16")):
        with pytest.raises(InvalidFormat):
            RoundConfiguration.read(text)


def leaves(content, path=()):
    """Every value inside nested dictionaries, with the way to it."""
    for key, value in content.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def changed(content, path, value):
    if len(path) == 1:
        return {**content, path[0]: value}
    return {**content, path[0]: changed(content[path[0]], path[1:], value)}


def other_values(value):
    if isinstance(value, int):
        return [value + 1, max(value - 1, 0), value // 2]
    if isinstance(value, float):
        return [math.nextafter(value, math.inf), value / 2, value * 2]
    return [["another"]] if isinstance(value, list) else [str(value) + "x", "add-remove"]


BUILTINS = msgspec.to_builtins(configuration(contact_rate=0.5, index=2))
UNCHECKED = {
    "version",
    "fleet",
    "query",
    "index",
    "round",
    "question",
    "bucket_size",
    "deadline",
    "key_id",
    "public_key",
}
"""What nothing else in the configuration follows from."""


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path, _ in leaves(BUILTINS)], ids=".".join)
def test_every_single_change_is_found(path):
    honest = decode(RoundConfiguration, json.dumps(BUILTINS))
    check_configuration(honest)
    value = dict(leaves(BUILTINS))[path]
    for other in other_values(value):
        if other == value:
            continue
        try:
            tampered = decode(RoundConfiguration, json.dumps(changed(BUILTINS, path, other)))
        except InvalidFormat:
            continue
        assert tampered.hash != honest.hash
        if path[0] not in UNCHECKED:
            with pytest.raises(InvalidFormat):
                check_configuration(tampered)


def test_an_index_beyond_the_plan_is_refused():
    check_configuration(configuration(index=PLAN.rounds - 1))
    with pytest.raises(InvalidFormat):
        check_configuration(configuration(index=PLAN.rounds))


def test_a_plan_that_promises_too_much_is_refused_however_consistent():
    honest = delta(sampling_rate=1 / 16, threshold=5, epsilon=1.0)
    check_configuration(configuration(plan=Plan(1 / 16, 5, 1.0, honest)))
    with pytest.raises(InvalidFormat):
        check_configuration(configuration(plan=Plan(1 / 16, 5, 1.0, honest * 0.999)))


def test_add_remove_plans_are_no_fleet_plans():
    with pytest.raises(InvalidFormat):
        configuration(plan=replace(PLAN, adjacency="add-remove"))


@pytest.mark.parametrize(
    "question",
    [
        {"kind": "unknown"},
        {},
        {"kind": "joint", "parts": [1]},
        {"kind": "joint", "parts": 5},
        {"kind": "bins", "column": "age", "edges": ["a", "b"]},
        {"kind": "values", "columns": []},
        {"kind": "prefixes", "column": "w", "length": 3, "known": 0, "parents": [["x"]]},
        {"kind": "below", "column": "w", "split": "x"},
    ],
)
def test_questions_that_make_no_sense_are_one_kind_of_error(question):
    odd = msgspec.structs.replace(CONFIGURATION, question=question)
    with pytest.raises(InvalidFormat):
        check_configuration(odd)


@pytest.mark.parametrize("plan", [{}, {"format": "thresher-plan"}, {**PLAN.to_dict(), "threshold": "12"}])
def test_plans_that_make_no_sense_are_one_kind_of_error(plan):
    with pytest.raises(InvalidFormat):
        check_configuration(msgspec.structs.replace(CONFIGURATION, plan=plan))


@pytest.mark.parametrize(
    "question",
    [
        Values(("word",)),
        Joint((Values(("country",)), Bins("age", (0, 18, 65)))),
        Prefixes("word", 4, 2, frozenset({"th", "a\x00"})),
    ],
    ids=lambda question: question.kind,
)
def test_question_plan_and_rates_come_out_as_they_went_in(question):
    sent = decode(RoundConfiguration, encode(configuration(question=question)))
    assert check_configuration(sent) == (question, PLAN, Rates(ONE, ONE // 16, ONE))
    assert sent.public_key == KEY.public.raw.hex()


# Rates

sampling_rates = st.floats(2.0**-20, 0.75)


@pytest.mark.slow
@settings(deadline=None, max_examples=500)
@example(1e-05, 0.0, "device")
@given(sampling_rates, st.floats(0, 1), st.sampled_from(["device", "aggregator"]))
def test_the_product_is_exact_and_never_above_the_plan(rate, position, sampled_by):
    exact = math.floor(rate * 2**64) / 2**64
    plan = Plan(exact, 12, 1.0, 0.5)
    contact_rate = min(1.0, exact + (1 - exact) * position)
    rates, new = share(plan, contact_rate, sampled_by)
    product = Fraction(rates.contact, ONE) * Fraction(rates.device, ONE) * Fraction(rates.aggregator, ONE)
    assert product == rates.sampling_rate == new.exact_rate == Fraction(new.sampling_rate)
    assert product <= plan.exact_rate
    # The contact rate c ≥ p is rounded to 20 significant bits and to 2^-32: at least c(1 − 2^-19) − 2^-32 is left. The
    # other factor is at most 1, or p ÷ c rounded to 2^-32, which takes at most c 2^-32 from the product.
    assert product >= plan.exact_rate * (1 - Fraction(1, 2**19)) - Fraction(1, ONE)
    assert Fraction(rates.contact, ONE) <= Fraction(contact_rate)
    assert replace(new, sampling_rate=plan.sampling_rate) == plan
    assert (rates.aggregator if sampled_by == "device" else rates.device) == ONE
    assert Fraction(rates.kept) * Fraction(rates.contact, ONE) == product


def test_rates_that_cannot_be_are_refused():
    for wrong in (0.01, 1.5, math.nan):
        with pytest.raises(InvalidSetting):
            share(PLAN, wrong)
    with pytest.raises(InvalidSetting):
        share(PLAN, 1.0, "nobody")
    with pytest.raises(InvalidSetting):
        Rates(ONE, ONE // 2, ONE // 2)
    for wrong in ((0, ONE, ONE), (ONE, ONE + 1, ONE)):
        with pytest.raises(InvalidSetting):
            Rates(*wrong)


def test_who_knows_the_contact_list_has_less_doubt():
    rates, plan = share(PLAN, 0.5)
    known = contact_list_guarantee(plan, rates)
    assert known.delta == delta(sampling_rate=2 / 16, threshold=12, epsilon=1.0, rounds=3) > 0
    assert known.delta > delta(sampling_rate=1 / 16, threshold=12, epsilon=1.0, rounds=3)
    everybody, plan = share(PLAN, 1.0)
    assert contact_list_guarantee(plan, everybody) == plan.guarantee.for_unit(DEVICE)
    exactly, plan = share(PLAN, 1 / 16)
    assert exactly.kept == 1
    assert contact_list_guarantee(plan, exactly).delta == 1.0


@pytest.mark.parametrize(
    "plan",
    [
        Plan(sampling_rate=0.5, threshold=200_000, epsilon=1.0, delta=0.5),
        Plan(sampling_rate=0.5, threshold=20, epsilon=1e-6, delta=0.5),
        Plan(sampling_rate=2**-20, threshold=20, epsilon=1.0, delta=0.5, rounds=5_000),
    ],
)
def test_plans_that_take_long_to_recompute_are_refused_before_anything_is_computed(plan, monkeypatch):
    monkeypatch.setattr(Plan, "verify", lambda self: pytest.fail("it was recomputed"))
    with pytest.raises(InvalidSetting, match="plan"):
        share(plan)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.floats(0.05, 1), st.sampled_from(["device", "aggregator"]), st.integers(1, 3))
def test_who_can_add_reports_faces_the_aggregators_coin_alone(contact_rate, sampled_by, rounds):
    rates, plan = share(Plan(1 / 32, 12, 1.0, 1e-8, "replace", rounds), contact_rate, sampled_by)
    known, adding = contact_list_guarantee(plan, rates), injected_guarantee(plan, rates)
    assert adding.delta >= known.delta >= plan.delta
    if sampled_by == "device":
        assert adding.delta == 1
    else:
        alone = delta(sampling_rate=rates.aggregator / ONE, threshold=12, epsilon=1.0, rounds=rounds)
        assert adding.delta == max(alone, plan.delta)
    assert (adding.epsilon, adding.rounds) == (1.0, rounds)


def test_nothing_holds_against_who_can_add_reports_where_the_aggregator_tosses_no_coin():
    for contact_rate, sampled_by in ((1.0, "device"), (0.5, "device"), (1 / 16, "aggregator")):
        rates, plan = share(PLAN, contact_rate, sampled_by)
        assert injected_guarantee(plan, rates).delta == 1
    rates, plan = share(PLAN)  # the default
    assert injected_guarantee(plan, rates) == plan.guarantee.for_unit(DEVICE)

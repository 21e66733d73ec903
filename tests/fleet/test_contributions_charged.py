"""A round of three contributions costs what three rounds cost, whoever is asked: a forgotten factor is an undercharge.

Each test asks one door for both and compares. Costs are rounded upwards, so that they agree to a few parts in 1e-12.
"""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest
from coordinator_cases import MINUTE, Server
from device_cases import answered, configuration, device, shown, spends_of, take

import thresher as th
from thresher.device.policy import Policy
from thresher.device.policy_file import read_policy
from thresher.device.spending import Spend
from thresher.device.state import FileState
from thresher.device.terms import Terms
from thresher.errors import InvalidFormat, InvalidSetting, VerificationFailed
from thresher.ledger import Ledger
from thresher.mechanism import Release, Response
from thresher.privacy import DEVICE
from thresher.privacy.budget import Budget, Charge
from thresher.privacy.plans import Plan
from thresher.privacy.rates import Guarantees, Rates
from thresher.privacy.series import plan_series, repeat_plan
from thresher.protocol import rates
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.protocol.configurations import Guarantees as Stated
from thresher.protocol.configurations import GuaranteesStated
from thresher.protocol.messages import canonical, decode, encode
from thresher.protocol.readable import LARGEST_REPORT
from thresher.protocol.recomputation import check_configuration, holds
from thresher.protocol.series_messages import ScheduleRequest, SeriesRequest
from thresher.questions import Values
from thresher.roles.coordinator.admission import admit
from thresher.roles.coordinator.cautions import Public, cautions, charged_to_devices
from thresher.roles.coordinator.ledger_rebuilding import rebuild
from thresher.verbs import HeavyHittersQuery, HistogramQuery

TIMES = 3
RATE, THRESHOLD, EPSILON = 0.0625, 12, 1.0
DELTA = th.privacy.delta(sampling_rate=RATE, threshold=THRESHOLD, epsilon=EPSILON, rounds=TIMES)
VALUES = Plan(RATE, THRESHOLD, EPSILON, DELTA, "replace", 1, TIMES)
ROUNDS = Plan(RATE, THRESHOLD, EPSILON, DELTA, "replace", TIMES)
ONE = Plan(RATE, THRESHOLD, EPSILON, DELTA)
BUDGET = Budget.make(20.0, 1e-4)


def total(charge: Charge) -> tuple[float, ...]:
    """What a charge adds to the four sums of a filter."""
    return charge.epsilon, charge.delta, charge.rounds * charge.renyi, charge.rounds * charge.bad


def same(one, other):
    """Two costs are equal, and the cost of one value and round is not."""
    assert one == pytest.approx(other, rel=1e-12)


def histogram(plan: Plan) -> HistogramQuery:
    return HistogramQuery(Values(("word",)), plan)


# Numbers


def test_guarantees():
    assert th.privacy.delta(
        sampling_rate=RATE, threshold=THRESHOLD, epsilon=EPSILON, contributions=TIMES
    ) == pytest.approx(DELTA)
    assert VALUES.verify() == ROUNDS.verify() > ONE.verify()
    shared = Rates(1 << 32, 1 << 28, 1 << 32), Rates(1 << 32, 1 << 32, 1 << 28)
    for each in shared:
        values, rounds = (Guarantees.of(plan, each) for plan in (VALUES, ROUNDS))
        assert [held.delta for held in values.against().values()] == [held.delta for held in rounds.against().values()]
    with pytest.raises(VerificationFailed):
        replace(VALUES, delta=ONE.verify()).verify()


@pytest.mark.slow
def test_budgets_and_ledgers(tmp_path):
    same(total(BUDGET.price(VALUES)), total(BUDGET.price(ROUNDS)))
    assert total(BUDGET.price(VALUES))[2] > 2.9 * total(BUDGET.price(ONE))[2]
    assert BUDGET.affords(BUDGET.price(VALUES)) == BUDGET.affords(BUDGET.price(ROUNDS))
    found = []
    for name, plan in (("values", VALUES), ("rounds", ROUNDS)):
        ledger = Ledger(tmp_path / f"{name}.db", epsilon=20, delta=1e-4)
        same(ledger.takes(plan), Ledger(tmp_path / "new.db", epsilon=20, delta=1e-4).takes(ROUNDS))
        ledger.reserve(plan, "tags", unit="user", drawn=plan.rounds)
        [entry] = ledger.history()
        found.append((*total(entry.charge), ledger.spent.epsilon, ledger.left.share, float(ledger.affords(plan))))
        restored = Ledger(tmp_path / f"{name}-restored.db", epsilon=20, delta=1e-4)
        restored.restore(plan, "tags", "user", "q")
        assert restored.left.share == ledger.left.share
    same(*found)


@pytest.mark.slow
def test_series():
    values, rounds = (
        plan_series(1.0, 1e-6, releases=4, rounds=r, contributions=c) for r, c in ((1, TIMES), (TIMES, 1))
    )
    assert values.total.sampling_rate == rounds.total.sampling_rate
    assert values.release.epsilon == rounds.release.epsilon
    assert values.total.verify() == rounds.total.verify()
    assert (
        repeat_plan(VALUES, 4).total.epsilon == repeat_plan(ROUNDS, 4).total.epsilon > repeat_plan(ONE, 4).total.epsilon
    )


# Devices


@pytest.mark.parametrize("sampled_by", ["device", "aggregator"])
def test_devices(sampled_by):
    policy = Policy()
    charges = []
    for plan in (VALUES, ROUNDS):
        core = device(policy=policy)
        assert answered(core, configuration(plan=plan, sampled_by=sampled_by)) == ["round-0"]
        [spend] = spends_of(core).values()
        single = msgspec.structs.replace(spend.terms, rounds=1, contributions=1)
        assert policy.cost(spend.terms) == TIMES * policy.cost(single)
        # Another policy charges anew, from what was recorded.
        other = Policy(period_epsilon=7.0, hide_from_contact_list=False)
        charges.append((policy.cost(spend.terms), other.cost(spend.terms)))
        assert [each.objection(spend.terms) for each in (policy, other)] == [None, None]
    assert charges[0] == charges[1]


def test_limits_count_every_value():
    """At this rate one round of one value is within the bounds, and three are not."""
    tight = Policy(max_epsilon=EPSILON, max_delta=DELTA * 0.9)
    terms = Terms(1, 1, THRESHOLD, 1 << 32, 1 << 28, 1 << 32)
    assert tight.objection(terms) is None
    for changes in ({"rounds": TIMES}, {"contributions": TIMES}):
        assert tight.objection(msgspec.structs.replace(terms, **changes)) == "limit"


def test_a_query_does_not_change_its_contributions():
    core = device()
    plans = [Plan(RATE, 14, 1.0, 1e-8, "replace", 3, number) for number in (2, 1)]
    assert answered(core, configuration(plan=plans[0])) == ["round-0"]
    assert answered(core, configuration("round-1", plan=plans[1], index=1)) == []
    assert core.outcome("round-1").reason == "terms"
    assert answered(core, configuration("round-2", plan=plans[0], index=1)) == ["round-2"]


@pytest.mark.slow
def test_states_from_before_contributions_are_read_and_count(tmp_path):
    path, policy = tmp_path / "device.json", Policy(period_epsilon=0.25)
    rates = [1 << 32, 1 << 28, 1 << 32]
    old = {"epsilon": 1.0, "delta": 1e-8, "terms": [RATE, 12, 3, *rates], "indexes": [0], "time": 1_000_000.0}
    content = {"token": "thresher-device-1", "rounds": {}, "spends": {"fleet/query-0": old}, "version": 1}
    path.write_text(json.dumps(content))
    core = device(policy=policy, state=FileState(path))
    assert spends_of(core)["fleet/query-0"].terms == Terms(3, 1, 12, *rates)
    assert answered(core, configuration("round-1", index=1)) == ["round-1"]  # the same query, charged once
    assert answered(core, configuration("round-2", query="query-2")) == []  # the budget is used up
    content["spends"]["fleet/query-0"]["contributions"] = 3
    path.write_text(json.dumps(content))
    assert FileState(path).load().spends["fleet/query-0"] == Spend(Terms(3, 3, 12, *rates), (0,), 1_000_000.0)


def test_a_policy_limits_how_many_values_count(tmp_path):
    eleven = Plan(1 / 64, 14, 1.0, 1e-8, "replace", 1, 11)
    core = device(policy=Policy())
    assert take(core, shown(configuration(plan=eleven))) == []
    assert core.outcome("round-0").reason == "contributions"
    assert answered(device(policy=Policy(max_contributions=11)), configuration(plan=eleven)) == ["round-0"]
    single = device(policy=Policy(max_contributions=1))
    assert answered(single, configuration()) == ["round-0"]
    assert answered(single, configuration("round-1", query="q", plan=VALUES)) == []
    (tmp_path / "policy.json").write_text('{"max_contributions": 2}')
    assert read_policy(tmp_path / "policy.json").max_contributions == 2
    for wrong in (0, 1.5, "3", 1_001):
        with pytest.raises(InvalidSetting) as caught:
            Policy(max_contributions=wrong)
        assert caught.value.setting == "max_contributions"


# Servers


def test_analysts_are_warned_of_the_policy_and_of_what_devices_have_spent(tmp_path):
    asked = admit(QueryRequest(name="a", query=histogram(VALUES).to_dict(), settings=RoundSettings()))
    [caution] = cautions(asked, Public(10**6, Policy(max_contributions=2)))
    assert caution.code == "policy" and "it counts more than 2 values of a device" in caution.text
    charges = []
    for name, plan in (("values", VALUES), ("rounds", ROUNDS)):
        ledger = Ledger(tmp_path / f"{name}.db", epsilon=20, delta=1e-4)
        ledger.reserve(plan, "tags", unit=DEVICE, drawn=plan.rounds)
        [entry] = ledger.history()
        charges.append(charged_to_devices(Policy(), entry, plan.rounds))
    assert charges[0] == charges[1] > 0


@pytest.mark.slow
def test_previews_queries_and_rebuilt_ledgers(tmp_path):
    previews, entries, rebuilt = [], [], []
    for name, plan in (("values", VALUES), ("rounds", ROUNDS)):
        directory = tmp_path / name
        directory.mkdir()
        server = Server(directory, ["yes"] * 3_000)
        query = histogram(VALUES) if plan == VALUES else HeavyHittersQuery("word", ROUNDS, "trie", 1)
        request = QueryRequest(name="a", query=query.to_dict(), settings=RoundSettings(seconds=MINUTE))
        preview = server.coordinator.preview(request)
        previews.append((preview.cost_epsilon, preview.takes, float(preview.affords)))
        assert preview.contributions == plan.contributions
        id = server.coordinator.submit(request, "analyst").id
        [entry] = server.ledger.history()
        entries.append(total(entry.charge))
        fresh = Ledger(directory / "rebuilt.db", epsilon=server.ledger.epsilon, delta=server.ledger.delta)
        assert rebuild(server.store, fresh).entered == 1
        rebuilt.append(total(fresh.history()[0].charge))
        assert fresh.history()[0].contributions == plan.contributions
        status = server.coordinator.status(id)
        assert status.guarantees.values.analyst.contributions == plan.contributions
        assert server.coordinator.ledger_view().charges[0].contributions == plan.contributions
    same(*previews)
    same(*entries)
    same(*rebuilt)


@pytest.mark.slow
def test_series_of_a_fleet(tmp_path):
    entries = []
    for name, rounds, contributions in (("values", 1, TIMES), ("rounds", TIMES, 1)):
        directory = tmp_path / name
        directory.mkdir()
        server = Server(directory, ["yes"] * 3_000)
        plans = plan_series(1.0, 1e-6, releases=4, rounds=rounds, contributions=contributions)
        query = histogram(plans.release) if rounds == 1 else HeavyHittersQuery("word", plans.release, "trie", 1)
        request = SeriesRequest(
            name="weekly",
            query=query.to_dict(),
            epsilon=1.0,
            delta=1e-6,
            schedule=ScheduleRequest(every="week", releases=4),
            settings=RoundSettings(seconds=MINUTE),
        )
        preview = server.coordinator.series.preview(request)
        assert preview.release.contributions == contributions
        status = server.coordinator.series.create(request, "analyst")
        assert status.total.contributions == status.each.contributions == contributions
        server.coordinator.step()
        [entry] = server.ledger.history()
        assert (entry.rounds, entry.contributions) == (4 * rounds, contributions)
        fresh = Ledger(directory / "rebuilt.db", epsilon=server.ledger.epsilon, delta=server.ledger.delta)
        rebuild(server.store, fresh)
        same(total(fresh.history()[0].charge), total(entry.charge))
        entries.append((*total(entry.charge), preview.takes))
    same(*entries)


def test_what_a_configuration_states_for_fewer_values_is_not_believed():
    """An aggregator does not take the guarantee of one value for that of three; a device does not look at it."""
    honest = configuration(plan=VALUES, sampled_by="aggregator")
    check_configuration(honest)
    shared, cheap = rates.share(ONE, 1.0, "aggregator")
    cheap = replace(cheap, delta=cheap.verify())
    stated = GuaranteesStated.of(Stated.of(cheap, shared))
    claimed = replace(cheap, contributions=TIMES)
    assert not holds(claimed, shared, stated)
    lying = msgspec.structs.replace(honest, plan=claimed.to_dict(), guarantees=stated)
    with pytest.raises(InvalidFormat):
        check_configuration(lying)
    core = device()
    assert take(core, shown(lying)) == ["round-0"]
    [spend] = spends_of(core).values()
    assert spend.terms.contributions == TIMES


def test_the_contact_coin_is_no_coin_for_several_values():
    """It is one coin for all of a device's values, which the promise for p does not cover: refused at every door."""
    query = histogram(VALUES).to_dict()
    with pytest.raises(InvalidSetting) as caught:
        admit(QueryRequest(name="a", query=query, settings=RoundSettings(contact_rate=0.5)))
    assert caught.value.setting == "contact_rate"
    contacted = Rates(1 << 31, 1 << 29, 1 << 32)
    assert contacted.sampling_rate == VALUES.exact_rate
    with pytest.raises(InvalidSetting):
        Guarantees.of(VALUES, contacted)
    honest = configuration(plan=VALUES)
    lying = msgspec.structs.replace(honest, contact_rate=1 << 31, device_rate=1 << 29)
    assert lying.rates == contacted
    core = device(policy=Policy(hide_from_contact_list=False))
    assert take(core, shown(lying)) == []
    with pytest.raises(InvalidFormat):
        check_configuration(lying)
    release = Release.of(["a"], [20], VALUES, private=True, response=Response(900, 450, 400, contacted), unit=DEVICE)
    with pytest.raises(VerificationFailed, match="No round of this plan can have had these coins"):
        release.response.verify(VALUES)
    assert take(device(), shown(honest)) == ["round-0"]


def test_reports_stay_within_their_limit():
    many = Plan(1 / 1024, 20, 1.0, 1e-6, "replace", 1, 429)
    with pytest.raises(InvalidSetting, match="at most 428 where bucket_size is 64") as caught:
        admit(QueryRequest(name="a", query=histogram(many).to_dict(), settings=RoundSettings()))
    assert caught.value.setting == "contributions"
    with pytest.raises(InvalidSetting, match="at most 11 where bucket_size is 4096"):
        admit(QueryRequest(name="a", query=histogram(many).to_dict(), settings=RoundSettings(bucket_size=4096)))
    assert 428 * 112 <= LARGEST_REPORT < 429 * 112
    with pytest.raises(InvalidFormat):
        check_configuration(configuration(plan=many))
    rounds = Plan(1 / 1024, 20, 1.0, 1e-6, "replace", 501, 2)
    with pytest.raises(InvalidSetting, match="times 501 rounds must be at most 1,000") as caught:
        rates.share(rounds)
    assert caught.value.setting == "contributions"


# What is written


def test_one_contribution_is_written_as_before():
    before = configuration()
    assert b"contributions" not in canonical(before)
    shared, exact = rates.share(ONE)
    stated = Stated.of(exact, shared)
    assert b"contributions" not in encode(stated) and decode(Stated, encode(stated)) == stated
    release = Release.of(["a"], [20], ONE, private=True, unit=DEVICE)
    assert "contributions" not in release.to_json()


def test_several_are_on_the_wire_in_previews_and_on_the_certificate():
    several = configuration(plan=VALUES)
    assert several.planned.contributions == TIMES
    assert b"contributions" not in canonical(several.guarantees)  # an earlier device could not read its check-in
    shared, exact = rates.share(VALUES)
    stated = Stated.of(exact, shared)
    assert decode(Stated, encode(stated)) == stated
    assert "of up to 3 values a unit" in str(stated.values.analyst)
    release = Release.of(["a"], [20], exact, private=True, response=Response(900, 900, 900, shared), unit=DEVICE)
    assert release.certificate()["contributions"] == TIMES
    again = Release.from_json(release.to_json())
    assert again.plan.contributions == TIMES
    changed = json.loads(release.to_json())
    changed["certificate"]["contributions"] = 1
    with pytest.raises(VerificationFailed):
        Release.from_json(json.dumps(changed))
    Release.of(["a"], [901], exact, private=True, response=release.response, unit=DEVICE).verify()
    with pytest.raises(VerificationFailed, match="above what the devices that completed can have sent"):
        Release.of(["a"], [2701], exact, private=True, response=release.response, unit=DEVICE).verify()


def test_a_preview_says_how_many_reports_a_device_sends(tmp_path):
    server = Server(tmp_path, ["yes"] * 3_000)
    ask = {"name": "a", "settings": RoundSettings(seconds=MINUTE)}
    preview = server.coordinator.preview(QueryRequest(query=histogram(VALUES).to_dict(), **ask))
    [said] = [words for words in preview.words if "sends" in words]
    assert said.startswith("Each device sends 3 reports; up to 3 of its values are counted.")
    single = server.coordinator.preview(QueryRequest(query=histogram(ONE).to_dict(), **ask))
    assert single.contributions == 1 and not any("sends" in words for words in single.words)

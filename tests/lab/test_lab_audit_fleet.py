"""The audit over real HTTP: a server process, a device for every unit of every trial."""

import pytest

from thresher.errors import InvalidSetting
from thresher.lab.audit import audit
from thresher.lab.audit.fleet_path import FromFleet

ALPHA = 1e-6  # chance that a right mechanism is called wrong


def attack():
    return audit(0.5, 2, 0.5, paths=["fleet"], trials=1000, confidence=1 - ALPHA)


@pytest.mark.slow
def test_the_fleet_keeps_its_claim_and_the_attack_comes_close():
    """The aggregator tosses: the other devices, all of which report, are what an attacker would enrol."""
    [finding] = attack().findings
    assert not finding.violation
    # 1000 trials tell 0.25 from 0.11 at this confidence: 0.14 = 4.9 standard errors on either side.
    assert finding.delta_lower > 0.4 * finding.claimed_delta


@pytest.mark.slow
def test_injected_devices_are_found_where_devices_toss_the_coins():
    """Enrolled devices that skip their coins lift one person's value to the threshold: delta is that person's coin."""
    drawn = FromFleet(3000, "device", injected=True)
    [finding] = audit(0.5, 2, 0.5, mechanism=drawn, trials=1000, confidence=1 - ALPHA).findings
    assert finding.violation


def test_the_fleet_is_audited_for_what_it_promises():
    for given in ({"adjacency": "add-remove"}, {"rounds": 2}):
        with pytest.raises(InvalidSetting, match="fleet"):
            audit(0.5, 2, 0.5, paths=["fleet"], trials=1000, **given)

"""The audit over real HTTP: a server process, a device for every unit of every trial."""

import numpy as np
import pytest

from thresher.errors import InvalidSetting
from thresher.fleet import device_core
from thresher.lab.audit import audit

ALPHA = 1e-6  # chance that a right mechanism is called wrong


def attack():
    return audit(0.5, 2, 0.5, paths=["fleet"], trials=1000, confidence=1 - ALPHA)


@pytest.mark.slow
def test_the_fleet_keeps_its_claim_and_the_attack_comes_close():
    [finding] = attack().findings
    assert not finding.violation
    # 1000 trials tell 0.25 from 0.11 at this confidence: 0.14 = 4.9 standard errors on either side.
    assert finding.delta_lower > 0.4 * finding.claimed_delta


@pytest.mark.slow
def test_devices_that_skip_their_coins_are_found(monkeypatch):
    """Negative control: every device reports what it holds."""
    monkeypatch.setattr(device_core, "coin", lambda rate, randomness: np.bool_(True))
    [finding] = attack().findings
    assert finding.violation


def test_the_fleet_is_audited_for_what_it_promises():
    for given in ({"adjacency": "add-remove"}, {"rounds": 2}):
        with pytest.raises(InvalidSetting, match="fleet"):
            audit(0.5, 2, 0.5, paths=["fleet"], trials=1000, **given)

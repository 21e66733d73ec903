"""The secure source is the keystream it claims to be, is never shared, and the seeded one is marked."""

from __future__ import annotations

import copy
import hmac
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from thresher.errors import InvalidSetting
from thresher.mechanism.randomness import KeyedRandomness, SecureRandomness
from thresher.testing import SeededRandomness

ALPHA = 1e-9  # false alarm per check


def octets(source, number: int) -> bytes:
    buffer = np.zeros(number, dtype=np.uint8)
    source.fill(buffer)
    return buffer.tobytes()


def counter_blocks(key: bytes, number: int) -> bytes:
    """Counter mode by its definition: every counter value encrypted as a block of its own."""
    block_cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return block_cipher.update(b"".join(counter.to_bytes(16, "big") for counter in range(number)))


def test_fill_is_the_keystream_without_gaps_or_repeats(monkeypatch):
    key = bytes(range(32))
    monkeypatch.setattr(os, "urandom", lambda size: key[:size])
    source = SecureRandomness()
    lengths = [0, 5, 16, 1, 300_000, 0, 600_001, 3]  # odd ends, and more than one chunk
    drawn = b"".join(octets(source, length) for length in lengths)
    assert drawn == counter_blocks(key, 60_000)[: sum(lengths)]


def test_a_place_has_its_own_keystream_and_the_same_one_again():
    secret = KeyedRandomness.new_secret()
    assert len(secret) == 32
    key = hmac.new(secret, (7).to_bytes(8, "big"), "sha256").digest()
    drawn = octets(KeyedRandomness(secret, 7), 300_000)
    assert drawn == counter_blocks(key, 20_000)[:300_000]
    assert drawn == octets(KeyedRandomness(secret, 7), 300_000)
    others = [KeyedRandomness(secret, 8), KeyedRandomness(KeyedRandomness.new_secret(), 7)]
    assert len({drawn[:32], *(octets(other, 32) for other in others)}) == 3


@pytest.mark.parametrize("source", [SecureRandomness(), SeededRandomness(3)], ids=["secure", "seeded"])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_every_width_is_filled_to_the_last_element(source, kind):
    buffer = np.zeros((257, 4), dtype=kind)
    source.fill(buffer)
    assert len({row.tobytes() for row in buffer}) > 250  # 257 rows of at least 32 random bits
    strided = np.zeros(16, dtype=kind)[::2]
    with pytest.raises(InvalidSetting, match="contiguous"):
        source.fill(strided)
    assert not strided.any()


def bit_balance_p_value(words: np.ndarray) -> float:
    """The least p-value, over the 64 bit positions, of 'half of the words have this bit'; times 64."""
    ones = [int(np.count_nonzero(words >> np.uint64(bit) & np.uint64(1))) for bit in range(64)]
    return min(1.0, 64 * min(stats.binomtest(count, len(words), 0.5).pvalue for count in ones))


@pytest.mark.slow
@pytest.mark.parametrize("source", [SecureRandomness(), SeededRandomness(4)], ids=["secure", "seeded"])
def test_every_bit_position_is_balanced(source):
    words = np.zeros(200_000, dtype=np.uint64)
    source.fill(words)
    assert bit_balance_p_value(words) > ALPHA
    tampered = words.copy()
    tampered[::10] |= np.uint64(1 << 17)  # one position of 64 has 55% ones: 45 standard errors
    assert bit_balance_p_value(tampered) < ALPHA


def test_two_instances_differ():
    assert octets(SecureRandomness(), 32) != octets(SecureRandomness(), 32)


FORKS = """
import os, sys
import numpy as np
from thresher.mechanism.randomness import SecureRandomness

def draw():
    buffer = np.zeros(32, dtype=np.uint8)
    source.fill(buffer)
    return buffer.tobytes()

def child(fork_again):
    reader, writer = os.pipe()
    if os.fork() == 0:
        drawn = child(False) if fork_again else []
        os.write(writer, b"".join([*drawn, draw()]))
        os._exit(0)
    os.close(writer)
    os.wait()
    drawn = os.read(reader, 4096)
    return [drawn[start:start + 32] for start in range(0, len(drawn), 32)]

if sys.argv[1] == "blind":
    os.getpid = lambda: 1
source = SecureRandomness()
draws = [draw(), *child(False), *child(False), *child(True), draw()]
print(len(draws), len(set(draws)))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_children_of_a_fork_share_no_bits_with_anyone():
    def outcome(mode: str) -> str:
        # A process of its own: forking the test runner, which may have threads, is not safe.
        done = subprocess.run(
            [sys.executable, "-c", FORKS, mode], capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.strip()

    assert outcome("sighted") == "6 6"  # before, two children, a grandchild and its parent, after
    assert outcome("blind") == "6 2"  # the negative control: without the process id, all five repeat


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_the_secure_source_cannot_be_duplicated(duplicate):
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        duplicate(SecureRandomness())


def test_the_key_is_not_shown(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda size: b"K" * size)
    source = SecureRandomness()
    assert repr(source) == str(source) == "SecureRandomness()"
    assert not hasattr(source, "__dict__")
    assert all(not isinstance(getattr(source, name), bytes) for name in SecureRandomness.__slots__)


def test_a_seed_repeats_and_is_marked():
    assert octets(SeededRandomness(1), 100) == octets(SeededRandomness(np.int32(1)), 100)
    assert octets(SeededRandomness(1), 100) != octets(SeededRandomness(2), 100)
    assert SecureRandomness().private is True
    assert SeededRandomness(1).private is False
    for source in (SecureRandomness(), SeededRandomness(1)):
        with pytest.raises(AttributeError):
            source.private = True


@pytest.mark.parametrize("seed", [None, True, -1, 1.0, "1", float("nan")])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(InvalidSetting, match="seed") as refused:
        SeededRandomness(seed)
    assert refused.value.setting == "seed"
    assert refused.value.hint

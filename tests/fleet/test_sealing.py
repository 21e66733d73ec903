"""Sealing: the standard's own numbers, and nothing opens that was not sealed so."""

from __future__ import annotations

import pickle

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from thresher.errors import InvalidFormat
from thresher.protocol.sealing import OVERHEAD, PrivateKey, PublicKey, SealBroken, key_id_of, open_sealed, seal

KEY = PrivateKey.generate()
OTHER = PrivateKey.generate()


def test_opens_what_rfc_9180_seals():
    """Provenance: RFC 9180, appendix A.1.1 (X25519, HKDF-SHA256, AES-128-GCM, base mode), sequence number 0.

    The RFC's ciphertexts have associated data, "Count-0", and ours has none, so the last step, AES-128-GCM, is here
    done with the RFC's own `key` and `base_nonce`. Key exchange and key schedule, which lead there, are tested.
    """
    private = PrivateKey.from_bytes(
        "rfc", bytes.fromhex("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8")
    )
    assert private.public.raw.hex() == "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d"
    exchanged = bytes.fromhex("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431")
    info = bytes.fromhex("4f6465206f6e2061204772656369616e2055726e")
    cipher = AESGCM(bytes.fromhex("4531685d41d65f03dc48f6b8302c05b0"))
    nonce = bytes.fromhex("56d890e5accaaf011cff4b7d")
    plaintext = bytes.fromhex("4265617574792069732074727574682c20747275746820626561757479")
    assert cipher.encrypt(nonce, plaintext, b"Count-0").hex() == (
        "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
    )
    assert open_sealed(exchanged + cipher.encrypt(nonce, plaintext, b""), private, info) == plaintext


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=300), st.binary(max_size=64))
def test_what_is_sealed_opens_and_has_a_fixed_overhead(plaintext, info):
    sealed = seal(plaintext, KEY.public, info)
    assert len(sealed) == len(plaintext) + OVERHEAD
    assert open_sealed(sealed, KEY, info) == plaintext


def test_sealing_twice_gives_unlike_bytes():
    first, second = (seal(b"the same", KEY.public, b"info") for _ in range(2))
    assert first[:32] != second[:32]
    assert first[32:] != second[32:]


def test_opens_under_its_own_key_and_info_only():
    sealed = seal(b"value", KEY.public, b"configuration one")
    with pytest.raises(SealBroken):
        open_sealed(sealed, OTHER, b"configuration one")
    with pytest.raises(SealBroken):
        open_sealed(sealed, KEY, b"configuration two")


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_any_changed_bit_breaks_the_seal(data):
    sealed = bytearray(seal(b"value", KEY.public, b"info"))
    # The top bit of an X25519 public key is ignored by RFC 7748, but HPKE hashes the bytes: it breaks the seal too.
    bit = data.draw(st.integers(0, len(sealed) * 8 - 1))
    sealed[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(SealBroken):
        open_sealed(bytes(sealed), KEY, b"info")


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=200))
def test_bytes_that_nobody_sealed_are_one_kind_of_error(garbage):
    with pytest.raises(SealBroken) as caught:
        open_sealed(garbage, KEY, b"info")
    assert isinstance(caught.value, InvalidFormat)


@pytest.mark.parametrize("length", [0, 1, 31, 32, 47, 48, 112])
def test_zeros_do_not_open(length):
    with pytest.raises(SealBroken):
        open_sealed(bytes(length), KEY, b"info")


def test_a_key_of_low_order_is_refused():
    with pytest.raises(InvalidFormat):
        seal(b"value", PublicKey("low", bytes(32)), b"info")


def test_keys_of_the_wrong_length_are_refused():
    with pytest.raises(InvalidFormat):
        PublicKey("short", bytes(31))
    with pytest.raises(InvalidFormat):
        PrivateKey.from_bytes("long", bytes(33))


def test_a_private_key_is_restored_from_its_bytes():
    again = PrivateKey.from_bytes(KEY.key_id, KEY.to_bytes())
    assert again.public == KEY.public
    assert open_sealed(seal(b"value", KEY.public, b""), again, b"") == b"value"


def test_a_key_is_named_after_its_public_half_unless_named():
    assert KEY.key_id == key_id_of(KEY.public.raw) != OTHER.key_id
    assert PrivateKey.generate("mine").key_id == "mine"


def test_a_private_key_shows_no_secret_and_does_not_travel():
    secret = KEY.to_bytes()
    shown = repr(KEY) + str(KEY)
    assert secret.hex() not in shown
    assert repr(secret)[2:-1] not in shown
    assert "X25519" not in shown
    with pytest.raises(TypeError):
        pickle.dumps(KEY)

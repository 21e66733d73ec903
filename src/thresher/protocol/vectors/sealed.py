"""Vectors for sealing: reports that open to known plaintexts, and some that must not open.

Random bytes would make every run another file. So these are sealed with fixed keys in place of fresh ones, by a second
implementation of RFC 9180 that is here for this alone: a device must never seal twice with one key.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from thresher.privacy.plans import Plan
from thresher.protocol.plaintext import decoy, encode_bucket
from thresher.protocol.readable import configuration_hash
from thresher.protocol.vectors.example_rounds import KEY, PLAN, SECRET, bytes_of, content, example
from thresher.questions import Bins, Values

_KEM_SUITE = b"KEM" + (0x0020).to_bytes(2, "big")
_SUITE = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (0x0020, 0x0001, 0x0001))


def sealed() -> list[dict[str, Any]]:
    """Reports of one piece and of three, of several sizes, and reports that do not open."""
    one = example()
    spaced = json.dumps(content(), indent=1)
    accents = example(question=Values(("naïve",))).text
    several = example(plan=Plan(PLAN.sampling_rate, PLAN.threshold, 1.0, 1e-8, "replace", 1, 3))
    other_public = X25519PrivateKey.from_private_bytes(bytes_of("another key")).public_key().public_bytes_raw()
    other_key = one.text.replace(KEY.public.raw.hex(), other_public.hex())
    word, ages = one.asked, Bins("age", (0.0, 18.0, 65.0))
    good = [
        _vector("a value", one.text, [_bucket(word, "fr", 64)]),
        _vector("a decoy", one.text, [_decoy(64, 1)]),
        _vector("empty text", one.text, [_bucket(word, "", 64)]),
        _vector("text that is not ASCII", one.text, [_bucket(word, "日本", 64)]),
        _vector("the longest text that fits", one.text, [_bucket(word, "x" * 58, 64)]),
        _vector("a configuration with spaces", spaced, [_bucket(word, "fr", 64)]),
        _vector("a configuration that is not ASCII", accents, [_bucket(word, "fr", 64)]),
        _vector("the smallest plaintext", example(bucket_size=48).text, [_bucket(word, "fr", 48)]),
        _vector("the largest plaintext", example(bucket_size=4096).text, [_bucket(word, "fr", 4096)]),
        _vector("a number", example(question=ages).text, [_bucket(ages, 18.0, 64)]),
        _vector("another key", other_key, [_bucket(word, "fr", 64)], bytes_of("another key")),
        _vector("three values", several.text, [_bucket(word, each, 64) for each in ("fr", "at", "de")]),
        _vector("a value and two decoys", several.text, [_decoy(64, 2), _bucket(word, "fr", 64), _decoy(64, 3)]),
        _vector("three decoys", several.text, [_decoy(64, number) for number in (4, 5, 6)]),
    ]
    return good + list(_broken(good[0], spaced))


def _broken(good: dict[str, Any], other: str) -> list[dict[str, Any]]:
    """The first vector with one thing changed: an aggregator gets nothing out of it."""
    raw = bytes.fromhex(good["sealed"])
    changed = {
        "another configuration": good | {"text": other, "hash": configuration_hash(other).hex()},
        "a configuration with a blank behind it": good
        | {"text": good["text"] + " ", "hash": configuration_hash(good["text"] + " ").hex()},
        "another private key": good | {"private_key": bytes_of("another key").hex()},
        "the first byte changed": good | {"sealed": bytes([raw[0] ^ 1, *raw[1:]]).hex()},
        "the first byte of the ciphertext changed": good
        | {"sealed": (raw[:32] + bytes([raw[32] ^ 1]) + raw[33:]).hex()},
        "the last byte changed": good | {"sealed": bytes([*raw[:-1], raw[-1] ^ 128]).hex()},
        "a byte less": good | {"sealed": raw[:-1].hex()},
        "a byte more": good | {"sealed": (raw + b"\0").hex()},
    }
    kept = ("private_key", "text", "hash", "sealed")
    return [
        {"what": what, **{name: vector[name] for name in kept}, "plaintexts": None} for what, vector in changed.items()
    ]


def _vector(what: str, text: str, plaintexts: Sequence[bytes], secret: bytes = SECRET) -> dict[str, Any]:
    info = configuration_hash(text)
    public = X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
    fresh = [bytes_of(f"{what} {number}") for number, _ in enumerate(plaintexts)]
    pieces = [seal_with(plain, public, info, each) for plain, each in zip(plaintexts, fresh, strict=True)]
    return {
        "what": what,
        "private_key": secret.hex(),
        "public_key": public.hex(),
        "text": text,
        "hash": info.hex(),
        "plaintexts": [plain.hex() for plain in plaintexts],
        "ephemeral_keys": [each.hex() for each in fresh],
        "sealed": b"".join(pieces).hex(),
    }


def _bucket(question: Any, value: Any, size: int) -> bytes:
    padded = encode_bucket(question, value, size)
    assert padded is not None, "the values of vectors fit"
    return padded


def _decoy(size: int, number: int) -> bytes:
    return decoy(size, lambda length: bytes_of(f"decoy {number}")[:length])


def seal_with(plaintext: bytes, public: bytes, info: bytes, ephemeral: bytes) -> bytes:
    """HPKE, base mode, single shot (RFC 9180, section 6.1), with a sender's key that is given: for vectors alone."""
    sender = X25519PrivateKey.from_private_bytes(ephemeral)
    enc = sender.public_key().public_bytes_raw()
    shared = sender.exchange(X25519PublicKey.from_public_bytes(public))
    secret = _extract_and_expand(shared, enc + public)
    context = b"\0" + _extract(_SUITE, b"", b"psk_id_hash", b"") + _extract(_SUITE, b"", b"info_hash", info)
    whole = _extract(_SUITE, secret, b"secret", b"")
    key = _expand(_SUITE, whole, b"key", context, 16)
    nonce = _expand(_SUITE, whole, b"base_nonce", context, 12)
    return enc + AESGCM(key).encrypt(nonce, plaintext, b"")


def _extract_and_expand(shared: bytes, context: bytes) -> bytes:
    return _expand(_KEM_SUITE, _extract(_KEM_SUITE, b"", b"eae_prk", shared), b"shared_secret", context, 32)


def _extract(suite: bytes, salt: bytes, label: bytes, material: bytes) -> bytes:
    """LabeledExtract."""
    mac = hmac.HMAC(salt or bytes(32), hashes.SHA256())
    mac.update(b"HPKE-v1" + suite + label + material)
    return mac.finalize()


def _expand(suite: bytes, key: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """LabeledExpand."""
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return HKDFExpand(hashes.SHA256(), length, labelled).derive(key)

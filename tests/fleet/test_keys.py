"""The aggregator's key files."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from thresher.errors import InvalidFormat, NotFound, StoreUnavailable
from thresher.protocol.sealing import open_sealed, seal
from thresher.roles.aggregator.keys import KeyRing


def test_the_first_key_is_made_once_and_found_again(tmp_path: Path) -> None:
    first = KeyRing(tmp_path / "keys").current()
    again = KeyRing(tmp_path / "keys")
    assert again.current() == first
    assert open_sealed(seal(b"x", first, b"info"), again.get(first.key_id), b"info") == b"x"


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "keys")
    key = ring.current()
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    path = tmp_path / "keys" / f"{key.key_id}.key"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(InvalidFormat, match="read by others"):
        KeyRing(tmp_path / "keys").get(key.key_id)


def test_rotation_keeps_old_keys_until_they_are_retired(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path)
    first, second, third = ring.current(), ring.rotate(), ring.rotate()
    assert ring.current() == third == KeyRing(tmp_path).current()
    assert ring.get(first.key_id).public == first
    assert ring.retire(in_use=[second.key_id]) == [first.key_id]
    for each in (ring, KeyRing(tmp_path)):
        with pytest.raises(NotFound):
            each.get(first.key_id)
        assert each.get(second.key_id).public == second
    assert ring.retire(in_use=[]) == [second.key_id]
    assert ring.retire(in_use=[]) == []
    assert ring.current() == third


def test_a_retired_secret_is_overwritten(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path)
    old = ring.current()
    secret = ring.get(old.key_id).to_bytes().hex()
    # A second name for the same bytes on disk shows what became of them.
    os.link(tmp_path / f"{old.key_id}.key", tmp_path / "witness")
    assert (tmp_path / "witness").read_text().strip() == secret
    ring.rotate()
    ring.retire(in_use=[])
    assert not (tmp_path / "witness").read_bytes().strip(b"\0")


def test_rotating_after_more_than_nine_keys_still_takes_the_newest(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path)
    made = [ring.rotate() for _ in range(12)]
    assert KeyRing(tmp_path).current() == made[-1]


@pytest.mark.parametrize("key_id", ["../secret", "k000001-0000000g", "", "k000001-00000000", "/etc/passwd"])
def test_an_id_from_outside_names_no_file(tmp_path: Path, key_id: str) -> None:
    (tmp_path / "secret.key").write_text("00" * 32)
    ring = KeyRing(tmp_path / "keys")
    with pytest.raises(NotFound) as caught:
        ring.get(key_id)
    assert "secret" not in str(caught.value)


def test_secrets_are_in_no_representation(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path)
    key = ring.get(ring.current().key_id)
    secret = key.to_bytes()
    for shown in (repr(ring), repr(key), str(vars(ring))):
        assert secret.hex() not in shown
        assert repr(secret) not in shown
    with pytest.raises(TypeError):
        pickle.dumps(key)


@pytest.mark.parametrize("content", ["", "00", "zz" * 32, "é" * 32])
def test_a_damaged_file_is_an_error_without_its_content(tmp_path: Path, content: str) -> None:
    key = KeyRing(tmp_path).current()
    (tmp_path / f"{key.key_id}.key").write_text(content, encoding="utf-8")
    with pytest.raises(InvalidFormat) as caught:
        KeyRing(tmp_path).get(key.key_id)
    assert not content or content not in str(caught.value)


def test_a_directory_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable):
        KeyRing(tmp_path / "file" / "keys")

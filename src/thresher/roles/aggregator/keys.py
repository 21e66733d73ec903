"""The aggregator's private keys, one file each. The newest is current; old ones stay until no round needs them."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from thresher.errors import InvalidFormat, NotFound, StoreUnavailable
from thresher.files import shred, write_whole
from thresher.protocol.sealing import PrivateKey, PublicKey

_KEY_ID = re.compile(r"k(\d{6})-[0-9a-f]{8}")


class KeyRing:
    """Private keys in a directory that only its owner can read.

    A key's name is a serial number and a random part, so that two keys that are made at the same time have different
    names; the highest name is current. A new key is durable before its name is given out.

    Guarantee: no secret is in a repr or in an error.
    Edge cases: a key file that others may read is refused, since its secret may be known already.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._lock = threading.Lock()
        self._known: dict[str, PrivateKey] = {}
        with _files():
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def current(self) -> PublicKey:
        """The public half that new rounds use; the first call makes a key."""
        with self._lock:
            names = self._names()
            return (self._load(names[-1]) if names else self._make(1)).public

    def rotate(self) -> PublicKey:
        """Make a new key, which is current from now on. Rounds that are open keep theirs."""
        with self._lock:
            names = self._names()
            return self._make(_serial(names[-1]) + 1 if names else 1).public

    def get(self, key_id: str) -> PrivateKey:
        """The private half of a key; `NotFound` if it was never here or has been retired."""
        with self._lock:
            return self._load(key_id)

    def retire(self, in_use: Collection[str]) -> list[str]:
        """Delete every private half but the current one and those in use; returns which.

        Guarantee: the file is overwritten before it is removed. Copies that a file system or a backup made are out of
        reach.
        """
        with self._lock:
            retired = [name for name in self._names()[:-1] if name not in in_use]
            with _files():
                for name in retired:
                    self._known.pop(name, None)
                    shred(self._path(name))
            return retired

    def _names(self) -> list[str]:
        """All key ids, oldest first."""
        with _files():
            return sorted(path.stem for path in self._directory.glob("*.key") if _KEY_ID.fullmatch(path.stem))

    def _path(self, key_id: str) -> Path:
        return self._directory / f"{key_id}.key"

    def _make(self, serial: int) -> PrivateKey:
        key = PrivateKey.generate(f"k{serial:06d}-{secrets.token_hex(4)}")
        with _files():
            write_whole(self._path(key.key_id), key.to_bytes().hex() + "\n")  # made with mode 0600
        self._known[key.key_id] = key
        return key

    def _load(self, key_id: str) -> PrivateKey:
        if key_id in self._known:
            return self._known[key_id]
        # The pattern also keeps an id from another machine from naming a file outside of the directory.
        if not _KEY_ID.fullmatch(key_id) or not self._path(key_id).exists():
            raise NotFound("This aggregator does not hold that key.", hint="It was retired, or belongs to another.")
        path = self._path(key_id)
        try:
            with _files():
                if path.stat().st_mode & 0o077:
                    raise InvalidFormat(
                        "A key file can be read by others.", hint="Rotate the key; keep files at mode 600."
                    )
                key = PrivateKey.from_bytes(key_id, bytes.fromhex(path.read_text(encoding="ascii")))
        except ValueError:
            raise InvalidFormat("A key file is damaged.", hint="Restore it from a backup, or rotate.") from None
        self._known[key_id] = key
        return key

    def __repr__(self) -> str:
        return f"KeyRing({len(self._names())} keys)"


def _serial(key_id: str) -> int:
    found = _KEY_ID.fullmatch(key_id)
    assert found is not None
    return int(found[1])


@contextmanager
def _files() -> Iterator[None]:
    """What the file system refuses becomes `StoreUnavailable`."""
    try:
        yield
    except OSError as error:
        reason = f"The directory of keys cannot be used: {error.strerror}."
        raise StoreUnavailable(reason, hint="Check it and try again.") from None

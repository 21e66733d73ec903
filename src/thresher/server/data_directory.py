"""Where a server keeps its state and secrets, and who may read them: its owner, nobody else.

    DIR/                     mode 0700; every file 0600
      lock                   held by the process that runs here
      operator.token         opens the operator's and the analyst's routes
      analyst.token          coordinator: opens the analyst's routes
      enrolment.key          collector: enrols devices
      collector/             collector.db, coordinator.key, store.id
      aggregator/            aggregator.db, keys/ (private keys), batches/ (for Spark), coordinator.key, collector.key,
                             store.id
      coordinator/           coordinator.db, ledger.db, store.id

A server that runs one role has that role's files only. The `.key` files of a role are what its peers must show; the
operator copies each to the machine of the peer it is named after. `store.id` says which store the role uses (see
`role_stores`). Everything is made on the first start, each file whole and durable before its path is told to anybody.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from thresher.errors import InvalidSetting, StoreUnavailable
from thresher.files import write_whole
from thresher.roles.tokens import new_token
from thresher.server.auth import COLLECTOR_TO_AGGREGATOR, COORDINATOR_TO_AGGREGATOR, COORDINATOR_TO_COLLECTOR, kind_of

ROLES = ("collector", "aggregator", "coordinator")

# file, kind of token, role that needs it (None: all)
_SECRETS: tuple[tuple[str, str, str | None], ...] = (
    ("operator.token", "operator", None),
    ("analyst.token", "analyst", "coordinator"),
    ("enrolment.key", "enrolment", "collector"),
    ("collector/coordinator.key", COORDINATOR_TO_COLLECTOR, "collector"),
    ("aggregator/coordinator.key", COORDINATOR_TO_AGGREGATOR, "aggregator"),
    ("aggregator/collector.key", COLLECTOR_TO_AGGREGATOR, "aggregator"),
)


@dataclass(frozen=True, slots=True)
class Secret:
    """A token in a file of the data directory."""

    path: Path
    kind: str
    token: str
    new: bool
    """Made by this start."""

    def __repr__(self) -> str:
        return f"Secret({self.path.name}, {self.kind})"


class DataDirectory:
    """An open data directory: locked for this process, its secrets made and read.

    Guarantee: two processes never run in one directory. The lock ends with the process, however that ends.
    Edge cases: a directory or a secret that others can read is refused and not repaired, since it may have been read.
    """

    def __init__(self, path: str | Path, roles: Iterable[str]) -> None:
        self.path = Path(path).absolute()
        self.roles = frozenset(roles)
        unknown = self.roles - set(ROLES)
        if unknown or not self.roles:
            raise InvalidSetting("role", f"must be one or more of {', '.join(ROLES)}, or all")
        try:
            self._open()
        except OSError as error:
            raise StoreUnavailable(
                f"The data directory {self.path} cannot be used: {error.strerror}.",
                hint="Check the path, its owner and the space left.",
            ) from None

    def _open(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not any(self.path.iterdir()):
            self.path.chmod(0o700)  # nothing was here that others could have read
        _check_private(self.path)
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise InvalidSetting(
                "data-dir",
                f"{str(self.path)!r} is in use by another process",
                hint="Stop that server, or choose another directory.",
            ) from None
        try:
            for role in sorted(self.roles):
                self.of(role).mkdir(mode=0o700, exist_ok=True)
                _check_private(self.of(role))
            self.secrets = tuple(
                _secret(self.path / file, kind) for file, kind, role in _SECRETS if role is None or role in self.roles
            )
        except BaseException:
            self.close()
            raise

    def of(self, role: str) -> Path:
        """A role's own directory."""
        return self.path / role

    def secret(self, kind: str) -> Secret:
        """The secret of a kind, which must be one that the roles here need."""
        return next(secret for secret in self.secrets if secret.kind == kind)

    def was_used(self, role: str) -> bool:
        """Whether this directory holds what a role makes after it has opened its store for the first time.

        Edge cases: always False for a collector, which makes nothing. False for a ledger that was put into a new
        directory, whose secrets this start has made.
        """
        kinds = {kind for _, kind, whose in _SECRETS if whose == role}
        made = {"coordinator": "ledger.db", "aggregator": "keys/*", "collector": None}[role]
        return made is not None and not any(self.secret(kind).new for kind in kinds) and any(self.of(role).glob(made))

    @property
    def is_new(self) -> bool:
        """Whether this start made any secret."""
        return any(secret.new for secret in self.secrets)

    def close(self) -> None:
        """Give the lock back."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> DataDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_key_file(path: str | Path) -> tuple[str, str]:
    """Kind and token of a key file that was copied here from a peer."""
    path = Path(path)
    try:
        _check_private(path, "peer-key-file")
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise InvalidSetting(
            "peer-key-file",
            f"{str(path)!r} cannot be read",
            hint="Copy it from the data directory of the server to be called, which makes it on its first start.",
        ) from None
    kind = kind_of(token)
    if kind is None or "-to-" not in kind:
        raise InvalidSetting(
            "peer-key-file",
            f"{str(path)!r} holds no peer key",
            hint="Copy coordinator.key or collector.key from the data directory of the server to be called.",
        )
    return kind, token


def _secret(path: Path, kind: str) -> Secret:
    new = not path.exists()
    if new:
        write_whole(path, new_token(kind) + "\n")
    _check_private(path)
    token = path.read_text(encoding="ascii", errors="replace").strip()
    if kind_of(token) != kind:
        raise InvalidSetting(
            "data-dir",
            f"has a damaged {path.name}",
            hint="Restore it, or delete it to have a new one made.",
        )
    return Secret(path, kind, token, new)


def _check_private(path: Path, setting: str = "data-dir") -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise InvalidSetting(
            setting,
            f"{str(path)!r} can be read by others",
            hint="Run chmod go-rwx on it. If others may have read it, delete its tokens to have new ones made.",
        )

"""Who may enrol, who has enrolled, and who has been seen: the collector's register of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from thresher.fleet.store.database import Database, Transaction, is_name

HOUR = 3600
_DAY = 24
_KEY = "id, name, created, expires, devices, enrolled, revoked"


@dataclass(frozen=True, slots=True)
class EnrolmentKey:
    """A key that devices enrol with; the key itself is not kept."""

    id: str
    name: str
    created: float
    expires: float | None
    devices: int | None
    """How many devices it is for, at most."""
    enrolled: int
    revoked: float | None


@dataclass(frozen=True, slots=True)
class NewDevice:
    """A device that wants to enrol."""

    enrolment_hash: bytes
    device: str
    token_hash: bytes


@dataclass(frozen=True, slots=True)
class Overview:
    """The fleet at a glance."""

    enrolled: int
    active: int
    """Devices that checked in during the last day."""
    check_ins: list[tuple[float, int]]
    """Devices that checked in, by hour of the last day, oldest first; the time is the start of the hour."""


class DeviceRegister:
    """Enrolment keys and devices.

    Guarantee: each method is one transaction, durable when it returns. When a device was last seen is kept to the hour.
    """

    _database: Database

    def identity(self, new: bytes) -> bytes:
        """The secret of this fleet's collectors, which share a database: `new` for the first that asks."""
        with self._database.transaction() as transaction:
            transaction.execute("INSERT INTO identity (id, secret) VALUES (1, ?) ON CONFLICT (id) DO NOTHING", (new,))
            [(secret,)] = transaction.fetch("SELECT secret FROM identity")
            return bytes(secret)

    def add_enrolment_key(
        self,
        id: str,
        key_hash: bytes,
        name: str,
        now: float,
        *,
        expires: float | None = None,
        devices: int | None = None,
    ) -> bool:
        """Let devices enrol with a key; False if the key is known already, and nothing is changed then."""
        with self._database.transaction() as transaction:
            return (
                transaction.execute(
                    "INSERT INTO enrolment_keys (id, key_hash, name, created, expires, devices, enrolled) "
                    "VALUES (?, ?, ?, ?, ?, ?, 0) ON CONFLICT (key_hash) DO NOTHING",
                    (id, key_hash, name, now, expires, devices),
                )
                == 1
            )

    def enrolment_keys(self) -> list[EnrolmentKey]:
        """All keys, oldest first."""
        with self._database.transaction(write=False) as transaction:
            rows = transaction.fetch(f"SELECT {_KEY} FROM enrolment_keys ORDER BY created, id")  # noqa: S608
        return [EnrolmentKey(*row) for row in rows]

    def revoke_enrolment_key(self, id: str, now: float) -> bool:
        """Let nobody enrol with a key any more; False if there is none. Devices that have enrolled stay."""
        if not is_name(id):
            return False
        with self._database.transaction() as transaction:
            return (
                transaction.execute("UPDATE enrolment_keys SET revoked = COALESCE(revoked, ?) WHERE id = ?", (now, id))
                == 1
            )

    def enrol(self, devices: Sequence[NewDevice], now: float) -> list[bool]:
        """Enrol devices; for each, whether its key let it in.

        Guarantee: a key with a number of devices never lets in more, whoever asks at the same time.
        """
        with self._database.transaction() as transaction:
            places = {
                key: _places(transaction, key, now) for key in sorted({device.enrolment_hash for device in devices})
            }
            entered: Counter[str] = Counter()
            rows = []
            outcomes = []
            for device in devices:
                place = places[device.enrolment_hash]
                let_in = place is not None and entered[place[0]] < place[1]
                if place is not None and let_in:
                    entered[place[0]] += 1
                    rows.append((device.device, device.token_hash, place[0]))
                outcomes.append(let_in)
            transaction.execute_given(
                "INSERT INTO devices (device, token_hash, enrolment_key, last_hour) "
                "SELECT device, token_hash, enrolment_key, 0 FROM given",
                {"device": "TEXT", "token_hash": "BYTEA", "enrolment_key": "TEXT"},
                rows,
            )
            for id, number in sorted(entered.items()):
                transaction.execute("UPDATE enrolment_keys SET enrolled = enrolled + ? WHERE id = ?", (number, id))
            return outcomes

    def devices_of(self, token_hashes: Sequence[bytes]) -> list[str | None]:
        """The device of each token, or None where it is nobody's."""
        with self._database.transaction(write=False) as transaction:
            found: dict[bytes, str] = dict(
                transaction.fetch_given(
                    "SELECT given.token_hash, devices.device FROM given "
                    "JOIN devices ON devices.token_hash = given.token_hash",
                    {"token_hash": "BYTEA"},
                    [(token_hash,) for token_hash in dict.fromkeys(token_hashes)],
                )
            )
        return [found.get(token_hash) for token_hash in token_hashes]

    def device_of(self, token_hash: bytes) -> str | None:
        """The device of a token, or None."""
        return self.devices_of([token_hash])[0]

    def overview(self, now: float) -> Overview:
        """The fleet at a glance."""
        first = int(now // HOUR) - _DAY + 1
        with self._database.transaction(write=False) as transaction:
            [(enrolled,)] = transaction.fetch("SELECT COALESCE(SUM(enrolled), 0) FROM enrolment_keys")
            [(active,)] = transaction.fetch("SELECT COUNT(*) FROM devices WHERE last_hour >= ?", (first,))
            visits: dict[int, int] = dict(
                transaction.fetch("SELECT hour, devices FROM visits WHERE hour >= ?", (first,))
            )
        check_ins = [(float(hour * HOUR), visits.get(hour, 0)) for hour in range(first, first + _DAY)]
        return Overview(int(enrolled), active, check_ins)


def record_visits(transaction: Transaction, devices: Sequence[str], now: float) -> None:
    """Remember, to the hour, that devices were seen; most visits are not the first of their hour and change nothing."""
    hour = int(now // HOUR)
    first = transaction.execute_given(
        "UPDATE devices SET last_hour = given.hour FROM given "
        "WHERE devices.device = given.device AND devices.last_hour < given.hour",
        {"device": "TEXT", "hour": "BIGINT"},
        [(device, hour) for device in devices],
    )
    if first:
        transaction.execute(
            "INSERT INTO visits (hour, devices) VALUES (?, ?) "
            "ON CONFLICT (hour) DO UPDATE SET devices = visits.devices + excluded.devices",
            (hour, first),
        )
        transaction.execute("DELETE FROM visits WHERE hour <= ?", (hour - 2 * _DAY,))


def _places(transaction: Transaction, key_hash: bytes, now: float) -> tuple[str, int] | None:
    """A key's id and how many more it lets in, with its row locked: an update that changes nothing does that."""
    rows = transaction.fetch(
        "UPDATE enrolment_keys SET enrolled = enrolled WHERE key_hash = ? AND revoked IS NULL "
        "AND (expires IS NULL OR expires > ?) RETURNING id, devices, enrolled",
        (key_hash, now),
    )
    if not rows:
        return None
    id, devices, enrolled = rows[0]
    return id, 1 << 62 if devices is None else devices - enrolled

"""The collector's register of devices: enrolment keys, enrolled devices, and when they were last seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from thresher.roles.database.database import Store, Transaction, is_name
from thresher.roles.database.schema import round_table

HOUR = 3600
_DAY = 24
_MANY = 1 << 62
_KEY = "id, name, created, expires, devices, enrolled, revoked, hourly"


@dataclass(frozen=True, slots=True)
class EnrolmentKey:
    """A key that devices enrol with; the key itself is not kept."""

    id: str
    name: str
    created: float
    expires: float | None
    devices: int | None
    """How many devices may enrol with it in all; None for any number."""
    enrolled: int
    revoked: float | None
    hourly: int | None = None
    """How many devices may enrol with it in an hour; None for the server's own limit."""


class Entry(Enum):
    """Whether a device was let in."""

    ENTERED = "entered"
    REFUSED = "refused"
    """Its key is unknown, expired, revoked or used up."""
    LATER = "later"
    """The key's limit for this hour is reached."""


@dataclass(frozen=True, slots=True)
class EnrolledDevice:
    """A device as an operator sees it: days, and nothing of what it holds or answered."""

    id: str
    enrolled: float | None
    """The day, as its first second; None for devices from before this was kept."""
    last_check_in: float | None
    """The day, as its first second; enrolling counts as a check-in. None where it is not known."""
    revoked: bool


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
    """Devices that enrolled or checked in during the last day."""
    check_ins: list[tuple[float, int]]
    """Devices that enrolled or checked in, by hour of the last day, oldest first; the time is the start of the hour."""


class DeviceRegister(Store):
    """Enrolment keys and devices.

    Guarantee: each method is one transaction, durable when it returns. When a device was last seen is kept to the hour.
    """

    def identity(self, new: bytes) -> bytes:
        """The secret key of this fleet's collectors, which share a database; the first call stores `new`."""
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
        hourly: int | None = None,
    ) -> bool:
        """Let devices enrol with a key; False if the key is known already, and nothing is changed then."""
        with self._database.transaction() as transaction:
            added = transaction.execute(
                "INSERT INTO enrolment_keys (id, key_hash, name, created, expires, devices, enrolled, hourly) "
                "VALUES (?, ?, ?, ?, ?, ?, 0, ?) ON CONFLICT (key_hash) DO NOTHING",
                (id, key_hash, name, now, expires, devices, hourly),
            )
        return added == 1

    def enrolment_keys(self) -> list[EnrolmentKey]:
        """All keys, oldest first."""
        with self._database.transaction(write=False) as transaction:
            rows = transaction.fetch(f"SELECT {_KEY} FROM enrolment_keys ORDER BY created, id")  # noqa: S608
        return [EnrolmentKey(*row) for row in rows]

    def revoke_enrolment_key(self, id: str, now: float) -> bool:
        """Let nobody enrol with a key any more; False if there is none. Devices that have enrolled stay."""
        with self._database.transaction() as transaction:
            return _revoke_key(transaction, id, now)

    def enrol(self, devices: Sequence[NewDevice], now: float, *, hourly: int | None = None) -> list[Entry]:
        """Enrol devices; for each, whether its key let it in. `hourly` is the limit of keys without their own.

        Guarantee: a key never lets in more devices than its limits, in all and in an hour, also with several processes
        and across restarts.
        """
        hour = int(now // HOUR)
        with self._database.transaction() as transaction:
            hashes = sorted({device.enrolment_hash for device in devices})
            places = {key: _places(transaction, key, now, hourly) for key in hashes}
            entered: Counter[str] = Counter()
            rows = []
            outcomes = []
            for device in devices:
                place = places[device.enrolment_hash]
                if place is None or entered[place.key] >= place.in_all:
                    outcomes.append(Entry.REFUSED)
                elif entered[place.key] >= place.this_hour:
                    outcomes.append(Entry.LATER)
                else:
                    entered[place.key] += 1
                    rows.append((device.device, device.token_hash, place.key, hour))
                    outcomes.append(Entry.ENTERED)
            transaction.execute_given(
                "INSERT INTO devices (device, token_hash, enrolment_key, last_hour, enrolled_hour) "
                "SELECT device, token_hash, enrolment_key, hour, hour FROM given",
                {"device": "TEXT", "token_hash": "BYTEA", "enrolment_key": "TEXT", "hour": "BIGINT"},
                rows,
            )
            _count_visits(transaction, hour, len(rows))
            for id, number in sorted(entered.items()):
                transaction.execute("UPDATE enrolment_keys SET enrolled = enrolled + ? WHERE id = ?", (number, id))
                transaction.execute(
                    "INSERT INTO enrolments (enrolment_key, hour, devices) VALUES (?, ?, ?) "
                    "ON CONFLICT (enrolment_key, hour) DO UPDATE SET devices = enrolments.devices + excluded.devices",
                    (id, hour, number),
                )
                transaction.execute("DELETE FROM enrolments WHERE enrolment_key = ? AND hour < ?", (id, hour - _DAY))
            return outcomes

    def devices_of_key(self, id: str, most: int) -> tuple[int, list[EnrolledDevice]] | None:
        """How many devices enrolled with a key, and those that did last; None if there is no such key."""
        if not is_name(id):
            return None
        with self._database.transaction(write=False) as transaction:
            if not transaction.fetch("SELECT 1 FROM enrolment_keys WHERE id = ?", (id,)):
                return None
            [(number,)] = transaction.fetch("SELECT COUNT(*) FROM devices WHERE enrolment_key = ?", (id,))
            rows = transaction.fetch(
                "SELECT devices.device, enrolled_hour, last_hour, revoked FROM devices "
                "LEFT JOIN revocations ON revocations.device = devices.device "
                "WHERE enrolment_key = ? ORDER BY enrolled_hour DESC, devices.device LIMIT ?",
                (id, most),
            )
        return number, [
            EnrolledDevice(device, _day(enrolled), _day(last), revoked is not None)
            for device, enrolled, last, revoked in rows
        ]

    def revoke_device(self, device: str, now: float) -> bool:
        """Exclude a device from now on; False if there is none.

        Guarantee: once this has returned, no process accepts anything from the device. Its accepted reports stay.
        """
        if not is_name(device):
            return False
        with self._database.transaction() as transaction:
            transaction.lock(shared=False)
            if not transaction.fetch("SELECT 1 FROM devices WHERE device = ?", (device,)):
                return False
            transaction.execute(
                "INSERT INTO revocations (device, revoked) VALUES (?, ?) ON CONFLICT (device) DO NOTHING", (device, now)
            )
            return True

    def revoke_devices(self, id: str, now: float) -> int | None:
        """Revoke all devices that enrolled with a key; how many there were. None if there is no such key.

        The key is revoked too, since the devices would enrol again with it.
        """
        with self._database.transaction() as transaction:
            transaction.lock(shared=False)
            if not _revoke_key(transaction, id, now):
                return None
            return transaction.execute(
                "INSERT INTO revocations (device, revoked) "
                "SELECT device, CAST(? AS DOUBLE PRECISION) FROM devices WHERE enrolment_key = ? "
                "ON CONFLICT (device) DO NOTHING",
                (now, id),
            )

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

    def overview(self, now: float) -> Overview:
        """The fleet at a glance."""
        first = _first_hour(now)
        with self._database.transaction(write=False) as transaction:
            [(enrolled,)] = transaction.fetch("SELECT COALESCE(SUM(enrolled), 0) FROM enrolment_keys")
            [(revoked,)] = transaction.fetch("SELECT COUNT(*) FROM revocations")
            [(active,)] = transaction.fetch(
                "SELECT COUNT(*) FROM devices LEFT JOIN revocations ON revocations.device = devices.device "
                "WHERE last_hour >= ? AND revoked IS NULL",
                (first,),
            )
            visits: dict[int, int] = dict(
                transaction.fetch("SELECT hour, devices FROM visits WHERE hour >= ?", (first,))
            )
        check_ins = [(float(hour * HOUR), visits.get(hour, 0)) for hour in range(first, first + _DAY)]
        return Overview(int(enrolled) - int(revoked), active, check_ins)


def _first_hour(now: float) -> int:
    """The first hour of the last day: devices that were seen since are active."""
    return int(now // HOUR) - _DAY + 1


def waiting_devices(transaction: Transaction, number: int, now: float) -> int:
    """Active devices without a coin in the round of this number, or that were chosen and have no report in it."""
    contacts, reports = round_table("contacts", number), round_table("reports", number)
    [(waiting,)] = transaction.fetch(
        f"SELECT COUNT(*) FROM devices LEFT JOIN revocations ON revocations.device = devices.device "  # noqa: S608
        f"LEFT JOIN {contacts} ON {contacts}.device = devices.device "
        f"LEFT JOIN {reports} ON {reports}.device = devices.device "
        f"WHERE last_hour >= ? AND revoked IS NULL AND {reports}.device IS NULL "
        f"AND ({contacts}.device IS NULL OR {contacts}.chosen)",
        (_first_hour(now),),
    )
    return int(waiting)


def _revoke_key(transaction: Transaction, id: str, now: float) -> bool:
    """Mark a key as revoked; False if there is none."""
    sql = "UPDATE enrolment_keys SET revoked = COALESCE(revoked, ?) WHERE id = ?"
    return is_name(id) and transaction.execute(sql, (now, id)) == 1


def record_visits(transaction: Transaction, devices: Sequence[str], now: float) -> None:
    """Store, to the hour, when devices were last seen. Only the first visit in an hour changes anything."""
    hour = int(now // HOUR)
    first = transaction.execute_given(
        "UPDATE devices SET last_hour = given.hour FROM given "
        "WHERE devices.device = given.device AND devices.last_hour < given.hour",
        {"device": "TEXT", "hour": "BIGINT"},
        [(device, hour) for device in devices],
    )
    _count_visits(transaction, hour, first)


def _count_visits(transaction: Transaction, hour: int, devices: int) -> None:
    """Count devices that were seen for the first time in this hour."""
    if devices:
        transaction.execute(
            "INSERT INTO visits (hour, devices) VALUES (?, ?) "
            "ON CONFLICT (hour) DO UPDATE SET devices = visits.devices + excluded.devices",
            (hour, devices),
        )
        transaction.execute("DELETE FROM visits WHERE hour <= ?", (hour - 2 * _DAY,))


def revoked_among(transaction: Transaction, devices: Sequence[str]) -> set[str]:
    """Which of some distinct devices are revoked."""
    rows = transaction.fetch_given(
        "SELECT given.device FROM given JOIN revocations ON revocations.device = given.device",
        {"device": "TEXT"},
        [(device,) for device in devices],
    )
    return {device for (device,) in rows}


@dataclass(frozen=True, slots=True)
class _Places:
    """How many more devices a key lets in."""

    key: str
    in_all: int
    this_hour: int


def _places(transaction: Transaction, key_hash: bytes, now: float, hourly: int | None) -> _Places | None:
    """What a key has left. The no-op UPDATE takes the row lock."""
    rows = transaction.fetch(
        "UPDATE enrolment_keys SET enrolled = enrolled WHERE key_hash = ? AND revoked IS NULL "
        "AND (expires IS NULL OR expires > ?) RETURNING id, devices, enrolled, hourly",
        (key_hash, now),
    )
    if not rows:
        return None
    id, devices, enrolled, own = rows[0]
    most = hourly if own is None else own
    so_far = transaction.fetch(
        "SELECT devices FROM enrolments WHERE enrolment_key = ? AND hour = ?", (id, int(now // HOUR))
    )
    in_all = _MANY if devices is None else devices - enrolled
    this_hour = _MANY if most is None else most - (so_far[0][0] if so_far else 0)
    return _Places(id, in_all, this_hour)


def _day(hour: int) -> float | None:
    return float(hour // _DAY * _DAY * HOUR) if hour else None

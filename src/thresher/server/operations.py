"""What an operator may do with keys, tokens and devices. The API, the console and the start of a server call this."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from thresher.errors import NotFound
from thresher.roles.tokens import new_token, token_hash

if TYPE_CHECKING:
    from thresher.roles.collector.enrolment import EnrolledDevice
    from thresher.server.services import Services


@dataclass(frozen=True, slots=True)
class Issued:
    """A key or token and the id under which it is listed. The token is shown once, to whoever asked for it."""

    id: str
    token: str = field(repr=False)


class Operations:
    """Makes and revokes enrolment keys and tokens, and revokes devices. `NotFound` for an id that nothing has."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def issue(
        self,
        kind: str,
        name: str,
        *,
        token: str | None = None,
        seconds: float | None = None,
        devices: int | None = None,
        hourly: int | None = None,
    ) -> Issued:
        """Make a token that opens this server from now on: an enrolment key for the kind "enrolment".

        `devices` and `hourly` are how many devices may enrol with an enrolment key, in all and in an hour.

        Edge cases: `token` is a token of the data directory, in place of a new one. If it is known already, nothing
        changes, so one that was revoked stays revoked.
        """
        services = self._services
        now = services.clock.now()
        expires = None if seconds is None else now + seconds
        if token is None:
            issued = Issued(secrets.token_hex(6), new_token(kind))
        else:
            issued = Issued(f"first-{token_hash(token).hex()[:12]}", token)
        hashed = token_hash(issued.token)
        if kind == "enrolment":
            services.the_collector_store.add_enrolment_key(
                issued.id, hashed, name, now, expires=expires, devices=devices, hourly=hourly
            )
        else:
            services.the_coordinator_store.add_token(issued.id, kind, hashed, name, now=now, expires=expires)
        return issued

    def revoke_token(self, id: str) -> None:
        """The token opens nothing any more."""
        if not self._services.the_coordinator_store.revoke_token(id, self._services.clock.now()):
            raise NotFound("There is no such token.")

    def revoke_enrolment_key(self, id: str) -> None:
        """No further device enrols with the key; those that did stay."""
        if not self._services.the_collector.revoke_enrolment_key(id):
            raise _no_such_key()

    def devices(self, key: str, most: int) -> tuple[int, list[EnrolledDevice]]:
        """How many devices enrolled with a key, and the `most` that did last."""
        found = self._services.the_collector.devices_of_key(key, most)
        if found is None:
            raise _no_such_key()
        return found

    def revoke_devices(self, key: str) -> int:
        """Revoke a key and every device that enrolled with it; how many devices this revoked."""
        revoked = self._services.the_collector.revoke_devices(key)
        if revoked is None:
            raise _no_such_key()
        return revoked

    def revoke_device(self, device: str) -> None:
        """The server takes nothing more from a device; reports that were taken stay."""
        if not self._services.the_collector.revoke_device(device):
            raise NotFound("There is no such device.")


def _no_such_key() -> NotFound:
    return NotFound("There is no such enrolment key.")

"""The webhooks that an operator has allowed. Analysts choose one by its name and never see its address."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from thresher.addresses import checked_address
from thresher.errors import InvalidSetting
from thresher.protocol.messages import check_name

_SETTING = "alert-webhook"
_EXAMPLE = "For example ops=https://hooks.example/abc."
_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Webhook:
    """A name, and the address that alerts are posted to. The address may be a secret, so it is in no repr or error.

    Guarantee: the address is that of https, or of http on this machine.
    """

    name: str
    url: str = field(repr=False)

    def __post_init__(self) -> None:
        check_name(_SETTING, self.name)
        try:
            checked_address(_SETTING, self.url)
        except InvalidSetting:
            raise InvalidSetting(
                _SETTING,
                f"{self.name} must have an address that starts with https://, without spaces, with a port up to 65535 "
                "if it has one",
                hint=_EXAMPLE,
            ) from None
        parts = urlsplit(self.url)
        if len(self.url) > _LONGEST or parts.fragment:
            raise InvalidSetting(_SETTING, f"must have an address of at most {_LONGEST:,} characters, without #")
        if parts.scheme != "https" and not _on_this_machine(parts):
            raise InvalidSetting(
                _SETTING, "must start with https://, since alerts are not for everybody on the way", hint=_EXAMPLE
            )


def read_webhooks(lines: Iterable[str]) -> tuple[Webhook, ...]:
    """The webhooks in lines of the form `name=https://…`. Empty lines, and those that begin with #, are left out."""
    found: dict[str, Webhook] = {}
    for line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, equals, url = text.partition("=")
        if not equals or "/" in name:
            raise InvalidSetting(_SETTING, "must be a name and an address", hint=_EXAMPLE)
        if name in found:
            raise InvalidSetting(_SETTING, "must not have the same name twice", hint=_EXAMPLE)
        found[name] = Webhook(name, url)
    return tuple(found.values())


def check_no_credentials(lines: Iterable[str]) -> None:
    """Refuse addresses with a user or a password on a command line, where everybody on the machine could read them."""
    if any("@" in urlsplit(webhook.url).netloc for webhook in read_webhooks(lines)):
        raise InvalidSetting(
            _SETTING,
            "has a user or a password, which everybody on this machine could read in the process list",
            hint="Put the line name=https://… into a file for --alert-webhook-file.",
        )


def _on_this_machine(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

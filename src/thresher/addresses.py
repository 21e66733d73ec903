"""Checks of server addresses and tokens, as a user typed them, before the first request.

Without these checks, an address or token that an HTTP library cannot send ends in an error of that library, or looks
like a server that cannot be reached.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from thresher.errors import InvalidSetting


def checked_address(setting: str, address: str) -> str:
    """An http or https address with a host and a possible port; a slash at its end is removed."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number or too large, or a bracket is missing
        usable = False
    if not (usable and _is_plain(address)):
        raise InvalidSetting(
            setting,
            "must be an address that starts with https:// or http://",
            hint="For example https://fleet.example or http://127.0.0.1:8080.",
        )
    return address.rstrip("/")


def checked_token(setting: str, token: str) -> str:
    """A token or key without the blanks or line feed around it. The error does not show it."""
    token = token.strip()
    if not (token and _is_plain(token)):
        raise InvalidSetting(
            setting, "must be letters, digits and signs without spaces", hint="Copy it whole, as it was made."
        )
    return token


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text

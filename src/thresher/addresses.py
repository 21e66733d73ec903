"""Where a server is and what opens it, as somebody typed them: checked before anything waits for an answer.

What an HTTP library cannot send is an error of its own kind, or looks like a server that is away.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from thresher.errors import InvalidSetting


def checked_address(setting: str, address: str) -> str:
    """An http or https address with a host and a port that can be, without a slash at its end."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that is no number or too large, or of half a bracket
        usable = False
    if not (usable and _is_plain(address)):
        raise InvalidSetting(
            setting,
            "must be an address that starts with https:// or http://",
            hint="For example https://fleet.example or http://127.0.0.1:8080.",
        )
    return address.rstrip("/")


def checked_token(setting: str, token: str) -> str:
    """A token or key without the line's end that a file adds; never shown in the error."""
    token = token.strip()
    if not (token and _is_plain(token)):
        raise InvalidSetting(
            setting, "must be letters, digits and signs without spaces", hint="Copy it whole, as it was made."
        )
    return token


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text

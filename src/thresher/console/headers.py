"""The headers and cookies of the console's responses, and what the headers of a request say."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}


def add_headers(response: Response, http: Request) -> Response:
    """Give a response the headers that every response of the console has; those that it already has stay."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if is_fragment(http):
        response.headers["X-Fragment"] = "1"  # the script checks it, so that it does not show a proxy's error page
    if is_secure(http):
        response.headers.setdefault("Strict-Transport-Security", "max-age=31536000")
    return response


def is_fragment(http: Request) -> bool:
    """Whether our script asks for a part of a page."""
    return "x-fragment" in http.headers


def is_secure(http: Request) -> bool:
    """Whether the request came over TLS."""
    return bool(http.url.scheme == "https")


def is_same_site(http: Request) -> bool:
    """Whether the browser says that one of our own pages sent the request; also if it does not say."""
    return http.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


def cookie_name(http: Request, kind: str = "session") -> str:
    """The name of a cookie. Over TLS it has the prefix with which browsers tie a cookie to this host and to TLS."""
    return f"__Host-thresher-{kind}" if is_secure(http) else f"thresher-{kind}"


def set_cookie(response: Response, http: Request, kind: str, value: str) -> None:
    """Set a cookie that scripts cannot read and other sites cannot send; an empty value deletes it."""
    response.set_cookie(
        cookie_name(http, kind),
        value,
        max_age=None if value else 0,
        path="/",
        secure=is_secure(http),
        httponly=True,
        samesite="strict",
    )

"""Behind a proxy that ends TLS: its word is taken if it was named, and nobody else's."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from playwright.sync_api import expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from thresher.console import Caller, routes
from thresher.errors import InvalidSetting
from thresher.server.assembly import Settings
from thresher.server.serving import _config

HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "host")


class OneToken:
    """Knows one token."""

    def caller(self, token: str) -> Caller | None:
        return Caller("maria", "analyst") if token == "the-token" else None


def config(proxies: tuple[str, ...]) -> uvicorn.Config:
    """The shipped server's own settings, around the console's pages."""
    app = Starlette(routes=routes(OneToken(), OneToken()))
    made = _config(app, Settings(data_dir=Path(), proxies=proxies))
    made.load()
    return made


def cookie(proxies: tuple[str, ...], caller: str, proto: str | None) -> str:
    """The cookie that the login page sets for a request from this address."""

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(app=config(proxies).loaded_app, client=(caller, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as http:
            return await http.get("/login", headers={"X-Forwarded-Proto": proto} if proto else {})

    return asyncio.run(asked()).headers["set-cookie"]


@pytest.mark.parametrize(
    ("proxies", "caller", "proto", "secure"),
    [
        (("10.0.0.7",), "10.0.0.7", "https", True),
        (("10.0.0.0/24", "::1"), "10.0.0.9", "https", True),
        (("10.0.0.0/24", "::1"), "::1", "https", True),
        (("10.0.0.7",), "10.0.0.7", "http", False),
        (("10.0.0.7",), "10.0.0.7", "nonsense", False),
        (("10.0.0.7",), "10.0.0.7", None, False),
        (("10.0.0.7",), "10.0.0.8", "https", False),  # whoever else says so is not believed
        ((), "127.0.0.1", "https", False),
    ],
)
def test_only_a_named_proxy_says_that_it_was_tls(proxies, caller, proto, secure):
    found = cookie(proxies, caller, proto)
    assert ("Secure" in found) == secure
    assert found.startswith("__Host-" if secure else "thresher-")


@pytest.mark.parametrize(
    ("proxies", "caller", "forwarded", "seen"),
    [
        (("10.0.0.7",), "10.0.0.7", ["198.51.100.1"], "198.51.100.1"),
        (("10.0.0.7",), "10.0.0.7", [], "10.0.0.7"),
        (("10.0.0.7",), "10.0.0.8", ["198.51.100.1"], "10.0.0.8"),  # whoever else says so is not believed
        ((), "127.0.0.1", ["198.51.100.1"], "127.0.0.1"),
        # What callers wrote themselves is to the left of what the proxies saw.
        (("10.0.0.7",), "10.0.0.7", ["203.0.113.9, 198.51.100.1"], "198.51.100.1"),
        (("10.0.0.7",), "10.0.0.7", ["203.0.113.9", "198.51.100.1"], "198.51.100.1"),
        (("10.0.0.0/24",), "10.0.0.7", ["203.0.113.9, 198.51.100.1, 10.0.0.8"], "198.51.100.1"),
        (("10.0.0.7",), "10.0.0.7", ["10.0.0.7, 2001:db8::1"], "2001:db8::1"),
    ],
)
def test_a_callers_address_is_the_last_that_is_no_named_proxy(proxies, caller, forwarded, seen):
    found = []

    async def app(scope, receive, send):
        found.append(scope["client"][0])
        await Response()(scope, receive, send)

    made = _config(app, Settings(data_dir=Path(), proxies=proxies))
    made.load()

    async def asked() -> None:
        transport = httpx.ASGITransport(app=made.loaded_app, client=(caller, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as http:
            await http.get("/", headers=[("X-Forwarded-For", each) for each in forwarded])

    asyncio.run(asked())
    assert found == [seen]


@pytest.mark.parametrize("proxy", ["*", "proxy.example", "", "10.0.0.7/24", "10.0.0.300"])
def test_a_proxy_is_an_address(proxy, tmp_path):
    with pytest.raises(InvalidSetting, match="trusted-proxy must be an address or a network"):
        Settings(data_dir=tmp_path, proxies=(proxy,))


@contextlib.contextmanager
def running(made: uvicorn.Config) -> Iterator[int]:
    """A server in a thread; its port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(made)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(10)


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "proxy")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "cert.pem", directory / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


def proxy(port: int, directory: Path) -> uvicorn.Config:
    """What nginx would be: ends TLS and says so."""

    async def forward(request: Request) -> Response:
        headers = [(name, value) for name, value in request.headers.items() if name not in HOP]
        headers += [("host", request.headers["host"]), ("x-forwarded-proto", "https")]
        async with httpx.AsyncClient(trust_env=False) as http:
            body = await request.body()
            target = f"http://127.0.0.1:{port}{request.url.path}?{request.url.query}"
            answer = await http.request(request.method, target, headers=headers, content=body)
        response = Response(answer.content, answer.status_code)
        response.raw_headers += [
            (name.lower(), value) for name, value in answer.headers.raw if name.lower().decode() not in HOP
        ]
        return response

    app = Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST"])])
    cert, key = certificate(directory)
    return uvicorn.Config(app, log_level="error", lifespan="off", ssl_certfile=cert, ssl_keyfile=key)


@pytest.mark.slow
def test_signing_in_and_out_through_a_proxy(browser, tmp_path):
    with running(config(("127.0.0.1",))) as inner, running(proxy(inner, tmp_path)) as port:
        context = browser.new_context(ignore_https_errors=True)
        page, url = context.new_page(), f"https://127.0.0.1:{port}"
        page.goto(f"{url}/login?next=/no-such-page")
        page.fill("#token", "the-token")
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator(".account")).to_contain_text("maria")
        (kept,) = context.cookies()  # and none of the login form's
        assert (kept["name"], kept["secure"], kept["httpOnly"]) == ("__Host-thresher-session", True, True)
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(f"{url}/login")
        assert [each["name"] for each in context.cookies()] == ["__Host-thresher-login"]
        context.close()

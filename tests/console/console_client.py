"""The console over plain HTTP, without a browser."""

from __future__ import annotations

import re
from typing import Any

import httpx

CSRF = re.compile(r'name="csrf" value="([^"]+)"')


def client(server: Any, **settings: Any) -> httpx.Client:
    """Somebody without a session."""
    return httpx.Client(base_url=server.url, trust_env=False, timeout=30, **settings)


def sign_in(http: httpx.Client, token: str) -> str:
    """Open a session; the token that its forms carry."""
    mark = CSRF.search(http.get("/login").text)[1]
    answer = http.post("/login", data={"csrf": mark, "token": token})
    assert answer.status_code == 303, answer.text
    return CSRF.search(http.get("/").text)[1]

"""A whole server in the test's process: its real stores, roles and routes, without a socket."""

import asyncio
import base64
import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

import httpx

import thresher as th
from thresher.client.fleet import Fleet
from thresher.questions import Values
from thresher.server.app import App
from thresher.server.assembly import Settings, assembled
from thresher.server.data_directory import ROLES, DataDirectory
from thresher.server.services import Services
from thresher.verbs import HistogramQuery

ENROL = {"versions": [2]}
ASK = {"versions": [2], "reports": [], "rounds": True}


def handing_in(*reports: tuple[str, bytes]) -> dict:
    """A visit that hands in reports, each a round's name and its sealed bytes."""
    listed = [{"round": round, "sealed": base64.b64encode(sealed).decode()} for round, sealed in reports]
    return {"versions": [2], "reports": listed, "rounds": False}


@dataclass
class Inside:
    """A server's parts, and a way to ask it something."""

    app: App
    services: Services
    directory: DataDirectory

    def token(self, kind: str) -> str:
        return self.directory.secret(kind).token

    def ask(self, method: str, path: str, token: str | None = None, **content) -> httpx.Response:
        headers = dict(content.pop("headers", {}))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"

        async def asking() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await client.request(method, path, headers=headers, **content)

        return asyncio.run(asking())

    def enrol(self) -> str:
        return self.ask("POST", "/v2/devices", self.token("enrolment"), json=ENROL).json()["token"]


@contextlib.contextmanager
def inside(path: Path, *roles: str, pages=(), clock=None, **settings):
    """A server with a data directory at `path`; `pages` are routes, or make them from the server's parts.

    `clock` is one that a test moves, in place of the machine's.
    """
    roles = roles or ROLES
    with (
        DataDirectory(path, roles) as directory,
        assembled(Settings(data_dir=path, roles=roles, **settings), directory, clock) as services,
    ):
        app = App(services, pages(services) if callable(pages) else pages)
        try:
            yield Inside(app, services, directory)
        finally:
            app.close()


def fleet_of(server: Inside, **settings) -> Fleet:
    """The analyst's Python over that server's routes."""

    def handle(request: httpx.Request) -> httpx.Response:
        answer = server.ask(request.method, request.url.path, server.token("analyst"), content=request.content)
        return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)

    return Fleet("http://server", server.token("analyst"), transport=httpx.MockTransport(handle), **settings)


def histogram_request(name: str = "first", **settings) -> dict:
    """A query as an analyst's client sends it."""
    query = HistogramQuery(Values("word"), th.plan(epsilon=1, delta=1e-8))
    return {"name": name, "query": json.loads(json.dumps(query.to_dict())), "settings": settings}


def configuration_of(aggregator, round: str = "r1", *, deadline: float = 4e9):
    """A round's configuration that holds together, sealed to this aggregator's key."""
    from thresher.protocol.configurations import RoundConfiguration
    from thresher.protocol.rates import share

    rates, plan = share(th.plan(epsilon=1, delta=1e-8), 1.0, "device")
    key = aggregator.public_key()
    return RoundConfiguration.of(
        fleet="fleet",
        query="q",
        index=0,
        round=round,
        question=Values("word"),
        plan=plan,
        rates=rates,
        bucket_size=64,
        deadline=deadline,
        key_id=key.key_id,
        public_key=key.raw,
    )

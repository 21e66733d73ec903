"""`thresher serve --demo`: its console leads to a page that is one of its devices."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browsers import violations, wait_for
from chromium import ChromiumTab
from page_steps import ANSWERED, READY, SWITCH
from web_fleet import address as address_of
from web_fleet import files, place, serving

import thresher as th
from thresher.cli import demo_page
from thresher.simulator.population import demo_population

pytestmark = pytest.mark.slow  # processes and browsers take their time

DEVICES = 500
FEWER = f"import thresher.cli.demo_fleet as fleet; fleet.DEVICES = {DEVICES}; "
NOT_BUILT = "import thresher.cli.demo_page as page; page._DEVICE = 'missing.js'; "


@contextlib.contextmanager
def demo(directory: Path, before: str = "") -> Iterator[tuple[str, str, str]]:
    """A demo; its address, the operator's token, and all that it said."""
    output = directory / "output"
    command = [
        sys.executable,
        "-c",
        f"{FEWER}{before}from thresher.cli import main; main()",
        "serve",
        "--demo",
        "--port",
        "0",
    ]
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, "TMPDIR": str(directory)}
        )
    try:
        while "Stop with Ctrl-C" not in output.read_text():
            assert process.poll() is None, output.read_text()
            time.sleep(0.1)
        said = output.read_text()
        url, token = re.search(r"Open (\S+)/ and sign in with (\S+)", said).groups()
        yield url, token, said
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=120)
    assert process.returncode == 0
    assert "Traceback" not in output.read_text()


def signed_in(window, url: str, token: str):
    page = window.context.new_page()
    page.goto(f"{url}/login")
    page.fill("#token", token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{url}/")
    return page


def test_a_person_is_one_of_the_demos_devices(window, tmp_path: Path) -> None:
    with demo(tmp_path) as (url, token, said):
        address = re.search(r"Be one of the devices: (\S+)", said)[1]
        console = signed_in(window, url, token)
        with window.context.expect_page() as opening:
            console.get_by_role("link", name="Be one of the devices").click()
        tab = ChromiumTab(opening.value)
        assert tab.page.url == address
        wait_for(tab, READY)
        tab.page.get_by_label("country").select_option("fr")
        tab.page.get_by_label("chess").check()
        tab.evaluate(SWITCH)
        with th.Fleet(url, token) as fleet:
            while fleet.overview().active <= DEVICES:
                tab.page.wait_for_timeout(200)
            th.histogram(fleet, "topics", epsilon=1, delta=1e-8)
        wait_for(tab, ANSWERED)
        assert violations(tab) == []
        console.goto(f"{url}/operate")
        row = console.get_by_role("row").filter(has_text="web page")
        assert row.get_by_role("link").first.inner_text().startswith("1")
        httpx.get(address, timeout=30).raise_for_status()
    with pytest.raises(httpx.TransportError):
        httpx.get(address, timeout=5)


def test_a_demo_without_the_page_says_how_to_build_it(window, tmp_path: Path) -> None:
    with demo(tmp_path, NOT_BUILT) as (url, token, said):
        assert demo_page.HOW_TO_BUILD in said.splitlines()
        assert "Be one of the devices" not in said
        assert signed_in(window, url, token).get_by_text("Be one of the devices").count() == 0


def test_the_pages_server_has_a_few_files_and_no_others() -> None:
    settings = demo_page.page_settings("http://127.0.0.1:1", "thresher-enrolment-x", demo_population(3000))
    with (
        place() as listener,
        serving(demo_page.page_app(files(), settings), listener),
        httpx.Client(base_url=address_of(listener), trust_env=False) as client,
    ):
        assert client.get("/settings.json").json() == settings
        for path in ("/", "/index.html", "/page.js", "/words.js", "/device.js", "/page.css", "/mark.svg"):
            answer = client.get(path)
            assert answer.status_code == 200
            policy = answer.headers["content-security-policy"]
            assert "connect-src 'self' http://127.0.0.1:1;" in policy
            assert "require-trusted-types-for 'script'" in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
        for path in ("/README.md", "/../demo.py", "/%2e%2e/demo.py", "/.git/config", "/static/page.js"):
            assert client.get(path).status_code == 404
        assert client.post("/").status_code == 405


def test_what_the_page_offers_is_what_the_demos_devices_hold() -> None:
    offered = demo_page.page_settings("http://127.0.0.1:1", "key", demo_population(3000))["attributes"]
    assert {each["name"]: each["kind"] for each in offered} == {
        **{"word": "one", "app_version": "one", "country": "one", "waited_ms": "number", "topics": "several"}
    }
    for each in offered:
        assert each["values"]
        assert len(each["values"]) <= 40


@pytest.mark.parametrize(
    ("host", "url"), [("127.0.0.1", "http://127.0.0.1:"), ("0.0.0.0", "http://localhost:"), ("::1", "http://[::1]:")]
)
def test_the_pages_address_is_one_that_a_browser_reaches(host: str, url: str, tmp_path: Path) -> None:
    from thresher.server.assembly import Settings
    from thresher.server.cross_origin import Origins

    page = demo_page.DemoPage(Settings(data_dir=tmp_path, host=host), files())
    assert page.url.startswith(url)
    assert Origins([page.url]).allow(page.url.encode())
    page.end()


def test_the_page_is_found_in_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "thresher"
    (package / "cli").mkdir(parents=True)
    monkeypatch.setattr(demo_page, "__file__", str(package / "cli" / "demo_page.py"))
    assert demo_page.page_directory() is None
    (package / "web").mkdir()
    (package / "web" / "device.js").touch()
    assert demo_page.page_directory() == package / "web"

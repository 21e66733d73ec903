"""The device in a real browser: IndexedDB, Web Locks, private windows, quotas, CORS and a strict CSP.

Run it after `npm run build`, with a Python that has Playwright and a Chromium:

    python test/browser/smoke.py

It builds the page into a temporary folder, serves it and a small fleet from two origins, and exits with 1 on failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

PACKAGE = Path(__file__).parent.parent.parent
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
ONE = 2**32
PAGE = b'<!doctype html><title>Device</title><script type="module" src="/page.js"></script>'
VISIT_TWICE = """void (window.visiting =
  Promise.all([device.visit(), newDevice().visit()]).then((all) => all.flat(), String))"""
NO_X25519 = """{
  const real = SubtleCrypto.prototype.generateKey;
  SubtleCrypto.prototype.generateKey = function (algorithm, ...rest) {
    if (algorithm.name === 'X25519') return Promise.reject(new DOMException('', 'NotSupportedError'));
    return real.call(this, algorithm, ...rest);
  };
}"""


def configuration(query: str) -> str:
    """A round that the default policy allows."""
    return json.dumps(
        {
            "version": 3, "fleet": "default", "query": query, "index": 0, "round": f"{query}-0",
            "question": {"kind": "values", "columns": ["theme"]},
            "plan": {"sampling_rate": 1 / 64, "threshold": 25, "rounds": 1},
            "contact_rate": ONE, "device_rate": ONE, "aggregator_rate": ONE // 64, "bucket_size": 64,
            "deadline": time.time() + 3600, "key_id": "k", "public_key": "09" + "00" * 31, "guarantees": {},
        }
    )  # fmt: skip


class Fleet:
    """What the fleet's server knows."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.rounds: list[str] = []
        self.devices: dict[str, dict[str, str]] = {}
        self.sent: dict[str, set[str]] = {}
        self.visits = 0
        self.hangs = False

    def answer(self, path: str, token: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.lock:
            if path == "/v2/devices":
                name = f"token-{len(self.devices) + 1}"
                self.devices[name] = {}
                return 201, {"version": 2, "token": name, "identity": None}
            self.visits += 1
            handed = self.devices[token]
            for report in body["reports"]:
                handed.setdefault(report["round"], report["sealed"])
                self.sent.setdefault(report["round"], set()).add(report["sealed"])
            shown = [text for text in self.rounds if json.loads(text)["round"] not in handed] if body["rounds"] else []
            reports = [{"round": report["round"], "status": "taken"} for report in body["reports"]]
            return 200, {"version": 2, "reports": reports, "rounds": shown, "come_back": 60}


def serve(handler: type[BaseHTTPRequestHandler]) -> tuple[ThreadingHTTPServer, str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}"


def fleet_handler(fleet: Fleet) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_OPTIONS(self) -> None:
            self.send_response(204)
            self.cors()
            self.send_header("access-control-allow-headers", "authorization, content-type, thresher-nonce")
            self.send_header("access-control-allow-methods", "POST")
            self.end_headers()

        def cors(self) -> None:
            self.send_header("access-control-allow-origin", self.headers["origin"])
            self.send_header("access-control-expose-headers", "retry-after, thresher-proof")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            assert "cookie" not in self.headers
            assert "referer" not in self.headers
            token = self.headers["authorization"].removeprefix("Bearer ")
            status, answer = fleet.answer(self.path, token, body)
            if fleet.hangs and body.get("rounds") is False:
                threading.Event().wait(3)  # the page is closed meanwhile
            content = json.dumps(answer).encode()
            try:
                self.send_response(status)
                self.cors()
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                pass

    return Handler


def page_handler(folder: Path, fleet_url: list[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            name = self.path.partition("?")[0].strip("/")
            file = folder / name
            content = file.read_bytes() if name and file.is_file() else PAGE
            self.send_response(200)
            self.send_header("content-type", "text/javascript" if name.endswith(".js") else "text/html")
            policy = (
                f"default-src 'none'; script-src 'self'; connect-src {fleet_url[0]}; require-trusted-types-for 'script'"
            )
            self.send_header("content-security-policy", policy)
            self.send_header("set-cookie", "a=b")
            self.end_headers()
            self.wfile.write(content)

    return Handler


def check(condition: Any, words: str) -> None:
    print("ok  " if condition else "FAIL", words, flush=True)
    if not condition:
        raise SystemExit(1)


def opened(context: Any, url: str, *scripts: str) -> Page:
    page = context.new_page()
    for script in scripts:
        page.add_init_script(script)
    page.on("pageerror", lambda error: print("     page:", error))
    page.goto(url)
    page.wait_for_function("window.device !== undefined")
    return page


def visit(page: Page) -> Any:
    return page.evaluate("device.visit().catch((error) => `${error.code} ${error.message}`)")


def statuses(outcomes: Any) -> list[str]:
    return sorted(outcome["status"] for outcome in outcomes)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, fleet = Path(name), Fleet()
        subprocess.run(
            [*"npx esbuild test/browser/page.js --bundle --splitting --format=esm".split(), f"--outdir={folder}"],
            cwd=PACKAGE, check=True, capture_output=True,
        )  # fmt: skip
        _, fleet_url = serve(fleet_handler(fleet))
        _, page_url = serve(page_handler(folder, [fleet_url]))
        url = f"{page_url}/?server={fleet_url}"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            try:
                scenarios(browser, fleet, url)
            finally:
                browser.close()


def scenarios(browser: Any, fleet: Fleet, url: str) -> None:
    fleet.rounds = [configuration("q1")]
    context = browser.new_context()
    page = opened(context, url)
    check(
        statuses(visit(page)) == ["taken"], "a visit under a strict CSP, from another origin, with the default policy"
    )
    check(page.evaluate("device.log()")[0]["asked"]["attributes"] == ["theme"], "the log is there")
    check(page.evaluate("violations") == [], "no violation of the CSP")
    page.reload()
    page.wait_for_function("window.device !== undefined")
    check(visit(page) == [] and len(fleet.devices) == 1, "after a reload it is the same device")

    other = browser.new_context()
    before = len(fleet.devices)
    tabs = [opened(other, url) for _ in range(3)]
    for tab in tabs:
        tab.evaluate(VISIT_TWICE)
    results = [tab.evaluate("visiting") for tab in tabs]
    check(len(fleet.devices) == before + 1, "three tabs at once are one device")
    check(sum(len(each) for each in results) == 1, "one of them answers")
    other.close()
    check(all(len(sealed) >= 1 for sealed in fleet.sent.values()), "reports arrived")

    private = browser.new_context()
    count = len(fleet.devices)
    visit(opened(private, url))
    check(len(fleet.devices) == count + 1, "a private window is a device of its own")
    private.close()

    fleet.rounds.append(configuration("closed"))
    fleet.hangs = True
    page.evaluate("void device.visit().catch(() => {})")
    page.wait_for_timeout(1500)
    page.close()
    fleet.hangs = False
    first = set(fleet.sent["closed-0"])
    fleet.devices["token-1"].pop("closed-0")
    page = opened(context, url)
    check(statuses(visit(page)) == ["taken"], "a page that was closed while it handed in: the next visit hands in")
    check(len(first) == 1 and fleet.sent["closed-0"] == first, "the same bytes")

    fleet.rounds.append(configuration("off"))
    visits = fleet.visits
    check(page.evaluate("device.consent(false)") is False and visit(page) == [], "switched off")
    check(fleet.visits == visits and page.evaluate("device.log()") == [], "silence, and the log is gone")
    check(page.evaluate("device.consent(true)") is True and len(visit(page)) == 3, "switched on again")
    reasons = {outcome["round"]: outcome["reason"] for outcome in page.evaluate("device.outcomes()")}
    check(reasons == {"q1-0": "answered", "closed-0": "answered", "off-0": None}, "what was answered stays answered")

    old = browser.new_context()
    page = opened(old, url, NO_X25519)
    check(
        statuses(visit(page)) == ["taken"] * 3 and page.evaluate("violations") == [],
        "without X25519 the fallback seals",
    )
    old.close()

    full = browser.new_context()
    page = opened(full, url)
    session = full.new_cdp_session(page)
    session.send("Storage.overrideQuotaForOrigin", {"origin": page.evaluate("location.origin"), "quotaSize": 1})
    count = len(fleet.devices)
    result = visit(page)
    check(isinstance(result, str) and result.startswith("store-unavailable"), f"a full quota is an error: {result}")
    check(len(fleet.devices) == count, "and nothing was sent")
    full.close()


if __name__ == "__main__":
    main()
    sys.exit(0)

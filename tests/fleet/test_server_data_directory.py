"""The data directory: private, locked, whole after any crash, and each role's secrets with that role only."""

import os
import stat
import subprocess
import sys

import pytest

from thresher.errors import InvalidSetting, StoreUnavailable
from thresher.server.auth import kind_of
from thresher.server.data_directory import ROLES, DataDirectory, read_key_file
from thresher.server.serving import how_to_use

FILES = {
    "collector": {"operator.token", "enrolment.key", "collector/coordinator.key"},
    "aggregator": {"operator.token", "aggregator/coordinator.key", "aggregator/collector.key"},
    "coordinator": {"operator.token", "analyst.token"},
}


def files(path):
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()} - {"lock"}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_its_own_secrets_only(tmp_path, role):
    with DataDirectory(tmp_path / "data", [role]) as directory:
        assert files(directory.path) == FILES[role]
        assert {path.name for path in directory.path.iterdir() if path.is_dir()} == {role}


def test_all_roles_have_all_secrets_and_no_two_alike(tmp_path):
    with DataDirectory(tmp_path / "data", ROLES) as directory:
        assert files(directory.path) == set().union(*FILES.values())
        assert len({secret.token for secret in directory.secrets}) == len(directory.secrets)
        for secret in directory.secrets:
            assert kind_of(secret.token) == secret.kind and secret.new
            assert secret.token not in repr(secret)


def test_nobody_else_can_read_anything(tmp_path):
    before = os.umask(0)  # the most careless setting there is
    try:
        with DataDirectory(tmp_path / "data", ROLES) as directory:
            for path in (directory.path, *directory.path.rglob("*")):
                assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    finally:
        os.umask(before)


def test_an_empty_directory_is_made_private_one_with_files_is_refused(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir(mode=0o755)
    with DataDirectory(empty, ["coordinator"]):
        assert stat.S_IMODE(empty.stat().st_mode) == 0o700
    empty.chmod(0o750)
    with pytest.raises(InvalidSetting, match="read by others"):
        DataDirectory(empty, ["coordinator"])


def test_a_secret_that_others_can_read_is_refused(tmp_path):
    with DataDirectory(tmp_path / "data", ["coordinator"]) as directory:
        token = directory.secret("analyst")
    token.path.chmod(0o644)
    with pytest.raises(InvalidSetting, match="read by others"):
        DataDirectory(tmp_path / "data", ["coordinator"])
    token.path.chmod(0o600)
    DataDirectory(tmp_path / "data", ["coordinator"]).close()  # and its lock was given back


def test_secrets_stay_the_same(tmp_path):
    with DataDirectory(tmp_path / "data", ROLES) as first:
        before = [secret.token for secret in first.secrets]
        assert first.is_new
    with DataDirectory(tmp_path / "data", ROLES) as second:
        assert [secret.token for secret in second.secrets] == before
        assert not second.is_new


def test_a_damaged_secret_is_refused_and_a_deleted_one_is_made_anew(tmp_path):
    with DataDirectory(tmp_path / "data", ["coordinator"]) as directory:
        path, token = directory.secret("analyst").path, directory.secret("analyst").token
    for damage in ("", "nonsense", token[:-20], token.replace("analyst", "operator")):
        path.write_text(damage)
        with pytest.raises(InvalidSetting, match=r"damaged analyst\.token"):
            DataDirectory(tmp_path / "data", ["coordinator"])
    path.unlink()
    with DataDirectory(tmp_path / "data", ["coordinator"]) as directory:
        assert directory.secret("analyst").new and directory.secret("analyst").token != token


@pytest.mark.slow
def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path):
    code = f"""
import sys, time
from thresher.server.data_directory import DataDirectory
directory = DataDirectory({str(tmp_path / "data")!r}, ["coordinator"])
print("locked", flush=True)
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(InvalidSetting, match="in use by another process"):
            DataDirectory(tmp_path / "data", ["coordinator"])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    DataDirectory(tmp_path / "data", ["coordinator"]).close()


def test_a_path_that_cannot_be_used_is_an_error_of_ours(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        DataDirectory(tmp_path / "file" / "data", ["coordinator"])


@pytest.mark.parametrize("roles", [[], ["boss"], ["collector", "boss"]])
def test_roles_are_known_ones(tmp_path, roles):
    with pytest.raises(InvalidSetting, match="role"):
        DataDirectory(tmp_path / "data", roles)


def test_a_peer_key_is_read_from_its_copy(tmp_path):
    with DataDirectory(tmp_path / "data", ["aggregator", "coordinator"]) as directory:
        secret = directory.secret("collector-to-aggregator")
        assert read_key_file(secret.path) == ("collector-to-aggregator", secret.token)
        for wrong in (directory.secret("analyst").path, tmp_path / "missing"):
            with pytest.raises(InvalidSetting, match="peer-key-file"):
                read_key_file(wrong)
        secret.path.chmod(0o640)
        with pytest.raises(InvalidSetting, match="read by others"):
            read_key_file(secret.path)


def test_the_words_of_the_first_start_name_paths_and_no_secret(tmp_path):
    with DataDirectory(tmp_path / "my data", ["aggregator", "coordinator"]) as directory:
        words = "\n".join(how_to_use(directory, "http://x"))
        for secret in directory.secrets:
            assert secret.token not in words
            shown = secret.path.stem not in directory.roles
            assert (str(secret.path.relative_to(directory.path)) in words) == shown
        assert "'" in words  # a path with a space is quoted

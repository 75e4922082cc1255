"""The doctor: what is told of a machine, and what is done about it."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace

import pytest

from gpufleet.errors import EnvironmentFault
from gpufleet.rehearsal import machine
from gpufleet.rehearsal.machine import cloud, mending
from gpufleet.rehearsal.machine.check import Check, as_table, missing

GIT = Check("git", "required", ok=False, found="not installed", get="apt-get install git", packages=("git",))
RACK = Check("nspawn", "racks", ok=False, found="lacks x", get="apt-get install x", packages=("x",))
TESTS = Check("chromium", "tests", ok=False, found="not installed", packages=("chromium",))
FINE = Check("ssh", "required", ok=True, found="/usr/bin/ssh", packages=("openssh-client",))


@pytest.fixture
def apt(monkeypatch):
    """Stand in for apt-get: note every command, install nothing; the engine is there already."""
    ran = []
    monkeypatch.setattr(mending.engine, "ensure", lambda _say: ran.append("engine"))
    monkeypatch.setattr(mending, "_rights", list)
    monkeypatch.setattr(mending, "_apt", lambda words, _say, _command: ran.append(" ".join(words)))
    return ran


def test_missing_things_are_told_by_need():
    assert missing([GIT, RACK, FINE], "required") == [GIT]
    assert missing([GIT, RACK, FINE], "required", "racks") == [GIT, RACK]


def test_the_table_says_what_is_missing_and_how_to_get_it():
    table = as_table([FINE, GIT, RACK])
    assert "ok      ssh" in table
    assert "MISSING git" in table
    assert "missing nspawn" in table
    assert "get it: apt-get install git" in table
    assert table.index("required:") < table.index("for rehearsed racks:")


def test_packages_are_named_before_they_are_installed(apt):
    said = []
    mending.mend([GIT, RACK, TESTS, FINE], said.append)
    assert said[0] == "installing Debian packages: git x"
    assert apt == [
        "apt-get update -qq",
        "apt-get install -y -qq --no-install-recommends git x",
        "engine",
    ]


def test_what_tests_need_comes_only_when_asked(apt):
    mending.mend([TESTS], lambda _line: None)
    assert apt == ["engine"]
    mending.mend([TESTS], lambda _line: None, tests=True)
    assert apt[2].endswith("chromium")


def test_without_rights_a_required_package_is_a_fault_with_the_command(apt, monkeypatch):
    monkeypatch.setattr(mending, "_rights", lambda: None)
    with pytest.raises(EnvironmentFault, match="packages are missing: git") as caught:
        mending.mend([GIT], lambda _line: None)
    assert caught.value.hint.startswith("as root: apt-get install git")


def test_without_rights_a_rack_package_is_only_named(apt, monkeypatch):
    monkeypatch.setattr(mending, "_rights", lambda: None)
    said = []
    mending.mend([RACK], said.append)
    assert "as root: apt-get install x" in said[0]
    assert apt == ["engine"]


def test_a_failing_apt_is_told_with_its_last_line():
    words = ["sh", "-c", "echo 'E: Unable to locate package x'; exit 100"]
    with pytest.raises(EnvironmentFault, match="Unable to locate package x"):
        mending._apt(words, lambda _line: None, "apt-get install x")


@pytest.mark.parametrize(
    ("uid", "sudo", "expected"),
    [(0, None, []), (1000, 0, ["sudo", "-n"]), (1000, 1, None), (1000, None, None)],
)
def test_who_may_install(monkeypatch, uid, sudo, expected):
    monkeypatch.setattr(mending.os, "geteuid", lambda: uid)
    monkeypatch.setattr(
        mending.shutil, "which", lambda name: None if name == "sudo" and sudo is None else name
    )
    monkeypatch.setattr(mending.sys.stdin, "isatty", lambda: False, raising=False)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=sudo))
    assert mending._rights() == expected


def checks_by_name(home, environment):
    return {check.name: check for check in cloud.checks(home, environment)}


def test_no_credentials_are_told_with_the_command_that_makes_them(tmp_path):
    found = checks_by_name(tmp_path, {})
    assert not found["AWS credentials"].ok
    assert found["Azure credentials"].get == "az login"
    assert not found["Pulumi backend"].ok


def test_credentials_are_told_by_name_never_by_value(tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("aws_secret_access_key = hunter2")
    found = checks_by_name(tmp_path, {"ARM_CLIENT_ID": "hunter3", "PULUMI_ACCESS_TOKEN": "hunter4"})
    assert found["AWS credentials"].found == "present: ~/.aws/credentials"
    assert found["Azure credentials"].found == "present: ARM_CLIENT_ID"
    assert found["Pulumi backend"].ok
    assert "hunter" not in str(found)


@pytest.mark.parametrize(("text", "ok"), [('{"current": "file://~"}', True), ("{}", False), ("{", False)])
def test_a_pulumi_login_is_seen(tmp_path, text, ok):
    (tmp_path / ".pulumi").mkdir()
    (tmp_path / ".pulumi" / "credentials.json").write_text(text)
    assert checks_by_name(tmp_path, {})["Pulumi backend"].ok is ok


def test_a_rehearsals_backend_is_named(tmp_path):
    assert (
        checks_by_name(tmp_path, {"GPUFLEET_REHEARSAL": "dev"})["Pulumi backend"].found
        == "the rehearsal of dev"
    )


def test_a_real_provider_plugin_is_seen(tmp_path):
    (tmp_path / ".pulumi" / "plugins" / "resource-aws-v7.51.1").mkdir(parents=True)
    found = checks_by_name(tmp_path, {})
    assert found["aws provider plugin"].ok
    assert not found["gcp provider plugin"].ok


def test_the_survey_covers_what_the_work_needs(tmp_path):
    names = {check.name for check in machine.survey(tmp_path)}
    assert {
        "Python",
        "Pulumi engine",
        "ansible-core",
        "ssh",
        "root",
        "disk space",
        "PostgreSQL server",
    } <= names


def test_every_missing_thing_says_how_to_get_it(tmp_path):
    assert [check.name for check in machine.survey(tmp_path) if not check.ok and not check.get] == []


def test_the_command_prints_json_and_ends_with_3_where_something_is_missing(gpufleet, tmp_path):
    done = gpufleet(
        "doctor", "--json", cwd=tmp_path, env={"PATH": "/nowhere", "XDG_CACHE_HOME": str(tmp_path)}
    )
    report = json.loads(done.stdout)
    lacking = {check["name"] for check in report["checks"] if check["need"] == "required" and not check["ok"]}
    assert {"Pulumi engine", "ssh", "git"} - lacking <= {"ssh", "git"}
    assert (done.returncode, report["ok"]) == (3, False)
    assert "hint: gpufleet doctor --fix" in done.stderr

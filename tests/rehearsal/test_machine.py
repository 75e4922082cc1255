"""`gpufleet doctor`: what it reports about a machine, and what it installs."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace

import pytest

from gpufleet.errors import EnvironmentFault
from gpufleet.rehearsal import machine
from gpufleet.rehearsal.machine import cloud_check, repair, survey
from gpufleet.rehearsal.machine.check import (
    MachineCheck,
    PackagedProgram,
    format_check_table,
    select_failed_checks,
)

GIT = MachineCheck(
    "git", "required", ok=False, detail="not installed", remedy="apt-get install git", packages=("git",)
)
RACK = MachineCheck(
    "nspawn", "racks", ok=False, detail="missing: x", remedy="apt-get install x", packages=("x",)
)
TESTS = MachineCheck("chromium", "tests", ok=False, detail="not installed", packages=("chromium",))
FINE = MachineCheck("ssh", "required", ok=True, detail="/usr/bin/ssh", packages=("openssh-client",))


@pytest.fixture
def apt(monkeypatch):
    """Replace apt-get by a fake that records every command; the engine is already installed."""
    commands = []
    monkeypatch.setattr(repair.engine, "ensure_pulumi_engine", lambda _report: commands.append("engine"))
    monkeypatch.setattr(repair, "_privilege_command", list)
    monkeypatch.setattr(
        repair, "_run_apt", lambda command_line, _report, _command: commands.append(" ".join(command_line))
    )
    return commands


def test_missing_requirements_are_filtered_by_need():
    assert select_failed_checks([GIT, RACK, FINE], "required") == [GIT]
    assert select_failed_checks([GIT, RACK, FINE], "required", "racks") == [GIT, RACK]


def test_doctor_table_shows_missing_requirements_and_their_remedies():
    table = format_check_table([FINE, GIT, RACK])
    assert "ok      ssh" in table
    assert "MISSING git" in table
    assert "missing nspawn" in table
    assert "remedy: apt-get install git" in table
    assert table.index("required:") < table.index("for rehearsed racks:")


def test_packages_are_named_before_they_are_installed(apt):
    messages = []
    repair.install_missing_requirements([GIT, RACK, TESTS, FINE], messages.append)
    assert messages[0] == "installing Debian packages: git x"
    assert apt == [
        "apt-get update -qq",
        "apt-get install -y -qq --no-install-recommends git x",
        "engine",
    ]


def test_packages_for_tests_are_installed_only_on_request(apt):
    repair.install_missing_requirements([TESTS], lambda _line: None)
    assert apt == ["engine"]
    repair.install_missing_requirements([TESTS], lambda _line: None, include_tests=True)
    assert apt[2].endswith("chromium")


def test_promtool_is_taken_out_of_its_package_and_no_service_is_installed(apt, monkeypatch, tmp_path):
    tree = tmp_path / "tree"
    for name, text in {
        "DEBIAN/control": "Package: prometheus\nVersion: 1\nArchitecture: all\n"
        "Maintainer: x <x@x.org>\nDescription: x\n",
        "DEBIAN/postinst": f"#!/bin/sh\ntouch {tmp_path}/installed\n",
        "usr/bin/promtool": "#!/bin/sh\n",
        "usr/bin/prometheus": "#!/bin/sh\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
        (tree / name).chmod(0o644 if name == "DEBIAN/control" else 0o755)

    def run_apt(command_line, _report, _command, *, folder=None):
        apt.append(" ".join(command_line))
        if folder:
            subprocess.run(["dpkg-deb", "-b", tree, folder / "x.deb"], check=True, capture_output=True)

    monkeypatch.setattr(repair, "_run_apt", run_apt)
    (tmp_path / "venv/bin").mkdir(parents=True)
    monkeypatch.setattr(repair.sys, "prefix", str(tmp_path / "venv"))
    promtool = MachineCheck(
        "promtool", "tests", ok=False, detail="", unpacked=PackagedProgram("prometheus", "usr/bin/promtool")
    )
    repair.install_missing_requirements([promtool], lambda _line: None)
    assert apt == ["engine"], "only for the test suite"
    repair.install_missing_requirements([promtool], lambda _line: None, include_tests=True)
    assert apt[1:] == ["apt-get update -qq", "apt-get download -qq prometheus", "engine"]
    [program] = (tmp_path / "venv/bin").iterdir()
    assert (program.name, program.stat().st_mode & 0o777) == ("promtool", 0o755)
    assert not (tmp_path / "installed").exists()


def test_without_root_a_missing_required_package_is_an_error_with_the_command(apt, monkeypatch):
    monkeypatch.setattr(repair, "_privilege_command", lambda: None)
    with pytest.raises(EnvironmentFault, match="packages are missing: git") as excinfo:
        repair.install_missing_requirements([GIT], lambda _line: None)
    assert excinfo.value.hint.startswith("as root: apt-get install git")


def test_without_root_a_missing_rack_package_is_only_reported(apt, monkeypatch):
    monkeypatch.setattr(repair, "_privilege_command", lambda: None)
    messages = []
    repair.install_missing_requirements([RACK], messages.append)
    assert "as root: apt-get install x" in messages[0]
    assert apt == ["engine"]


def test_apt_failure_is_reported_with_its_last_line():
    command_line = ["sh", "-c", "echo 'E: Unable to locate package x'; exit 100"]
    with pytest.raises(EnvironmentFault, match="Unable to locate package x"):
        repair._run_apt(command_line, lambda _line: None, "apt-get install x")


@pytest.mark.parametrize(
    ("uid", "sudo", "expected"),
    [(0, None, []), (1000, 0, ["sudo", "-n"]), (1000, 1, None), (1000, None, None)],
)
def test_privilege_command_depends_on_user_and_sudo(monkeypatch, uid, sudo, expected):
    monkeypatch.setattr(repair.os, "geteuid", lambda: uid)
    monkeypatch.setattr(
        repair.shutil, "which", lambda name: None if name == "sudo" and sudo is None else name
    )
    monkeypatch.setattr(repair.sys.stdin, "isatty", lambda: False, raising=False)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=sudo))
    assert repair._privilege_command() == expected


def checks_by_name(home, environment):
    return {check.name: check for check in cloud_check.check_cloud_prerequisites(home, environment)}


def test_missing_credentials_are_reported_with_the_login_command(tmp_path):
    checks = checks_by_name(tmp_path, {})
    assert not checks["AWS credentials"].ok
    assert checks["Azure credentials"].remedy == "az login"
    assert not checks["Pulumi backend"].ok


def test_credentials_are_reported_by_name_without_their_value(tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("aws_secret_access_key = hunter2")
    checks = checks_by_name(tmp_path, {"ARM_CLIENT_ID": "hunter3", "PULUMI_ACCESS_TOKEN": "hunter4"})
    assert checks["AWS credentials"].detail == "present: ~/.aws/credentials"
    assert checks["Azure credentials"].detail == "present: ARM_CLIENT_ID"
    assert checks["Pulumi backend"].ok
    assert "hunter" not in str(checks)


@pytest.mark.parametrize(("text", "ok"), [('{"current": "file://~"}', True), ("{}", False), ("{", False)])
def test_pulumi_login_is_detected(tmp_path, text, ok):
    (tmp_path / ".pulumi").mkdir()
    (tmp_path / ".pulumi" / "credentials.json").write_text(text)
    assert checks_by_name(tmp_path, {})["Pulumi backend"].ok is ok


def test_backend_of_a_rehearsal_is_reported(tmp_path):
    assert (
        checks_by_name(tmp_path, {"GPUFLEET_REHEARSAL": "dev"})["Pulumi backend"].detail
        == "the rehearsal of dev"
    )


def test_real_provider_plugin_is_detected(tmp_path):
    (tmp_path / ".pulumi" / "plugins" / "resource-aws-v7.51.1").mkdir(parents=True)
    checks = checks_by_name(tmp_path, {})
    assert checks["aws provider plugin"].ok
    assert not checks["gcp provider plugin"].ok


def test_doctor_checks_all_requirements(tmp_path):
    names = {check.name for check in machine.survey_machine(tmp_path)}
    assert {
        "Python",
        "Pulumi engine",
        "ansible-core",
        "ssh",
        "root",
        "disk space",
        "PostgreSQL server",
    } <= names


def test_every_failed_check_has_a_remedy(tmp_path):
    assert [
        check.name for check in machine.survey_machine(tmp_path) if not check.ok and not check.remedy
    ] == []


def test_doctor_prints_json_and_exits_with_3_if_a_requirement_is_missing(gpufleet, tmp_path):
    result = gpufleet(
        "doctor", "--json", cwd=tmp_path, env={"PATH": "/nowhere", "XDG_CACHE_HOME": str(tmp_path)}
    )
    report = json.loads(result.stdout)
    missing = {check["name"] for check in report["checks"] if check["need"] == "required" and not check["ok"]}
    assert {"Pulumi engine", "ssh", "git"} - missing <= {"ssh", "git"}
    assert (result.returncode, report["ok"]) == (3, False)
    assert "hint: gpufleet doctor --fix" in result.stderr


def test_sdks_of_three_clouds_are_checked(tmp_path, monkeypatch):
    checks = checks_by_name(tmp_path, {})
    assert all(checks[f"{title} SDK"].ok for title in ("AWS", "GCP", "Azure"))
    monkeypatch.setattr(cloud_check, "_package_version", lambda _name: "")
    missing = checks_by_name(tmp_path, {})["Azure SDK"]
    assert not missing.ok
    assert "pulumi-azure-native, azure-identity, azure-mgmt-compute" in missing.detail
    assert missing.remedy == "pip install 'gpufleet[azure]'"


@pytest.mark.parametrize("is_clone", [True, False])
def test_programs_of_the_test_suite_are_listed_in_a_clone_only(tmp_path, monkeypatch, is_clone):
    monkeypatch.setattr(survey, "IS_CLONE", is_clone)
    assert any(check.need == "tests" for check in machine.survey_machine(tmp_path)) is is_clone


@pytest.mark.parametrize(
    ("files", "titles"),
    [
        (
            {"Pulumi.yaml": "", "stacks/Pulumi.dev.yaml": "pools:\n- cloud: gcp\n"},
            {"Google Cloud credentials"},
        ),
        ({"Pulumi.yaml": "", "__main__.py": 'GpuPool("a", cloud="aws")\n'}, {"AWS credentials"}),
        ({"Pulumi.yaml": ""}, {"AWS credentials", "Google Cloud credentials", "Azure credentials"}),
        ({}, {"AWS credentials", "Google Cloud credentials", "Azure credentials"}),
    ],
)
def test_survey_names_the_clouds_that_the_project_uses(tmp_path, monkeypatch, files, titles):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    names = {check.name for check in survey.survey_machine(tmp_path)}
    assert {name for name in names if name.endswith("credentials")} == titles

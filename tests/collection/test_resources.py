"""Test the module `resources` on a host of files and scripts: dpkg status, fake apt-get and systemctl."""

from __future__ import annotations

import getpass
import json
import os

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.fleet.plugins.module_utils import (
    dpkg,
    locks,
    sysctl,
    unfinished_changes,
    units,
)
from ansible_collections.gpufleet.fleet.plugins.modules import resources

# FAKES: they note how they were called and do to the host's files what the real ones would.
APT = """#!/bin/sh
echo "apt-get $*" >> "$FAKE/calls"
[ -z "$FAKE_APT_SAYS" ] || { echo "$FAKE_APT_SAYS" >&2; exit 100; }
for word; do case $word in
  -*|*=true|DPkg*|Dpkg*|APT*|update|install) ;;
  *-) sed -i "/^Package: ${word%-}$/,/^$/d" "$FAKE/status" ;;
  *) name=${word%%=*}; version=${word#*=}; [ "$version" != "$word" ] || version=9.0
     printf 'Package: %s\\nStatus: install ok installed\\nArchitecture: amd64\\nVersion: %s\\n\\n' \
       "$name" "$version" >> "$FAKE/status" ;;
esac; done
"""
MARK = """#!/bin/sh
echo "apt-mark $*" >> "$FAKE/calls"
want=install; [ "$1" = hold ] && want=hold; shift
for name; do sed -i "/^Package: $name$/,/^$/s/^Status: [a-z]* /Status: $want /" "$FAKE/status"; done
"""
DPKG = """#!/bin/sh
echo "dpkg $*" >> "$FAKE/calls"
sed -i 's/half-configured/installed/' "$FAKE/status"
"""
SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >> "$FAKE/calls"
verb=$1; shift
[ "$verb" != show ] || { shift; [ "$1" != -- ] || shift; first=yes
  for unit; do [ $first ] || echo; first=
    cat "$FAKE/units/$unit" 2>/dev/null || cat "$FAKE/units/absent"; done; exit 0; }
[ "$verb" != status ] || { echo "  └─ ConditionVirtualization=!container was not met"; exit 3; }
[ "$1" != -- ] || shift
for unit; do file="$FAKE/units/$unit"; case $verb in
  enable) sed -i 's/^UnitFileState=.*/UnitFileState=enabled/' "$file" ;;
  start) grep -q ConditionResult=no "$file" || sed -i 's/^ActiveState=.*/ActiveState=active/' "$file" ;;
  restart) [ -z "$FAKE_RESTART_FAILS" ] || { sed -i 's/^ActiveState=.*/ActiveState=failed/' "$file"; exit 1; } ;;
  stop) sed -i 's/^ActiveState=.*/ActiveState=inactive/' "$file" ;;
esac; done
"""
STATUS = """Package: dpkg
Status: install ok installed
Architecture: amd64
Version: 1.21.22

Package: mawk
Status: install ok installed
Architecture: amd64
Version: 1.3.4
Provides: awk

Package: driver
Status: hold ok installed
Architecture: amd64
Version: 1.0

"""
UNIT = (
    "LoadState={load}\nUnitFileState={file}\nActiveState={active}\nSubState=x\nResult=success\nType=simple\n"
    "ConditionResult={condition}\nConditionTimestampMonotonic=1\nNeedDaemonReload=no\nCanReload=yes\n"
    "ExecMainExitTimestampMonotonic=0\n"
)


class Host:
    """A host's folder: dpkg's record, units, the calls that its programs saw."""

    def __init__(self, root, capsys):
        self.root, self.capsys = root, capsys

    def run(self, check=False, **arguments):
        owner = {"owner": getpass.getuser()}
        if "files" in arguments:
            arguments["files"] = [owner | entry for entry in arguments["files"]]
        (self.root / "calls").write_text("")
        with patch_module_args(arguments | {"_ansible_check_mode": check}), pytest.raises(SystemExit):
            resources.main()
        return json.loads(self.capsys.readouterr().out)

    def calls(self, program):
        lines = (self.root / "calls").read_text().splitlines()
        return [line.removeprefix(f"{program} ") for line in lines if line.startswith(f"{program} ")]

    def verbs(self):
        return [
            " ".join(line.replace("-- ", "").split())
            for line in self.calls("systemctl")
            if "show" not in line
        ]

    def unit(self, name, load="loaded", file="enabled", active="active", condition="yes"):
        text = UNIT.format(load=load, file=file, active=active, condition=condition)
        (self.root / "units" / name).write_text(text)


@pytest.fixture
def host(tmp_path, monkeypatch, capsys):
    """Give a host with four fakes on PATH, a package on hold and no units."""
    for folder in ("bin", "units", "updates", "lists", "apt", "booted", "proc/net"):
        (tmp_path / folder).mkdir(parents=True)
    for name, text in {"apt-get": APT, "apt-mark": MARK, "dpkg": DPKG, "systemctl": SYSTEMCTL}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "status").write_text(STATUS)
    (tmp_path / "lists/a_Packages").write_text("")
    (tmp_path / "proc/net/core").write_text("1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setattr(dpkg, "STATUS", tmp_path / "status")
    monkeypatch.setattr(dpkg, "JOURNAL", tmp_path / "updates")
    monkeypatch.setattr(dpkg, "LISTS", tmp_path / "lists")
    monkeypatch.setattr(dpkg, "SOURCES", tmp_path / "apt")
    monkeypatch.setattr(locks, "LOCK_FILES", [str(tmp_path / "lock")])
    monkeypatch.setattr(units, "BOOTED", tmp_path / "booted")
    monkeypatch.setattr(sysctl, "PROC_SYS", tmp_path / "proc")
    monkeypatch.setattr(unfinished_changes, "RECORD", tmp_path / "run/unfinished.json")
    fake_host = Host(tmp_path, capsys)
    fake_host.unit("absent", load="not-found", file="", active="inactive")
    return fake_host


def test_satisfied_packages_start_no_package_manager(host):
    result = host.run(
        packages={"present": ["mawk", "awk", "mawk=1.3*"], "absent": ["ntp"], "held": ["driver"]}
    )
    assert (result["changed"], host.calls("apt-get"), host.calls("apt-mark")) == (False, [], [])


def test_install_and_remove_are_one_transaction(host):
    result = host.run(
        packages={"present": ["chrony", "tool=2.1"], "absent": ["mawk"], "install_recommends": False}
    )
    assert result["changed_packages"] == ["chrony", "mawk", "tool"]
    (call,) = host.calls("apt-get")
    assert call.endswith("--no-install-recommends install chrony tool=2.1 mawk-")
    assert "DPkg::Lock::Timeout=300" in call
    assert not host.run(packages={"present": ["chrony", "tool=2.1"], "absent": ["mawk"]})["changed"]


@pytest.mark.parametrize("cause", ["old", "source"])
def test_package_lists_are_fetched_if_stale(host, cause):
    if cause == "old":
        os.utime(host.root / "lists", (1, 1))
    else:
        (host.root / "apt/sources.list.d").mkdir()
        os.utime(host.root / "lists", (10**9, 10**9))
    host.run(packages={"present": ["chrony"], "cache_valid_seconds": 10**10 if cause == "source" else 3600})
    assert ["update" in call for call in host.calls("apt-get")] == [True, False]


def test_unknown_package_is_reported_after_fetching_fresh_lists(host, monkeypatch):
    monkeypatch.setenv("FAKE_APT_SAYS", "E: Unable to locate package chrny")
    result = host.run(packages={"present": ["chrny"]})
    assert result["msg"].startswith("no package chrny in this host's package lists")
    assert [call.split()[-1] for call in host.calls("apt-get")] == ["chrny", "update", "chrny"]


def test_own_package_hold_is_released_for_the_change_and_restored(host):
    result = host.run(packages={"present": ["driver=2.0"], "held": ["driver"]})
    assert host.calls("apt-mark") == ["unhold driver", "hold driver"]
    assert result["changed_packages"] == ["driver"]


def test_package_hold_is_restored_when_the_change_fails(host, monkeypatch):
    monkeypatch.setenv("FAKE_APT_SAYS", "E: You don't have enough free space in /var/cache/apt/archives/.")
    result = host.run(packages={"present": ["driver=2.0"], "held": ["driver"]})
    assert result["msg"].startswith("cannot install driver=2.0: no space left")
    assert host.calls("apt-mark")[-1] == "hold driver"


def test_package_hold_of_another_program_is_respected(host):
    result = host.run(packages={"absent": ["driver"]})
    assert result["msg"].startswith("driver is held on this host")
    assert host.calls("apt-get") == []


def test_interrupted_dpkg_is_repaired_first_and_reported(host):
    text = STATUS.replace(
        "ok installed\nArchitecture: amd64\nVersion: 1.3.4", "ok half-configured\nArchitecture: amd64"
    )
    (host.root / "status").write_text(text)
    result = host.run(packages={"present": ["dpkg"]})
    assert result["repaired"] == ["dpkg --configure -a: mawk is half-configured"]
    assert result["changed"]


def test_package_both_required_and_forbidden_is_refused(host):
    assert (
        host.run(packages={"present": ["a"], "absent": ["a"]})["msg"]
        == "a is in two lists that exclude each other"
    )


def test_resources_are_applied_in_order_and_the_second_run_changes_nothing(host, tmp_path):
    host.unit("a.service", file="disabled", active="inactive")
    path = tmp_path / "a.conf"
    resources = {
        "packages": {"present": ["chrony"]},
        "files": [{"path": str(path), "content": "x\n"}],
        "sysctl": {"net.core": 2},
        "sysctl_path": str(tmp_path / "60.conf"),
        "units": [{"name": "a.service", "enabled": True, "state": "started", "restart_on": [str(path)]}],
    }
    trial = host.run(check=True, **resources)
    assert (trial["changed_paths"], path.exists(), host.verbs()) == (
        [str(path), str(tmp_path / "60.conf")],
        False,
        [],
    )
    result = host.run(**resources)
    assert (tmp_path / "proc/net/core").read_text() == "2\n"
    assert result["changed_units"] == {"a.service": ["enable", "start"]}
    assert trial["changed_units"] == result["changed_units"]
    second_result = host.run(**resources)
    assert (second_result["changed"], second_result["changed_units"], host.verbs()) == (False, {}, [])


def test_unit_is_restarted_when_a_file_it_reads_changed(host, tmp_path):
    host.unit("a.service")
    entry = {"path": str(tmp_path / "d/a"), "content": "1"}
    (tmp_path / "d").mkdir()
    result = host.run(files=[entry], units=[{"name": "a.service", "restart_on": [f"{tmp_path}/d/"]}])
    assert result["changed_units"] == {"a.service": ["restart"]}
    assert not unfinished_changes.RECORD.exists()


def test_restart_missed_by_an_interrupted_run_is_done_by_the_next(host, tmp_path, monkeypatch):
    host.unit("a.service")
    resources = {
        "files": [{"path": str(tmp_path / "a"), "content": "1"}],
        "units": [{"name": "a.service", "restart_on": [str(tmp_path / "a")]}],
    }
    monkeypatch.setenv("FAKE_RESTART_FAILS", "yes")
    result = host.run(**resources)
    assert result["msg"].startswith("systemctl restart a.service failed")
    monkeypatch.delenv("FAKE_RESTART_FAILS")
    host.unit("a.service")
    assert host.run(**resources)["changed_units"] == {"a.service": ["restart"]}
    assert host.run(**resources)["changed"] is False


def test_unmet_start_condition_of_a_unit_is_not_a_failure(host):
    host.unit("ntp.service", active="inactive", condition="no")
    result = host.run(units=[{"name": "ntp.service", "state": "started"}])
    assert result["not_applied"]["units"] == {
        "ntp.service": "does not run: its start condition is not met (ConditionVirtualization=!container)"
    }
    assert result["changed"] is False


def test_missing_unit_is_reported(host):
    assert (
        host.run(units=[{"name": "no.service", "enabled": True}])["msg"]
        == "there is no unit no.service on this host"
    )
    absent_result = host.run(units=[{"name": "no.service", "enabled": False, "state": "stopped"}])
    assert (absent_result["changed"], "msg" in absent_result) == (False, False)


def test_check_mode_assumes_that_a_package_installs_its_unit(host):
    resources = {
        "packages": {"present": ["chrony"]},
        "units": [{"name": "chrony.service", "state": "started"}],
    }
    assert host.run(check=True, **resources)["changed_units"] == {"chrony.service": ["start"]}


def test_masked_unit_is_refused_where_it_must_be_enabled(host):
    host.unit("a.service", load="masked", file="masked", active="inactive")
    assert "is masked" in host.run(units=[{"name": "a.service", "enabled": True}])["msg"]


def test_new_unit_file_reloads_systemd(host, tmp_path, monkeypatch):
    host.unit("a.service")
    monkeypatch.setattr(units, "UNIT_FOLDERS", (f"{tmp_path}/etc/",))
    (tmp_path / "etc").mkdir()
    file = {"path": str(tmp_path / "etc/a.service"), "content": "[Service]\n"}
    assert host.run(files=[file], units=[{"name": "a.service"}])["changed_units"] == {
        "systemd": ["daemon-reload"]
    }


def test_result_does_not_contain_the_arguments(host, tmp_path):
    result = host.run(files=[{"path": str(tmp_path / "a"), "content": "secret"}])
    assert "secret" not in json.dumps(result)


def test_users_and_their_keys_are_managed(host, monkeypatch, tmp_path):
    result = host.run(check=True, users=[{"name": "gf-nobody", "authorized_keys": ["ssh-ed25519 AAAA x"]}])
    assert result["changed_users"] == ["gf-nobody"]
    assert result["changed_paths"] == ["~gf-nobody/.ssh", "~gf-nobody/.ssh/authorized_keys"]
    me = getpass.getuser()
    assert host.run(check=True, users=[{"name": me}])["changed"] is False

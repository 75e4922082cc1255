"""Faults with an amount, and the files that they add to a host."""

from __future__ import annotations

import subprocess

import pytest

from gpufleet.errors import InputError
from gpufleet.rehearsal.rack import fault_files, faults, hosts


@pytest.mark.parametrize(
    ("host_faults", "kind", "amount"),
    [
        (["apt_locked"], "apt_locked", 60),
        (["apt_locked=20", "dies"], "apt_locked", 20),
        (["dies=7"], "dies", 7),
        (["disk_full"], "disk_small", None),
        ([], "dies", None),
    ],
)
def test_amount_of_a_fault_is_parsed(host_faults, kind, amount):
    assert faults.find_fault_amount(frozenset(host_faults), kind) == amount


@pytest.mark.parametrize(
    "fault",
    ["dies=", "dies=0", "dies=many", "dies=-1", "disk_full=3", "apt_locked=999999", "die", "=4", "dies=4=5"],
)
def test_invalid_amount_is_refused_with_its_line(fault):
    with pytest.raises(InputError, match=r"unknown fault") as excinfo:
        faults.parse_faults(f"faults:\n  r/1: '{fault}'\n", "f.yaml")
    assert excinfo.value.where == "f.yaml:2"


def test_amounts_are_read_from_a_file():
    loaded = faults.parse_faults("faults: {r/1: [dies=2, apt_locked], r/2: disk_small=30}", "f")
    assert loaded.get_host_faults("r/1") == {"dies=2", "apt_locked"}
    assert loaded.get_host_faults("r/2") == {"disk_small=30"}


@pytest.mark.parametrize(
    ("host_faults", "size"),
    [([], (0, 0)), (["disk_full"], (48, 0)), (["disk_small"], (356, 100)), (["disk_small=30"], (286, 30))],
)
def test_size_of_a_memory_disk_is_parsed(host_faults, size):
    assert hosts.memory_disk_size_mib(frozenset(host_faults)) == size


def test_host_without_faults_gets_no_files():
    assert (fault_files.build_fault_files([]), fault_files.build_fault_links([])) == ({}, {})


def test_all_fault_files_are_listed_for_removal():
    host_faults = ["apt_locked", "dies"]
    assert {*fault_files.build_fault_files(host_faults), *fault_files.build_fault_links(host_faults)} == set(
        fault_files.ALL_PATHS
    )


def test_apt_lock_script_is_valid_python():
    text, mode = fault_files.build_fault_files(["apt_locked=5"])[fault_files.LOCK_SCRIPT]
    compile(text, "hold", "exec")
    assert "time.sleep(5)" in text
    assert mode == 0o755


@pytest.mark.parametrize(("sessions", "outputs"), [(2, ["", "end"]), (1, ["end", ""])])
def test_nth_session_stops_the_host_once(tmp_path, sessions, outputs):
    text, _ = fault_files.build_fault_files([f"dies={sessions}"])[fault_files.SSH_RC]
    text = text.replace("/run/", f"{tmp_path}/").replace("/var/lib/", f"{tmp_path}/lib/")
    text = text.replace("systemctl --force --force poweroff >/dev/null 2>&1", "echo end").replace(
        '"$(id -u)"', "0"
    )
    assert "exec sleep 600" in text  # no further command is executed
    text = text.replace("exec sleep 600", "exit")
    runs = [subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=True) for _ in outputs]
    assert [run.stdout.strip() for run in runs] == outputs

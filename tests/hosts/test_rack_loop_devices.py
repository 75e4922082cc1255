"""Drives of booted hosts: separate, kept across boots, and detached after a killed run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet.rehearsal.rack import loop_devices

ONE = "blades-poc/1"
ATTACH_AND_WAIT = """
import sys
from pathlib import Path
from types import SimpleNamespace
from gpufleet.rehearsal.rack import loop_devices
plan = SimpleNamespace(folder=Path(sys.argv[1]), disks=3)
print(*loop_devices.attach_loop_devices(plan), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module", autouse=True)
def skip_without_loop_devices():
    if reason := loop_devices.find_loop_device_problem():
        pytest.skip(reason)


def devices(folder):
    """Return device -> backing file for this folder, from losetup."""
    command = ["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"]
    rows = subprocess.check_output(command, text=True).splitlines()
    return dict(row.split(maxsplit=1) for row in rows if f"{folder}/" in row)


def test_host_keeps_its_drives_across_boots(box):
    box.slots = 1
    first = box.up(f"disks: {{{ONE}: 2}}")
    own_devices = devices(box.home)
    assert {Path(file).name for file in own_devices.values()} == {"1", "2"}
    device = min(own_devices, key=own_devices.get)
    rows = box.read(ONE, "lsblk --noheadings --output PATH,SERIAL").splitlines()
    assert len([line for line in rows if "FAKE" in line]) == 2
    box.read(ONE, f"mkfs.ext4 -q {device} && mount {device} /mnt && echo kept >/mnt/file")
    assert device not in Path("/proc/self/mountinfo").read_text(), "mounted in the host alone"
    subprocess.run(["kill", "-KILL", str(first[ONE].pid)], check=True)
    box.up(f"disks: {{{ONE}: 2}}")
    assert devices(box.home) == own_devices
    assert box.read(ONE, f"mount {device} /mnt && cat /mnt/file") == "kept"
    box.up(f"disks: {{{ONE}: 1}}")
    assert list(devices(box.home)) == [device]
    shutil.rmtree(box.home / "rack")
    box.down()
    assert box.leftovers() == []


def test_only_devices_of_the_killed_run_are_found(tmp_path):
    host_folder, others = tmp_path / "home/rack/blades-poc-1", tmp_path / "home/rack-of-others/host"
    command = [sys.executable, "-c", ATTACH_AND_WAIT]
    try:
        for folder in (host_folder, others):
            with subprocess.Popen(
                [*command, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as run:
                assert len(run.stdout.readline().split()) == 3
                run.kill()
        assert len(devices(host_folder)) == 3
        kept_file = host_folder / "drives/2"
        loop_devices.detach_loop_devices(host_folder.parent, files_to_keep=[kept_file])
        assert list(devices(host_folder).values()) == [str(kept_file)]
        shutil.rmtree(host_folder)
        loop_devices.detach_loop_devices(host_folder.parent)
        assert devices(host_folder) == {}
        assert len(devices(others)) == 3
    finally:
        loop_devices.detach_loop_devices(tmp_path)
    assert devices(tmp_path) == {}


def test_missing_loop_devices_are_reported_with_the_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(loop_devices, "LOOP_CONTROL", tmp_path / "loop-control")
    assert loop_devices.find_loop_device_problem().startswith(
        "this kernel, or this container, has no loop devices"
    )
    monkeypatch.undo()
    monkeypatch.setattr(loop_devices.shutil, "which", lambda *_, **__: None)
    assert loop_devices.find_loop_device_problem() == "losetup is not installed (package mount)"

"""Test the selection of scratch disks with recorded lsblk and blkid output, and a loop device."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.fleet.plugins.module_utils import disks, fstab, tools
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError
from ansible_collections.gpufleet.fleet.plugins.modules import scratch

CASES = sorted((Path(__file__).parents[1] / "cases" / "disks").glob("*.json"))
VOLUME = {"mount": "/scratch", "filesystem": "xfs", "options": ["noatime", "discard"]}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_recorded_disks_give_the_expected_plan(case):
    result = json.loads(case.read_text())
    plan_arguments = (
        result["blockdevices"],
        result["signatures"],
        result["volume"],
        result["wipe_confirmed"],
    )
    if "refusal" in result["expected"]:
        with pytest.raises(HostError) as excinfo:
            disks.plan_volume(*plan_arguments)
        assert excinfo.value.msg.startswith(result["expected"]["refusal"])
    else:
        assert disks.plan_volume(*plan_arguments) == (
            result["expected"]["device"],
            result["expected"]["steps"],
        )


def test_at_least_twenty_cases_exist():
    assert len(CASES) >= 20


def test_label_length_fits_xfs():
    assert len(disks.volume_label("/a/very/long/mount/point")) <= 12
    assert disks.volume_label("/scratch") != disks.volume_label("/scratch2")


def test_fstab_line_is_formatted():
    line = disks.fstab_line("1234", VOLUME)
    assert line == "UUID=1234 /scratch xfs noatime,discard,nofail,x-systemd.device-timeout=30s 0 0"
    assert disks.fstab_line("1", VOLUME | {"filesystem": "ext4"}).endswith(" 0 2")


def test_one_fstab_line_per_mount_is_written_and_others_are_kept():
    table = "# UUID=0 /scratch\nUUID=1 / ext4 defaults 0 1\nUUID=2 /scratch xfs defaults 0 0\n"
    line = disks.fstab_line("3", VOLUME)
    after = disks.replace_fstab_line(table, line, "/scratch")
    assert after == f"# UUID=0 /scratch\nUUID=1 / ext4 defaults 0 1\n{line}\n"
    assert disks.replace_fstab_line(after, line, "/scratch") == after


def test_signatures_on_the_device_itself_are_read_from_blkid(tmp_path):
    image = tmp_path / "disk"
    assert scratch.read_disk_signature(str(image))["TYPE"].startswith("unreadable data")
    image.write_bytes(bytes(4 << 20))
    assert scratch.read_disk_signature(str(image)) == {}
    if shutil.which("mkfs.ext4", path="/usr/sbin:/sbin"):
        subprocess.run(["/usr/sbin/mkfs.ext4", "-q", "-F", "-L", "mine", str(image)], check=True)
        assert scratch.read_disk_signature(str(image))["LABEL"] == "mine"


@pytest.fixture
def loop(tmp_path):
    """Give an empty loop device of our own; leave the test out where the machine has none to give."""
    if sys.platform != "linux" or os.geteuid() or not shutil.which("losetup"):
        pytest.skip("loop devices need root on Linux")
    image = tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    losetup = subprocess.run(
        ["losetup", "--find", "--show", image], capture_output=True, text=True, check=False
    )
    if losetup.returncode:
        pytest.skip(f"no loop device: {losetup.stderr.strip()}")
    yield losetup.stdout.strip()
    subprocess.run(["losetup", "--detach", losetup.stdout.strip()], check=True)


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run the module with a table of file systems of the test's own; systemd is not told of it."""
    for reader in (scratch, fstab):
        monkeypatch.setattr(reader, "FSTAB", tmp_path / "fstab")
    place = tmp_path / "scratch"

    def real(argv, **more):
        if argv[0] == "systemctl":
            return 0, "", ""
        if argv[0] == "mount":  # mount(8) reads no other fstab than the system's by itself
            argv = ["mount", "--fstab", str(scratch.FSTAB), *argv[1:]]
        return disks_run(argv, **more)

    disks_run = scratch.run_program
    for caller in (scratch, tools, fstab):
        monkeypatch.setattr(caller, "run_program", real)

    def call(device, check=False, **more):
        volume = {"mount": str(place), "devices": [device], "filesystem": "ext4", **more}
        with (
            patch_module_args({"volumes": [volume], "_ansible_check_mode": check}),
            pytest.raises(SystemExit),
        ):
            scratch.main()
        return json.loads(capsys.readouterr().out)

    call.place = place
    yield call
    if place.is_mount():
        subprocess.run(["umount", place], check=True)


@pytest.mark.skipif(not shutil.which("mkfs.ext4", path="/usr/sbin:/sbin"), reason="needs e2fsprogs")
def test_empty_disk_is_formatted_once_and_mounted(loop, run):
    trial = run(loop, check=True)
    assert (trial["changed"], run.place.exists()) == (True, False)
    first_result = run(loop)
    assert first_result.get("steps", [[""]])[-1][0] == "mkfs.ext4", first_result
    assert run.place.is_mount()
    assert run.place.stat().st_mode & 0o7777 == 0o1777
    (run.place / "job").write_text("kept")
    assert run(loop)["changed"] is False
    assert run(loop, mode="0755")["steps"] == []
    subprocess.run(["umount", run.place], check=True)
    assert run(loop, mode="0755")["changed"], "a volume that is not mounted is mounted, not made"
    assert (run.place / "job").read_text() == "kept"


@pytest.mark.skipif(not shutil.which("mkfs.ext4", path="/usr/sbin:/sbin"), reason="needs e2fsprogs")
def test_unknown_file_system_is_refused(loop, run):
    subprocess.run(["mkfs.ext4", "-q", "-L", "thesis", loop], check=True)
    message = run(loop)
    assert message["failed"]
    assert f"{loop} contains ext4; it has no serial" in message["msg"]
    assert scratch.read_disk_signature(loop)["LABEL"] == "thesis"


@pytest.mark.skipif(not shutil.which("mkfs.ext4", path="/usr/sbin:/sbin"), reason="needs e2fsprogs")
def test_volume_is_not_mounted_over_files(loop, run):
    (run.place / "models").mkdir(parents=True)
    (run.place / "models/weights").write_text("kept")
    assert run(loop)["msg"].endswith(
        "this folder has files that the volume would hide; move them, then run again"
    )
    assert scratch.read_disk_signature(loop) == {}, "refused before the disk is formatted"
    (run.place / "models/weights").unlink()
    assert run(loop)["changed"], "empty folders hide nothing"


@pytest.mark.skipif(not shutil.which("mkfs.ext4", path="/usr/sbin:/sbin"), reason="needs e2fsprogs")
def test_file_system_grows_with_its_disk(loop, run, tmp_path):
    """XFS grows on a booted host: tests/roles/test_storage.py."""
    assert run(loop)["changed"]
    (run.place / "weights").write_text("kept")
    os.truncate(tmp_path / "disk", 2 << 30)
    subprocess.run(["losetup", "--set-capacity", loop], check=True)
    trial = run(loop, check=True)
    assert (trial["changed"], trial["steps"]) == (True, [["resize2fs", loop]])
    grown = run(loop)
    assert (run.place / "weights").read_text() == "kept"
    if grown.get("failed"):  # ext4 asks for CAP_SYS_RESOURCE, which a container's root may not have
        reason = "its disk has grown, but its file system could not: resize2fs: Permission denied"
        assert grown["msg"].startswith(f"{run.place}: {reason}")
        pytest.skip(grown["msg"])
    assert shutil.disk_usage(run.place).total > 1800 << 20
    assert run(loop)["changed"] is False


@pytest.mark.skipif(not shutil.which("mkfs.ext4", path="/usr/sbin:/sbin"), reason="needs e2fsprogs")
def test_kept_mode_leaves_the_folder_to_its_service(loop, run):
    assert run(loop, mode="keep", owner="nobody-known")["changed"]
    os.chown(run.place, 1000, 1000)
    run.place.chmod(0o700)
    assert run(loop, mode="keep", owner="nobody-known")["changed"] is False
    assert (run.place.stat().st_uid, run.place.stat().st_mode & 0o7777) == (1000, 0o700)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"ro": True}, "/dev/sdb is read-only and cannot be emptied: name another disk"),
        (
            {"mountpoints": ["/data"]},
            "/dev/sdb is in use: /data: unmount it, or name another disk",
        ),
    ],
)
def test_disk_that_cannot_be_emptied_is_refused_with_the_reason(facts, message):
    disk = {"path": "/dev/sdb", "serial": "S1", "mountpoints": [], "ro": False} | facts
    with pytest.raises(HostError) as excinfo:
        disks.disk_clear_commands(disk, {"TYPE": "ext4"}, ["S1"])
    assert str(excinfo.value) == message

"""Test scratch volumes on block devices of a booted host: created, mounted, never on a device with content."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from types import SimpleNamespace

import pytest

from gpufleet import fleet
from gpufleet.nodes.pool_storage import build_pool_storage
from gpufleet.rehearsal.rack import loop_devices

HEAD = 16 << 20
EMPTY = hashlib.sha256(bytes(HEAD)).hexdigest()
ROLE = """
- name: Scratch
  hosts: all
  gather_facts: false
  tasks:
    - name: Operators first
      ansible.builtin.user: {name: ada, create_home: false}
    - name: Scratch
      ansible.builtin.import_role: {name: gpufleet.fleet.storage}
"""
REFUSALS = """
- name: Refusals
  hosts: all
  gather_facts: false
  tasks:
    - name: Ask for what must not be
      gpufleet.fleet.scratch:
        volumes: "{{ item.volumes }}"
        wipe_confirmed: "{{ item.confirmed | default([]) }}"
      loop: "{{ asked }}"
      ignore_errors: true
"""
# One entry of a table as a PC's boot sector has it: Linux (83), from sector 2048, 200 MiB.
PARTITION = bytes([0, 0, 0, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little") + (409600).to_bytes(4, "little")

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
VOLUMES = "/var/lib/gpufleet/volumes"


def declare_cloud_volumes(*names):
    """Return what the inventory gives a node on Google with one local SSD and a disk for each name."""
    application = {"volumes": [{"name": name, "size_gib": 10, "kind": "ssd"} for name in names]}
    pool = {"name": "train", "cloud": "gcp", "region": "us-central1", "zones": ["us-central1-a"], "count": 1,
            "machine": "a2-ultragpu-1g", "purchase": {"kind": "on_demand"}, "template": "t"}  # fmt: skip
    spec = {
        "owner": "ml",
        "ssh": {"authorized_keys": [KEY], "allowed_cidrs": ["10.0.0.0/8"]},
        "pools": [pool],
        "templates": {
            "t": {
                "hardware": {"storage": {"layout": "raid0", "mount": "/fast"}},
                "application": application,
            }
        },
    }
    declared = fleet.parse_fleet(spec, stack="lab")
    return list(build_pool_storage(declared, declared.pools[0]))


def octal(data):
    return "".join(f"\\{byte:03o}" for byte in data)


@pytest.fixture(scope="module")
def storage_host(make_lab):
    """Give a host with six drives: four empty ones, one with somebody's file system, one with a partition table."""
    if reason := loop_devices.find_loop_device_problem():
        pytest.skip(reason)
    lab = make_lab("storage")
    lab.up({"disk01": {"disks": 6}})
    host = lab.host("disk01")
    first, second, thesis, table, local, network = lab.drives("disk01")
    host.check_output(f"mkfs.ext4 -q -L thesis {thesis}")
    entry = octal(PARTITION)
    host.check_output(f"printf '{entry}' | dd of={table} bs=1 seek=446 status=none")
    host.check_output(f"printf '{octal(bytes([0x55, 0xAA]))}' | dd of={table} bs=1 seek=510 status=none")
    disks = json.loads(host.check_output("lsblk --json --output PATH,SERIAL"))["blockdevices"]
    return SimpleNamespace(
        lab=lab, host=host, first=first, second=second, thesis=thesis, table=table,
        local=local, network=network,
        serials={disk["path"]: disk["serial"] for disk in disks},
        head=lambda *paths: [host.check_output(f"head -c {HEAD} {p} | sha256sum").split()[0] for p in paths],
    )  # fmt: skip


@pytest.fixture(scope="module")
def volumes(storage_host):
    return [
        {
            "mount": "/scratch",
            "devices": [storage_host.first],
            "count": 1,
            "filesystem": "ext4",
            "options": ["noatime", "nodev"],
            "owner": "ada",
            "group": "ada",
            "mode": "0750",
        },
        {"mount": "/srv/fast", "devices": [storage_host.second], "count": 1},
    ]


@pytest.fixture(scope="module")
def created_volumes(storage_host, volumes):
    """Run the role in check mode, for real, again."""
    look = "cat /etc/fstab; ls -d /scratch /srv/fast; dpkg-query -W; cut -d' ' -f1-3 /proc/mounts"
    seen, variables = SimpleNamespace(before=storage_host.host.run(look).stdout), {"storage_scratch": volumes}
    seen.check = storage_host.lab.run(ROLE, check=True, extra_vars=variables)
    seen.after_check = storage_host.host.run(look).stdout
    seen.heads = storage_host.head(storage_host.first, storage_host.second)
    seen.first, seen.again = (storage_host.lab.run(ROLE, extra_vars=variables) for _ in range(2))
    return seen


def find_mount(storage_host, place):
    completed = storage_host.host.run(
        f"findmnt --json --mountpoint {place} --output SOURCE,FSTYPE,OPTIONS,UUID"
    )
    return json.loads(completed.stdout)["filesystems"][0] if completed.rc == 0 else None


def test_check_mode_leaves_the_disks_blank(storage_host, created_volumes):
    assert created_volumes.check.failure_text("disk01") is None
    assert "Create and mount scratch space" in " ".join(created_volumes.check.changed_tasks("disk01"))
    assert created_volumes.after_check == created_volumes.before
    assert created_volumes.heads == [EMPTY, EMPTY]


def test_second_run_changes_nothing(created_volumes):
    assert created_volumes.first.failure_text("disk01") is None
    assert any(
        "Create and mount scratch space" in task for task in created_volumes.first.changed_tasks("disk01")
    )
    assert created_volumes.again.failure_text("disk01") is None
    assert created_volumes.again.changed_tasks("disk01") == []


def test_volumes_are_mounted_by_uuid_with_their_options_and_nofail(storage_host, created_volumes):
    table = [line.split() for line in storage_host.host.file("/etc/fstab").content_string.splitlines()]
    rows = {row[1]: row for row in table if row and row[0].startswith("UUID=")}
    for place, device, kind, order in (
        ("/scratch", storage_host.first, "ext4", "2"),
        ("/srv/fast", storage_host.second, "xfs", "0"),
    ):
        seen = find_mount(storage_host, place)
        assert (seen["source"], seen["fstype"]) == (device, kind)
        assert "noatime" in seen["options"].split(",")
        source, _, fstype, options, _, last = rows[place]
        assert (source, fstype, last) == (f"UUID={seen['uuid']}", kind, order)
        assert "nofail" in options.split(",")
    assert "nodev" in find_mount(storage_host, "/scratch")["options"].split(",")
    assert storage_host.host.run("findmnt --verify --tab-file /etc/fstab").rc == 0


def test_owner_can_write_and_others_follow_the_mode(storage_host, created_volumes):
    folder = storage_host.host.file("/scratch")
    assert (folder.user, folder.group, folder.mode) == ("ada", "ada", 0o750)
    assert storage_host.host.file("/srv/fast").mode == 0o1777
    write = "setpriv --reuid {0} --regid {1} --clear-groups sh -c 'echo mine >{2}/of-{0}'"
    storage_host.host.check_output(write.format("ada", "ada", "/scratch"))
    storage_host.host.check_output(write.format("nobody", "nogroup", "/srv/fast"))
    assert storage_host.host.run(write.format("nobody", "nogroup", "/scratch")).rc != 0


def test_volume_is_remounted_from_fstab_with_its_files(storage_host, created_volumes):
    storage_host.host.check_output("echo kept >/scratch/job && umount /scratch /srv/fast && mount --all")
    assert find_mount(storage_host, "/srv/fast")["source"] == storage_host.second
    assert storage_host.host.file("/scratch/job").content_string == "kept\n"


@pytest.fixture(scope="module")
def refused_volumes(storage_host, created_volumes):
    """Ask in one run for everything that must be refused; give the answers and the disks' bytes before and after."""
    storage_host.host.check_output(
        f"mkdir -p /dev/disk/by-id && cd /dev/disk/by-id && ln -sf ../../{storage_host.thesis[5:]} of-ada && "
        f"ln -sf ../../{storage_host.thesis[5:]} google-data"
    )
    serial = storage_host.serials

    def volume_on(device, confirmed=(), **more):
        volume = {"mount": "/other", "devices": [device], "filesystem": "ext4", **more}
        return {"volumes": [volume], "confirmed": [serial[path] for path in confirmed]}

    volumes_by_problem = {
        "file system": volume_on(storage_host.thesis),
        "partition table": volume_on(storage_host.table),
        "by its link": volume_on("/dev/disk/by-id/of-*"),
        "of a cloud": {"volumes": [declare_cloud_volumes("data")[-1]]},
        "another's serial": volume_on(storage_host.thesis, [storage_host.table]),
        "in use": volume_on(storage_host.first, [storage_host.first]),
        "mount point": volume_on(storage_host.thesis, [storage_host.thesis], mount="/scratch"),
        "root": volume_on(storage_host.thesis, [storage_host.thesis], mount="/"),
        "owner": volume_on(storage_host.thesis, [storage_host.thesis], owner="nobody-known"),
        "mode": volume_on(storage_host.thesis, [storage_host.thesis], mode="rwx"),
        "raid": volume_on(
            storage_host.thesis,
            [storage_host.thesis, storage_host.table],
            devices=[storage_host.thesis, storage_host.table],
        ),
    }
    if has_raid := storage_host.host.run("grep -q raid0 /proc/mdstat || modprobe -nq raid0").rc == 0:
        del volumes_by_problem["raid"]  # an array would be the machine's own, not the host's
    before, table = (
        storage_host.head(storage_host.thesis, storage_host.table),
        storage_host.host.file("/etc/fstab").content_string,
    )
    run = storage_host.lab.run(REFUSALS, extra_vars={"asked": list(volumes_by_problem.values())})
    answers = run.results_of("disk01")[-1].output["results"]
    return SimpleNamespace(
        messages={key: answer.get("msg") for key, answer in zip(volumes_by_problem, answers, strict=True)},
        before=before, after=storage_host.head(storage_host.thesis, storage_host.table), has_raid=has_raid,
        table=(table, storage_host.host.file("/etc/fstab").content_string),
    )  # fmt: skip


def test_devices_with_content_are_refused_and_unchanged(storage_host, refused_volumes):
    remedy = "to erase it, add its serial to storage_wipe_confirmed"
    thesis = f"{storage_host.thesis} contains ext4; {remedy}: {storage_host.serials[storage_host.thesis]}"
    assert refused_volumes.messages["file system"] == thesis
    assert refused_volumes.messages["by its link"] == thesis
    assert refused_volumes.messages["of a cloud"] == thesis, "a network volume with data is never formatted"
    assert refused_volumes.messages["another's serial"] == thesis
    serial = storage_host.serials[storage_host.table]
    table = f"{storage_host.table} has a partition table (dos); {remedy}: {serial}"
    assert refused_volumes.messages["partition table"] == table
    remedy = "unmount it, or name another disk"
    assert refused_volumes.messages["in use"] == f"{storage_host.first} is in use: /scratch: {remedy}"
    assert refused_volumes.before == refused_volumes.after
    assert EMPTY not in refused_volumes.before
    assert refused_volumes.table[0] == refused_volumes.table[1]


def test_invalid_volumes_are_refused_before_a_disk_is_wiped(refused_volumes):
    assert refused_volumes.messages["mount point"] == "/scratch: another file system is mounted there"
    assert refused_volumes.messages["root"] == "/: another file system is mounted there"
    assert refused_volumes.messages["owner"] == "/other: user nobody-known or group root does not exist"
    assert refused_volumes.messages["mode"] == "/other: mode rwx is not an octal number"
    assert refused_volumes.before == refused_volumes.after


def test_raid_without_kernel_support_is_refused_in_one_line(storage_host, refused_volumes):
    if refused_volumes.has_raid:
        pytest.skip("this kernel has raid0, and an array would be the machine's own")
    release = storage_host.host.check_output("uname -r")
    assert refused_volumes.messages["raid"] == f"/other: the running kernel ({release}) has no raid0"


@pytest.fixture(scope="module")
def created_later(storage_host, refused_volumes, volumes):
    """Change options, unmount a volume, name a serial: run the role, write a file, run it again."""
    storage_host.host.check_output("echo kept >/srv/fast/job && umount /srv/fast")
    other = {**volumes[0], "options": ["noatime", "nodev", "nosuid"]}
    won = {"mount": "/won", "devices": [storage_host.thesis], "filesystem": "ext4"}
    variables = {
        "storage_scratch": [other, volumes[1], won],
        "storage_wipe_confirmed": [storage_host.serials[storage_host.thesis]],
    }
    run = storage_host.lab.run(ROLE, extra_vars=variables)
    storage_host.host.check_output("echo kept >/won/job")
    return SimpleNamespace(run=run, again=storage_host.lab.run(ROLE, extra_vars=variables))


def test_changed_mount_options_are_active_at_once(storage_host, created_later):
    assert created_later.run.failure_text("disk01") is None
    assert "nosuid" in find_mount(storage_host, "/scratch")["options"].split(",")


def test_unmounted_volume_is_mounted_and_not_formatted(storage_host, created_later):
    assert find_mount(storage_host, "/srv/fast")["source"] == storage_host.second
    assert storage_host.host.file("/srv/fast/job").content_string == "kept\n"


def test_disk_is_wiped_once_after_its_serial_is_confirmed(storage_host, refused_volumes, created_later):
    assert find_mount(storage_host, "/won")["source"] == storage_host.thesis
    assert storage_host.head(storage_host.table) == refused_volumes.before[1:], "the other disk is as it was"
    assert (created_later.again.failure_text("disk01"), created_later.again.changed("disk01")) == (None, 0)
    assert storage_host.host.file("/won/job").content_string == "kept\n"


def test_only_required_packages_are_installed(storage_host, created_volumes, created_later):
    def installed(run):
        return next(r.output for r in run.results_of("disk01") if "Install tools for arrays" in r.task)[
            "changed_packages"
        ]

    assert "xfsprogs" in installed(created_volumes.first)
    assert "mdadm" not in installed(created_volumes.first), "one disk each: no array, no mdadm"
    assert "mdadm" in installed(created_later.run), "a disk to be emptied may be a part of an array"
    assert not storage_host.host.package("exim4-base").is_installed, "mdadm recommends a mail server"


def grow_drive(device, size):
    """Grow a drive as a cloud grows a volume: its size changes under the running system."""
    show = ["losetup", "--noheadings", "--output", "BACK-FILE", device]
    os.truncate(subprocess.check_output(show, text=True).strip(), size)
    subprocess.run(["losetup", "--set-capacity", device], check=True)


@pytest.fixture(scope="module")
def cloud_volumes(storage_host):
    """Configure the host as a node on Google, whose udev names the drives; run again, and as a replaced node."""
    host, links = storage_host.host, "mkdir -p /dev/disk/by-id && cd /dev/disk/by-id"
    for name, device in (
        ("local-nvme-ssd-0", storage_host.local),
        ("models", storage_host.network),
    ):
        links += f" && ln -sf ../../{device[5:]} google-{name}"
    host.check_output(links)
    variables = {"gpufleet_volumes": declare_cloud_volumes("models")}
    seen = SimpleNamespace(first=storage_host.lab.run(ROLE, extra_vars=variables))
    # As the service of a container with a user of its own does at each start.
    host.check_output(f"install -d -o 1000 {VOLUMES}/models && echo kept >{VOLUMES}/models/weights")
    seen.again = storage_host.lab.run(ROLE, extra_vars=variables)
    seen.mounts = {place: find_mount(storage_host, place) for place in ("/fast", f"{VOLUMES}/models")}
    grow_drive(storage_host.network, 1200 << 20)
    # The boot disk is a new one, the volume is not.
    host.check_output(
        f"umount {VOLUMES}/models && rmdir {VOLUMES}/models && sed -i '\\#{VOLUMES}#d' /etc/fstab"
    )
    seen.replaced = storage_host.lab.run(ROLE, extra_vars=variables)
    return seen


def test_volumes_of_a_cloud_node_are_formatted_and_mounted_once(storage_host, cloud_volumes):
    assert cloud_volumes.first.failure_text("disk01") is None
    mounts = {place: (seen["source"], seen["fstype"]) for place, seen in cloud_volumes.mounts.items()}
    assert mounts == {
        "/fast": (storage_host.local, "ext4"),
        f"{VOLUMES}/models": (storage_host.network, "xfs"),
    }
    assert (cloud_volumes.again.failure_text("disk01"), cloud_volumes.again.changed("disk01")) == (None, 0)


def test_kept_volume_of_a_replaced_node_is_mounted_and_only_grown(storage_host, cloud_volumes):
    assert cloud_volumes.replaced.failure_text("disk01") is None
    (result,) = [
        r.output for r in cloud_volumes.replaced.results_of("disk01") if "Create and mount" in r.task
    ]
    assert (result["changed"], result["steps"]) == (True, [["xfs_growfs", f"{VOLUMES}/models"]])
    mebibytes = storage_host.host.check_output(f"df --output=size -BM {VOLUMES}/models | tail -1")
    assert int(mebibytes.strip().rstrip("M")) > 1000
    weights = storage_host.host.file(f"{VOLUMES}/models/weights")
    assert weights.content_string == "kept\n"
    assert storage_host.host.file(f"{VOLUMES}/models").uid == 1000

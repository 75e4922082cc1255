"""The files that make a host itself, laid before it boots."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpufleet.burnin.agent import fabric as agent_fabric
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.checks.hardware import measure as agent_hardware
from gpufleet.fleet import NodeHardware
from gpufleet.rehearsal.rack import layout
from gpufleet.rehearsal.rack.faults import NO_FAULTS
from gpufleet.rehearsal.rack.keys import ensure_ssh_key, format_known_hosts
from gpufleet.rehearsal.rack.plan import plan_hosts

IMAGE = Path("/cache/bookworm-amd64-0123456789ab")
KEY = "ssh-ed25519 AAAAC3 operator"


@pytest.fixture
def plan(tmp_path):
    node = SimpleNamespace(
        name="blade07",
        slot=7,
        serial=None,
        mac=None,
        storage_gb=500.0,
        machine="a board",
        accelerators=(),
        hardware=NodeHardware(),
    )
    use = SimpleNamespace(name="blades-1", rack=SimpleNamespace(kind="blades", nodes=[node]))
    return plan_hosts(tmp_path, [use], {"blades-1": 1}, NO_FAULTS, "amd64")[0]


def with_fault(plan, *faults):
    return replace(plan, faults=frozenset(faults))


def text(plan, name):
    return (plan.folder / "root" / name).read_text()


def test_host_files_contain_its_identity(plan):
    layout.write_host_files(plan, IMAGE, KEY, {})
    assert text(plan, "etc/hostname") == "blade07\n"
    assert text(plan, "etc/machine-id") == f"{plan.machine_id}\n"
    assert text(plan, "root/.ssh/authorized_keys") == f"{KEY}\n"
    assert text(plan, "etc/ssh/ssh_host_ed25519_key.pub") == layout.read_public_host_key(plan)
    assert (plan.folder / "devicetree/base/serial-number").read_text() == f"{plan.serial}\0"


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("root", 0o700),
        ("root/.ssh", 0o700),
        ("root/.ssh/authorized_keys", 0o600),
        ("etc/ssh/ssh_host_ed25519_key", 0o600),
        ("etc/hostname", 0o644),
        ("usr/local/bin/vcgencmd", 0o755),
    ],
)
def test_file_modes_satisfy_sshd(plan, name, mode):
    layout.write_host_files(plan, IMAGE, KEY, {})
    assert stat.S_IMODE((plan.folder / "root" / name).stat().st_mode) == mode


def test_changes_on_a_host_survive_its_next_start(plan):
    layout.write_host_files(plan, IMAGE, KEY, {})
    before = layout.read_public_host_key(plan)
    (plan.folder / "root/etc/hostname").write_text("renamed\n")
    layout.write_host_files(plan, IMAGE, KEY, {})
    assert (text(plan, "etc/hostname"), layout.read_public_host_key(plan)) == ("renamed\n", before)


def test_changed_image_resets_the_host(plan):
    layout.write_host_files(plan, IMAGE, KEY, {})
    (plan.folder / "root/etc/mark").write_text("old")
    layout.write_host_files(plan, IMAGE.with_name("bookworm-amd64-ffffffffffff"), KEY, {})
    assert not (plan.folder / "root/etc/mark").exists()


def test_interrupted_preparation_of_a_host_is_repeated(plan):
    layout.write_host_files(plan, IMAGE, KEY, {})
    (plan.folder / "laid").unlink()
    (plan.folder / "root/etc/hostname").write_text("half")
    layout.write_host_files(plan, IMAGE, KEY, {})
    assert text(plan, "etc/hostname") == "blade07\n"


def test_pi_facts_reflect_the_faults(plan):
    flags = []
    for faults in ((), ("undervoltage",), ()):
        layout.write_host_files(with_fault(plan, *faults), IMAGE, KEY, {})
        flags.append(json.loads(text(plan, "etc/gpufleet-rehearsal/pi.json"))["throttled"])
    assert flags == ["0x0", "0x50005", "0x0"]


def test_sshd_settings_reflect_the_faults(plan):
    mask = plan.folder / "root/etc/systemd/system/ssh.service"
    layout.write_host_files(with_fault(plan, "unreachable"), IMAGE, KEY, {})
    assert str(mask.readlink()) == "/dev/null"
    layout.write_host_files(plan, IMAGE, KEY, {})
    assert not mask.is_symlink()


def test_nvme_drives_are_listed_as_in_sysfs(plan):
    layout.write_host_files(plan, IMAGE, KEY, {})
    nvme = "etc/gpufleet-rehearsal/sys/class/nvme/nvme0"
    assert text(plan, f"{nvme}/device/current_link_speed") == "5.0 GT/s PCIe\n"
    assert text(plan, f"{nvme}/nvme0n1/size") == "976773168\n"
    assert text(plan, f"{nvme}/model").startswith("FAKE")


@pytest.mark.parametrize("changed", [{"kind": "bench"}, {"storage_gb": None}])
def test_host_without_declared_nvme_has_none(plan, changed):
    other = replace(plan, **changed)
    layout.write_host_files(other, IMAGE, KEY, {})
    assert not (plan.folder / "root/etc/gpufleet-rehearsal/sys").exists()
    assert (plan.folder / "root/usr/local/bin/bladectl").exists() == (other.kind == "blades")


def test_declared_hardware_of_a_server_is_listed_as_in_sysfs(plan):
    fabric = {"kind": "infiniband", "adapters": 8, "gbit_per_s": 3200}
    hardware = NodeHardware.model_validate({"drives": 2, "interfaces": 3, "fabric": fabric})
    layout.write_host_files(replace(plan, kind="servers", hardware=hardware), IMAGE, KEY, {})
    sysfs = plan.folder / "root/etc/gpufleet-rehearsal/sys"
    host = HostAccess(params={}, root="/")
    drives = agent_hardware.list_nvme_drives(host, str(sysfs))
    assert [drive["namespaces"] for drive in drives] == [[976773168]] * 2
    found = agent_fabric.read_fabric(host, str(sysfs))
    assert [entry["type"] for entry in found["interfaces"]] == ["1"] * 3
    assert {(p["link_layer"], p["state"], p["rate"]) for p in found["rdma"]} == {
        ("InfiniBand", "4: ACTIVE", "400 Gb/sec (4X)")
    }
    assert len(found["rdma"]) == 8


def test_keys_are_generated_once_and_match(tmp_path):
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

    public = ensure_ssh_key(tmp_path / "ssh/key", "me")
    private = load_ssh_private_key((tmp_path / "ssh/key").read_bytes(), None)
    derived = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    assert public == f"{derived} me" == ensure_ssh_key(tmp_path / "ssh/key", "me")
    assert stat.S_IMODE((tmp_path / "ssh/key").stat().st_mode) == 0o600


def test_incomplete_key_pair_is_generated_again(tmp_path):
    first = ensure_ssh_key(tmp_path / "key", "me")
    (tmp_path / "key.pub").unlink()
    assert ensure_ssh_key(tmp_path / "key", "me") != first


def test_known_hosts_lines_contain_only_address_and_key():
    assert (
        format_known_hosts({"198.18.1.11": "ssh-ed25519 AAAA blade01\n"}) == "198.18.1.11 ssh-ed25519 AAAA\n"
    )


@pytest.mark.parametrize(
    ("kind", "tools"),
    [
        ("blades", {"vcgencmd", "bladectl", "rpi-eeprom-config"}),
        ("bench", {"vcgencmd", "rpi-eeprom-config"}),  # a Pi without a blade around it
        ("servers", set()),
    ],
)
def test_host_has_the_tools_of_its_kind(plan, kind, tools):
    layout.write_host_files(replace(plan, kind=kind), IMAGE, KEY, {})
    folder = plan.folder / "root/usr/local/bin"
    written = {path.name for path in folder.glob("*")} if folder.is_dir() else set()
    assert written & {"vcgencmd", "bladectl", "rpi-eeprom-config"} == tools

"""The files of one host, written over the shared image before it boots.

Names, keys and ids are written once, when the host's root is new: later changes on the host are kept. The facts of
the fake tools and the faults are written at every start.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from gpufleet.rehearsal.rack import fake_drive, fake_sysfs, fault_files, pci
from gpufleet.rehearsal.rack.keys import ensure_ssh_key
from gpufleet.rehearsal.rack.plan import HostPlan

FAKE_HARDWARE = "etc/gpufleet-rehearsal"
DRIVE_RECORDS = "etc/tmpfiles.d/gpufleet-rehearsal-drives.conf"
DEVICE_TREE = "devicetree"
HOST_KEY = "ssh_host_ed25519_key"
CHANGED_KEY = "other_key"  # used instead with the fault changed_host_key
MODELS = {
    "blades": "Raspberry Pi Compute Module 4 Rev 1.1 (FAKE: rehearsed host)",
    "bench": "Raspberry Pi 5 Model B Rev 1.0 (FAKE: rehearsed host)",
    "servers": "GPU server (FAKE: rehearsed host)",
}
TOOLS = {
    "blades": ("vcgencmd", "bladectl", "rpi-eeprom-config"),
    "bench": ("vcgencmd", "rpi-eeprom-config"),
    "servers": (),
}
# The factory settings of a CM4.
BOOT_CONF = "[all]\nBOOT_UART=0\nWAKE_ON_GPIO=1\nPOWER_OFF_ON_HALT=0\nBOOT_ORDER=0xf25641\n"
THROTTLED = {
    False: "0x0",
    True: "0x50005",
}  # now and since boot: undervoltage (bit 0, 16), throttled (bit 2, 18)


def write_host_files(plan: HostPlan, image: Path, operator_key: str, apt_files: Mapping[str, str]) -> None:
    """Prepare the host's folder for booting; ``apt_files`` depend on the rack's network and are always written."""
    root, completion_marker = plan.folder / "root", plan.folder / "laid"
    if not completion_marker.is_file() or completion_marker.read_text() != image.name:
        shutil.rmtree(plan.folder, ignore_errors=True)
    for name in ("root", "work", "merged", "small"):
        (plan.folder / name).mkdir(parents=True, exist_ok=True)
    ensure_ssh_key(plan.folder / HOST_KEY, plan.name)
    ensure_ssh_key(plan.folder / CHANGED_KEY, plan.name)
    _write_device_tree(plan)
    if not completion_marker.is_file():
        _write_identity(plan, root, operator_key)
        _write_fake_hardware(plan, root)
        completion_marker.write_text(image.name)
    for name, text in apt_files.items():
        _write_file(root / name, text)
    _write_faults(plan, root)


def write_udev_records(plan: HostPlan, udev_records: str) -> None:
    """Write the udev records of the host's drives."""
    (plan.folder / "root" / DRIVE_RECORDS).unlink(missing_ok=True)
    if udev_records:
        _write_file(plan.folder / "root" / DRIVE_RECORDS, udev_records)


def read_public_host_key(plan: HostPlan) -> str:
    """Return the public key for the known-hosts file; with the fault changed_host_key the host uses another."""
    return (plan.folder / f"{HOST_KEY}.pub").read_text()


def _write_identity(plan: HostPlan, root: Path, operator_key: str) -> None:
    _write_file(root / "etc/hostname", f"{plan.name}\n")
    _write_file(root / "etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {plan.name}\n")
    _write_file(root / "etc/machine-id", f"{plan.machine_id}\n")
    _write_file(root / "root/.ssh/authorized_keys", f"{operator_key}\n", 0o600)
    (root / "root").chmod(0o700)
    (root / "root/.ssh").chmod(0o700)


def _write_fake_hardware(plan: HostPlan, root: Path) -> None:
    data = resources.files("gpufleet.rehearsal") / "data"
    for tool in TOOLS[plan.kind]:
        _write_file(root / "usr/local/bin" / tool, (data / f"{tool}.sh").read_text(), 0o755)
    if "rpi-eeprom-config" in TOOLS[plan.kind]:
        _write_file(root / FAKE_HARDWARE / "boot.conf", BOOT_CONF)
    fake_drive.write_fake_drive(root / FAKE_HARDWARE / "disks", plan.serial)
    sysfs_files = fake_sysfs.build_declared_sysfs_files(plan.hardware, plan.storage_gb)
    if plan.kind == "blades" and plan.storage_gb:
        sysfs_files |= fake_sysfs.build_nvme_files(0, plan.storage_gb)
    for name, text in sysfs_files.items():
        _write_file(root / FAKE_HARDWARE / "sys" / name, f"{text}\n")
    for name, text in pci.build_pci_sysfs_files(plan.accelerators).items():
        _write_file(root / FAKE_HARDWARE / "sys/bus/pci/devices" / name, text)


def _write_device_tree(plan: HostPlan) -> None:
    """Write serial and model where a Pi's firmware has them (bound to /sys/firmware/devicetree).

    A server has them under /sys/class/dmi, where a container cannot bind files; so a server has them here too.
    """
    base = plan.folder / DEVICE_TREE / "base"
    _write_file(base / "serial-number", f"{plan.serial}\0")
    _write_file(base / "model", f"{MODELS[plan.kind]}\0")


def _write_faults(plan: HostPlan, root: Path) -> None:
    pi_facts = {
        "throttled": THROTTLED["undervoltage" in plan.faults],
        "temp_c": round(48 + plan.slot % 7 * 0.8, 1),
        "fan_percent": 40,
        "supply": "poe+",  # 802.3at, as bladectl prints it
    }
    _write_file(root / FAKE_HARDWARE / "pi.json", json.dumps(pi_facts, indent=1) + "\n")
    key_name = CHANGED_KEY if "changed_host_key" in plan.faults else HOST_KEY
    for suffix, mode in (("", 0o600), (".pub", 0o644)):
        _write_file(
            root / f"etc/ssh/{HOST_KEY}{suffix}", (plan.folder / f"{key_name}{suffix}").read_text(), mode
        )
    _write_fault_files(plan, root)
    for unit in ("ssh.service", "ssh.socket"):
        mask = root / "etc/systemd/system" / unit
        mask.parent.mkdir(parents=True, exist_ok=True)
        if mask.is_symlink():
            mask.unlink()
        if "unreachable" in plan.faults:
            mask.symlink_to("/dev/null")


def _write_fault_files(plan: HostPlan, root: Path) -> None:
    for name in fault_files.ALL_PATHS:
        (root / name).unlink(missing_ok=True)
    for name, (text, mode) in fault_files.build_fault_files(plan.faults).items():
        _write_file(root / name, text, mode)
    for name, target in fault_files.build_fault_links(plan.faults).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)


def _write_file(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)

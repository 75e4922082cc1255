"""The files that make a host itself: laid over the shared image before it boots.

Names, keys and ids are laid once, when the host's root is new: what is configured on it later stays. The
stand-ins' facts and the sshd of an unreachable host follow the chosen faults at every start.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from gpufleet.rehearsal.rack import disks, mishaps, pci
from gpufleet.rehearsal.rack.keys import ensure_key
from gpufleet.rehearsal.rack.plan import HostPlan

FACTS = "etc/gpufleet-rehearsal"
DRIVES = "etc/tmpfiles.d/gpufleet-rehearsal-drives.conf"
DEVICE_TREE = "devicetree"
HOST_KEY = "ssh_host_ed25519_key"
OTHER_KEY = "other_key"  # shown in its place when the fault says so
MODELS = {
    "blades": "Raspberry Pi Compute Module 4 Rev 1.1 (STAND-IN: rehearsed host)",
    "bench": "Raspberry Pi 5 Model B Rev 1.0 (STAND-IN: rehearsed host)",
    "servers": "GPU server (STAND-IN: rehearsed host)",
}
TOOLS = {
    "blades": ("vcgencmd", "bladectl", "rpi-eeprom-config"),
    "bench": ("vcgencmd", "rpi-eeprom-config"),
    "servers": (),
}
BOOT_CONF = (
    "[all]\nBOOT_UART=0\nWAKE_ON_GPIO=1\nPOWER_OFF_ON_HALT=0\nBOOT_ORDER=0xf25641\n"  # a CM4 as delivered
)
THROTTLED = {
    False: "0x0",
    True: "0x50005",
}  # now and since boot: undervoltage (bit 0, 16), throttled (bit 2, 18)
SECTORS_PER_GB = 976_773_168 / 500  # a 500 GB drive's standard sector count (IDEMA LBA1-03)


def lay(plan: HostPlan, image: Path, operator_key: str, apt_files: Mapping[str, str]) -> None:
    """Make the host's folder ready to boot; ``apt_files`` follow the rack's network, so they are laid each time."""
    root, laid = plan.folder / "root", plan.folder / "laid"
    if not laid.is_file() or laid.read_text() != image.name:
        shutil.rmtree(plan.folder, ignore_errors=True)
    for name in ("root", "work", "merged", "small"):
        (plan.folder / name).mkdir(parents=True, exist_ok=True)
    ensure_key(plan.folder / HOST_KEY, plan.name)
    ensure_key(plan.folder / OTHER_KEY, plan.name)
    _lay_device_tree(plan)
    if not laid.is_file():
        _lay_identity(plan, root, operator_key)
        _lay_stand_ins(plan, root)
        laid.write_text(image.name)
    for name, text in apt_files.items():
        _write(root / name, text)
    _lay_faults(plan, root)


def lay_drives(plan: HostPlan, records: str) -> None:
    """Lay what the host's own udev would know of its drives."""
    (plan.folder / "root" / DRIVES).unlink(missing_ok=True)
    if records:
        _write(plan.folder / "root" / DRIVES, records)


def host_key(plan: HostPlan) -> str:
    """Return the public key that a laid host is known by; one with a changed key shows another."""
    return (plan.folder / f"{HOST_KEY}.pub").read_text()


def _lay_identity(plan: HostPlan, root: Path, operator_key: str) -> None:
    _write(root / "etc/hostname", f"{plan.name}\n")
    _write(root / "etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {plan.name}\n")
    _write(root / "etc/machine-id", f"{plan.machine_id}\n")
    _write(root / "root/.ssh/authorized_keys", f"{operator_key}\n", 0o600)
    (root / "root").chmod(0o700)
    (root / "root/.ssh").chmod(0o700)


def _lay_stand_ins(plan: HostPlan, root: Path) -> None:
    data = resources.files("gpufleet.rehearsal") / "data"
    for tool in TOOLS[plan.kind]:
        _write(root / "usr/local/bin" / tool, (data / f"{tool}.sh").read_text(), 0o755)
    if "rpi-eeprom-config" in TOOLS[plan.kind]:
        _write(root / FACTS / "boot.conf", BOOT_CONF)
    disks.lay(root / FACTS / "disks", plan.serial)
    if plan.kind == "blades" and plan.storage_gb:
        _lay_nvme(root / FACTS / "sys/class/nvme/nvme0", plan.storage_gb)
    for name, text in pci.devices(plan.accelerators).items():
        _write(root / FACTS / "sys/bus/pci/devices" / name, text)


def _lay_nvme(nvme: Path, storage_gb: float) -> None:
    """Present an NVMe drive as sysfs would: a CM4 has one PCIe 2.0 lane, the drive could do more."""
    files = {
        "device/current_link_speed": "5.0 GT/s PCIe",
        "device/current_link_width": "1",
        "device/max_link_speed": "8.0 GT/s PCIe",
        "device/max_link_width": "4",
        "model": f"STAND-IN NVMe {storage_gb:.0f}GB",
        "nvme0n1/size": str(round(storage_gb * SECTORS_PER_GB)),
    }
    for name, value in files.items():
        _write(nvme / name, f"{value}\n")


def _lay_device_tree(plan: HostPlan) -> None:
    """Give the serial and model where a Pi's firmware leaves them (bound to /sys/firmware/devicetree).

    A server has them in its DMI, under /sys/class/dmi; there a container can bind nothing, so it has them here too.
    """
    base = plan.folder / DEVICE_TREE / "base"
    _write(base / "serial-number", f"{plan.serial}\0")
    _write(base / "model", f"{MODELS[plan.kind]}\0")


def _lay_faults(plan: HostPlan, root: Path) -> None:
    facts = {
        "throttled": THROTTLED["undervoltage" in plan.faults],
        "temp_c": round(48 + plan.slot % 7 * 0.8, 1),
        "fan_percent": 40,
        "supply": "poe+",  # 802.3at, as bladectl says it
    }
    _write(root / FACTS / "pi.json", json.dumps(facts, indent=1) + "\n")
    shown = OTHER_KEY if "changed_host_key" in plan.faults else HOST_KEY
    for suffix, mode in (("", 0o600), (".pub", 0o644)):
        _write(root / f"etc/ssh/{HOST_KEY}{suffix}", (plan.folder / f"{shown}{suffix}").read_text(), mode)
    _lay_mishaps(plan, root)
    for unit in ("ssh.service", "ssh.socket"):
        mask = root / "etc/systemd/system" / unit
        mask.parent.mkdir(parents=True, exist_ok=True)
        if mask.is_symlink():
            mask.unlink()
        if "unreachable" in plan.faults:
            mask.symlink_to("/dev/null")


def _lay_mishaps(plan: HostPlan, root: Path) -> None:
    for name in mishaps.ALL:
        (root / name).unlink(missing_ok=True)
    for name, (text, mode) in mishaps.files(plan.faults).items():
        _write(root / name, text, mode)
    for name, target in mishaps.links(plan.faults).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)

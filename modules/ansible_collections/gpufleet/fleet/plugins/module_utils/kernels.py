# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the kernels of a host: images, headers, modules built for each, packages, and the boot loader."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.module_utils.mokutil import SECURE_BOOT
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import run_program

BOOT, MODULES = Path("/boot"), Path("/lib/modules")
FIRMWARE_FILES = (BOOT / "firmware/cmdline.txt", BOOT / "firmware/config.txt")
GRUB_MENU = BOOT / "grub/grub.cfg"
UNFINISHED = ("half-", "unpacked", "trigger")
DRIVER_MODULES = ("nvidia", "nvidia-current", "amdgpu")
IMAGE = "vmlinuz-"
# initramfs-tools (Debian) and dracut (RHEL).
INITRAMFS = ("initrd.img-{}", "initramfs-{}.img")
# Kernel packages without a version in their name: they depend on the newest kernel. RHEL's keep their name.
META_PACKAGE = re.compile(
    r"^(linux-(image|headers|modules-extra|modules-nvidia-\d+[a-z-]*?)-[a-z][a-z0-9.-]*"
    r"|proxmox-default-(kernel|headers)|linux-(generic|virtual|lowlatency|aws|azure|gcp|oracle|nvidia|raspi)([a-z0-9.-]*)"
    r"|kernel(-core|-modules|-modules-core|-modules-extra|-devel|-devel-matched|-headers)?"
    r"|kernel-64k(-core|-modules|-modules-core|-modules-extra|-devel|-devel-matched)?)$"
)
# linux-image-6.1.0-50-amd64 belongs to one kernel; linux-headers-generic-hwe-22.04 to all.
RELEASE_IN_NAME = re.compile(r"-\d+\.\d+\.\d+")
DKMS_LINE = re.compile(
    r"^(?P<name>[^/,]+)[/,] ?(?P<version>[^,:]+)(?:, (?P<kernel>[^,]+), [^:]+)?: (?P<state>[\w-]+)"
)
# GRUB cannot write its environment there, so an entry for the next boot stays (00_header and grub-reboot of 2.06).
UNWRITABLE_ABSTRACTIONS = ("diskfilter", "lvm")
UNWRITABLE_FILESYSTEMS = ("btrfs", "cpiofs", "newc", "odc", "romfs", "squash4", "tarfs", "zfs")


class DkmsModule(TypedDict):
    """A module of dkms for one kernel; ``state`` is dkms' word (added, built, installed)."""

    name: str
    version: str
    state: str


class BuiltModule(TypedDict):
    """A driver's module as modinfo reads it; ``signer`` is empty if it is not signed."""

    version: str
    vermagic: str
    signer: str


class Kernel(TypedDict):
    """An installed kernel."""

    release: str
    initramfs: bool
    headers: bool
    dkms: list[DkmsModule]
    modules: dict[str, BuiltModule]


class BootLoader(TypedDict):
    """Which program chooses the kernel, and whether it can boot one once and return; ``reason`` if not."""

    name: str
    can_boot_once: bool
    reason: str


def read_output(*argv: str) -> str:
    """Return a program's output; empty if it fails or is not installed."""
    status, out, __ = run_program(argv)
    return out if status == 0 else ""


def version_key(release: str) -> list[tuple[int, int | str]]:
    """Return a key that orders releases by their numbers."""
    return [(1, int(part)) if part.isdigit() else (0, part) for part in re.findall(r"\d+|[^\d]+", release)]


def read_running_release() -> str:
    return read_output("uname", "-r").strip() or os.uname().release


def parse_dkms_status(text: str) -> dict[str, list[DkmsModule]]:
    """Return kernel -> modules of ``dkms status``; the key of a module without a kernel is empty."""
    rows: dict[str, list[DkmsModule]] = {}
    for line in text.splitlines():
        if match := DKMS_LINE.match(line.strip()):
            entry: DkmsModule = {
                "name": match["name"],
                "version": match["version"].strip(),
                "state": match["state"],
            }
            rows.setdefault(match["kernel"] or "", []).append(entry)
    return rows


def parse_modinfo(text: str) -> BuiltModule:
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    values = {key.strip(): value.strip() for key, value in fields.items()}
    return {
        "version": values.get("version", ""),
        "vermagic": values.get("vermagic", ""),
        "signer": values.get("signer", ""),
    }


def list_kernel_releases() -> list[str]:
    """Return the releases that can boot, the newest first: an image in /boot, or next to the modules (RHEL)."""
    releases = {path.name.removeprefix(IMAGE) for path in BOOT.glob(f"{IMAGE}*")}
    releases |= {path.parent.name for path in MODULES.glob("*/vmlinuz")}
    bootable = [name for name in releases if "rescue" not in name and (MODULES / name).is_dir()]
    return sorted(bootable, key=version_key, reverse=True)


def read_kernel(release: str, dkms: dict[str, list[DkmsModule]]) -> Kernel:
    modules = {}
    for name in DRIVER_MODULES:
        if text := read_output("modinfo", "-k", release, name):
            modules[name] = parse_modinfo(text)
    return {
        "release": release,
        "initramfs": any((BOOT / name.format(release)).exists() for name in INITRAMFS),
        "headers": (MODULES / release / "build" / "include").exists(),
        "dkms": dkms.get(release, []),
        "modules": modules,
    }


def is_meta_package(name: str) -> bool:
    return bool(META_PACKAGE.match(name)) and not RELEASE_IN_NAME.search(name)


def read_packages() -> dict[str, Any]:
    """Return the kernel packages with versions, packages that dpkg did not finish, held ones, and all names."""
    status, out, __ = run_program(("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"))
    if status != 0:
        out = read_output("rpm", "-qa", "--qf", "installed %{NAME} %{VERSION}-%{RELEASE}\n")
    rows = [(state, name, version) for state, name, version in map(_three_words, out.splitlines()) if version]
    installed = {name: version for state, name, version in rows if state == "installed"}
    return {
        "packages": {name: version for name, version in installed.items() if is_meta_package(name)},
        "unsound": sorted(name for state, name, __ in rows if state.startswith(UNFINISHED)),
        "held": sorted(read_output("apt-mark", "showhold").split()),
        "installed": sorted(installed),
    }


def _three_words(line: str) -> tuple[str, str, str]:
    first, __, rest = line.partition(" ")
    second, __, third = rest.partition(" ")
    return first, second, third


def find_boot_loader() -> tuple[str, str]:
    """Return the boot loader's name, and why its kernel cannot be chosen (empty for GRUB).

    A Raspberry Pi comes first: its firmware reads no settings of GRUB, also if GRUB's programs are installed.
    """
    if any(path.exists() for path in FIRMWARE_FILES):
        return (
            "raspberry-pi",
            "the Raspberry Pi's firmware partition has one kernel of each kind, which an upgrade replaces",
        )
    if run_program(("grubby", "--default-kernel"))[0] == 0:
        return "grubby", ""
    if GRUB_MENU.exists() and run_program(("grub-reboot", "--version"))[0] == 0:
        return "grub", ""
    if read_output("bootctl", "is-installed").strip() == "yes":
        return "systemd-boot", "systemd-boot is not supported"
    return "none", "no GRUB was found"


def read_boot_loader() -> BootLoader:
    """Return the boot loader, from the programs and files that it has on the host."""
    name, reason = find_boot_loader()
    if name == "grubby":
        return _grub_loader(name, "grub2-probe", "/boot/grub2")
    if name == "grub":
        return _grub_loader(name, "grub-probe", str(GRUB_MENU.parent))
    return {"name": name, "can_boot_once": False, "reason": reason}


def _grub_loader(name: str, probe: str, folder: str) -> BootLoader:
    abstractions = read_output(probe, "--target=abstraction", folder).split()
    filesystem = read_output(probe, "--target=fs", folder).strip()
    obstacles = [item for item in abstractions if item in UNWRITABLE_ABSTRACTIONS]
    obstacles += [filesystem] if filesystem in UNWRITABLE_FILESYSTEMS else []
    reason = (
        f"GRUB cannot write to {', '.join(obstacles)}, so it would boot the new kernel every time"
        if obstacles
        else ""
    )
    return {"name": name, "can_boot_once": not obstacles, "reason": reason}


def read_kernel_state() -> dict[str, Any]:
    dkms = parse_dkms_status(read_output("dkms", "status"))
    return {
        "package_manager": "apt" if run_program(("apt-get", "--version"))[0] == 0 else "dnf",
        "running": read_running_release(),
        "container": read_output("systemd-detect-virt", "--container").strip() or None,
        "secure_boot": SECURE_BOOT in read_output("mokutil", "--sb-state"),
        "kernels": [read_kernel(release, dkms) for release in list_kernel_releases()],
        "dkms": sorted({(row["name"], row["version"]) for rows in dkms.values() for row in rows}),
        **read_packages(),
        "boot_loader": read_boot_loader(),
    }

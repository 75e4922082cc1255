# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read what a driver plan is made of: cards on the bus, system, kernel, secure boot, packages there and offered."""

from __future__ import annotations

DOCUMENTATION = """
module: hardware
short_description: Read the facts that a driver plan needs
description:
  - PCI functions, system, running and newest kernel, its headers, secure boot, loaded modules, installed and held
    packages of drivers, and the versions that the host's repositories offer. Changes nothing, but for package lists
    where I(fetch) is set.
  - If the host has no display or accelerator function of NVIDIA, AMD, Intel, Habana or AWS, nothing more is read.
  - On a host of a rehearsed rack, fake files below C(/etc/gpufleet-rehearsal) replace the bus.
options:
  pci_root: {description: "Folder of PCI functions; empty takes the rehearsal's if it exists, else sysfs.", type: str,
             default: ""}
  root: {description: Root folder for every other file; for tests., type: path, default: /}
  candidates: {description: Read the available versions from the package manager., type: bool, default: true}
  fetch: {description: "Fetch package lists first if they are missing, older than an hour or older than the list of
          sources; never in check mode.", type: bool, default: false}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Cards, kernel and drivers
  gpufleet.fleet.hardware:
  register: driver_hardware
"""

RETURN = """
hardware: {description: "The facts, as gpufleet.drivers.HostFacts reads them.", returned: always, type: dict}
cards: {description: Whether any function on the bus could need a driver., returned: always, type: bool}
"""

import os  # noqa: E402 - Ansible wants its documentation above the imports
import platform  # noqa: E402
import re  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, Optional, TypedDict  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import dpkg, locks, tools  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.package_model import PackageListOptions  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError  # noqa: E402

SYSFS = "sys/bus/pci/devices"
REHEARSAL = "etc/gpufleet-rehearsal"
# Vendors whose display (03) and accelerator (12) functions a driver is for; AWS's Neuron says "system peripheral".
CLASSES_BY_VENDOR = {
    "10de": ("03", "12"),
    "1002": ("03", "12"),
    "8086": ("03", "12"),
    "1da3": ("12",),
    "1d0f": ("08", "12"),
}
KERNEL_MODULES = ("nvidia", "nouveau", "amdgpu")
DRIVER_PACKAGE = re.compile(
    r"^(nvidia|libnvidia|libcuda1|cuda-(drivers|toolkit|compat)|nvlsm$|kmod-nvidia|linux-modules-nvidia|firmware-nvidia"
    r"|xserver-xorg-video-nvidia|amdgpu-dkms|amdrocm|rocm|firmware-amd-graphics|mesa-vulkan-drivers|linux-firmware$|linux-firmware-amd-graphics$)"
)
# What a plan may ask the repositories for, besides the headers of the running kernel.
CANDIDATE = re.compile(
    r"^(nvidia-(open|driver|kernel-dkms|open-kernel-dkms|kernel-open-dkms|smi|driver-pinning-\d+|fabricmanager(-\d+)?|imex(-\d+)?|gds(-\d+-\d+)?"
    r"|headless-no-dkms-\d+(-server)?(-open)?|utils-\d+(-server)?|cuda-toolkit)|libcuda1|libnvidia-ml1|cuda-drivers|nvlsm"
    r"|cuda-(toolkit|compat)-\d+-\d+|linux-modules-nvidia-\d+-(server-)?(open-)?[a-z]+(-(64k|fde|iotg|lowlatency))?(-(hwe|lts)-[\d.]+)?|amdgpu-dkms"
    r"|amdrocm[\d.]*(-gfx\w+)?|rocm|firmware-amd-graphics|mesa-vulkan-drivers|linux-firmware(-amd-graphics)?|proxmox-default-(headers|kernel)|linux-headers-[a-z][\w.-]*"
    r"|linux-image-(?!unsigned|extra|uc)[a-z][a-z0-9-]*(-[\d.]+)?"
    r"|nvidia-fs-dkms|gdrdrv-dkms|libgdrapi|gdrcopy-tests|rocminfo|rocm-smi|rocm-opencl-icd|hipcc|librocblas0|libhipblas0)$"
)
DNF_CANDIDATES = (
    "nvidia-open", "cuda-drivers", "nvidia-fabricmanager", "nvidia-fabric-manager", "nvlsm",
    "cuda-toolkit-*", "cuda-compat-*", "nvidia-gds*", "gdrcopy*", "amdgpu-dkms",
    "amdrocm*", "rocm", "kernel-devel", "kernel-devel-matched", "kernel-headers", "kernel-64k-devel",
    "kernel-64k-devel-matched", "kernel-rt-devel", "kernel-debug-devel", "kernel-uek-devel", "kernel-ml-devel",
    "kernel-lt-devel", "kernel-modules-extra", "kernel6.*-devel", "kernel6.*-headers",
    "kernel6.*-modules-extra", "linux-firmware", "mesa-vulkan-drivers", "nvidia-imex*",
)  # fmt: skip
# Packages of one kernel, of which dnf offers several versions: RHEL's, and those of Amazon Linux.
KERNEL_PACKAGE = re.compile(r"kernel(-64k|-rt|-debug|-uek|-ml|-lt|6\.\d+)?-(devel|headers|modules-extra)")
FIRMWARE_FOLDERS = ("lib/firmware/amdgpu", "usr/lib/firmware/amdgpu")
FIRMWARE_FILE = re.compile(r"([a-z0-9_]+?)_(?:rlc|sos|mec|mes|pfp|me|ce|sdma)\w*\.bin(?:\.\w+)?")
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
FETCH_OPTIONS: PackageListOptions = {
    "cache_valid_seconds": 3600,
    "lock_timeout_seconds": 120,
    "timeout_seconds": 600,
}
COLUMNS = ("${Package}", "${Version}", "${db:Status-Abbrev}")

# Installed packages with versions, held packages, and what the repositories offer (None: unknown).
PackageFacts = tuple[dict[str, str], list[str], Optional[dict[str, list[str]]]]
# The functional form, because "class" is a key.
PciFunction = TypedDict(
    "PciFunction", {"address": str, "vendor": str, "device": str, "class": str, "subsystem": str}
)


def read_text_or_empty(path: Path) -> str:
    """Return a small file's text, or an empty string."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\x00 \t\r\n")
    except OSError:
        return ""


def normalize_hex_id(text: str) -> str:
    """Return a number of sysfs (0x10de) as four hexadecimal digits."""
    return text.lower().replace("0x", "").zfill(4)


def read_pci_functions(devices_folder: Path) -> list[PciFunction]:
    """Return every PCI function below a folder like /sys/bus/pci/devices."""
    try:
        folders = sorted(devices_folder.iterdir())
    except OSError:
        return []
    functions_read: list[PciFunction] = []
    for folder in folders:
        vendor, device = read_text_or_empty(folder / "vendor"), read_text_or_empty(folder / "device")
        if not vendor or not device:
            continue
        parts = [read_text_or_empty(folder / f"subsystem_{part}") for part in ("vendor", "device")]
        functions_read.append(
            {
                "address": folder.name,
                "vendor": normalize_hex_id(vendor),
                "device": normalize_hex_id(device),
                "class": read_text_or_empty(folder / "class").lower().replace("0x", "").zfill(6),
                "subsystem": ":".join(normalize_hex_id(part) for part in parts) if all(parts) else "",
            }
        )
    return functions_read


def could_need_driver(pci_function: PciFunction) -> bool:
    """Return whether a function's vendor and class may need a driver."""
    return pci_function["class"][:2] in CLASSES_BY_VENDOR.get(pci_function["vendor"], ())


def parse_os_release(text: str) -> dict[str, str]:
    """Return id, version, codename and ID_LIKE of /etc/os-release."""
    pairs = tools.parse_os_release(text)
    names = {"id": "ID", "version_id": "VERSION_ID", "codename": "VERSION_CODENAME", "like": "ID_LIKE"}
    return {name: pairs.get(theirs, "") for name, theirs in names.items()}


def is_secure_boot_enabled(root: Path) -> bool | None:
    """Return whether secure boot is on; False without UEFI, None where the variable can't be read."""
    if not (root / "sys/firmware/efi").is_dir():
        return False
    try:
        content = (root / SECURE_BOOT).read_bytes()
    except OSError:
        return None
    return bool(content[-1]) if content else None  # one byte, after four of attributes


def read_gpu_module_versions(root: Path) -> dict[str, str | None]:
    """Return the loaded graphics modules, each with its version or None."""
    versions = {name: read_text_or_empty(root / "sys/module" / name / "version") or None
                for name in KERNEL_MODULES if (root / "sys/module" / name).is_dir()}  # fmt: skip
    match = re.search(
        r"Module\s+(?:for \S+\s+)?(\d+\.\d+(?:\.\d+)?)",
        read_text_or_empty(root / "proc/driver/nvidia/version"),
    )
    if match:
        versions["nvidia"] = match.group(1)
    return versions


def parse_kernel_flavour(kernel_release: str) -> str:
    """Return a kernel release's flavor: amd64, cloud-amd64, generic, x86_64."""
    __, __, kind = (*kernel_release.split("-", 2), "", "")[:3]
    return kind or kernel_release.rpartition(".")[2]


def find_newest_kernel(root: Path, running_kernel: str) -> str:
    """Return the newest installed kernel of the same flavor as the running one."""
    try:
        names = [entry.name for entry in (root / "lib/modules").iterdir()]
    except OSError:
        return running_kernel
    same_flavor = [
        name for name in names if parse_kernel_flavour(name) == parse_kernel_flavour(running_kernel)
    ]
    return max(
        [*same_flavor, running_kernel], key=lambda name: [int(part) for part in re.findall(r"\d+", name)]
    )


def has_kernel_headers(root: Path, kernel_release: str) -> bool:
    """Return whether the headers of a kernel are installed."""
    return (root / "lib/modules" / kernel_release / "build" / "Makefile").exists() or any(
        (root / "usr/src" / f"{name}{kernel_release}" / "Makefile").exists()
        for name in ("linux-headers-", "kernels/")
    )


def list_firmware_processors(root: Path) -> list[str]:
    """Return the names of the processors of which there are firmware files: gc_11_0_3, sienna_cichlid."""
    names: set[str] = set()
    for folder in FIRMWARE_FOLDERS:
        try:
            files = [entry.name for entry in (root / folder).iterdir()]
        except OSError:
            continue
        names.update(match[1] for name in files if (match := FIRMWARE_FILE.fullmatch(name)))
    return sorted(names)


def read_container_manager(root: Path) -> str:
    """Return the container manager of this container; empty on a machine."""
    manager = read_text_or_empty(root / "run/systemd/container") or read_text_or_empty(
        root / "run/host/container-manager"
    )
    return manager.splitlines()[0] if manager else ""


def read_debian_driver_packages(module: AnsibleModule, kernel: str, with_candidates: bool) -> PackageFacts:
    """Return installed and held driver packages, and the versions in apt's lists."""
    __, out, __ = module.run_command(["dpkg-query", "-W", "-f", "\t".join(COLUMNS) + "\n"])
    rows = (line.split("\t") for line in out.splitlines())
    driver_rows = [row for row in rows if len(row) == len(COLUMNS) and DRIVER_PACKAGE.match(row[0])]
    packages = {name: version for name, version, state in driver_rows if state[1:2] == "i"}
    held_names = sorted(name for name, __, state in driver_rows if state.startswith("h"))
    if with_candidates and module.params["fetch"] and not module.check_mode:
        fetch_stale_package_lists(module)
    return packages, held_names, list_apt_candidates(module, kernel) if with_candidates else None


def fetch_stale_package_lists(module: AnsibleModule) -> None:
    """Fetch stale apt lists; if that fails, warn and use the existing ones."""
    if not dpkg.are_package_lists_stale(FETCH_OPTIONS):
        return
    try:
        locks.wait_for_package_locks(FETCH_OPTIONS["lock_timeout_seconds"])
        failure = dpkg.fetch_package_lists(FETCH_OPTIONS)
    except HostError as error:
        failure = str(error)
    if failure:
        module.warn(f"package lists could not be fetched: {failure}")


def list_apt_candidates(module: AnsibleModule, kernel: str) -> dict[str, list[str]] | None:
    """Return the versions of a plan's packages in apt's lists by name, the newest first.

    None if there are no lists, as on a new cloud image.
    """
    if not any(dpkg.LISTS.glob("*_Packages*")):
        return None
    status, out, __ = module.run_command(["apt-cache", "pkgnames"])
    kernel_packages = {
        f"{name}-{kernel}"
        for name in ("linux-headers", "linux-modules-extra", "proxmox-headers", "pve-headers")
    }
    names = sorted(name for name in out.split() if CANDIDATE.match(name) or name in kernel_packages)
    if status or not names:
        return {} if not status else None
    __, out, __ = module.run_command(["apt-cache", "madison", *names])
    return parse_apt_madison(out)


def parse_apt_madison(madison_output: str) -> dict[str, list[str]]:
    """Return the versions by name of ``apt-cache madison``, lines of name | version | source."""
    versions: dict[str, list[str]] = {}
    for line in madison_output.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        name, version, source = cells if len(cells) == len(COLUMNS) else ("", "", "Sources")
        if not source.endswith("Sources") and version not in versions.setdefault(name, []):
            versions[name].append(version)
    return versions


def read_rpm_driver_packages(module: AnsibleModule, kernel: str, with_candidates: bool) -> PackageFacts:
    """Return installed and locked driver packages, and the versions in dnf's repositories."""
    __, out, __ = module.run_command(["rpm", "-qa", "--qf", "%{NAME}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n"])
    rows = [line.split("\t") for line in out.splitlines() if "\t" in line]
    packages = {name: re.sub("^0:", "", version) for name, version in rows if DRIVER_PACKAGE.match(name)}
    locks = Path("/etc/dnf/plugins/versionlock.list")
    held_names = sorted(
        name
        for name in packages
        if re.search(rf"^{re.escape(name)}-\d", read_text_or_empty(locks), re.MULTILINE)
    )
    return packages, held_names, list_dnf_candidates(module, kernel) if with_candidates else None


def list_dnf_candidates(module: AnsibleModule, kernel: str) -> dict[str, list[str]] | None:
    """Return the versions of a plan's packages in dnf's repositories by name, the newest first; None if dnf fails."""
    patterns = [*DNF_CANDIDATES, f"kernel-devel-{kernel}"]
    form = "%{name}\t%{epoch}:%{version}-%{release}\n"
    cached = [] if module.params["fetch"] and not module.check_mode else ["-C"]
    # A version lock hides all other versions, also the newer ones that a plan may choose.
    unlocked = "--disableplugin=versionlock"
    status, out, __ = module.run_command(
        ["dnf", "-q", unlocked, *cached, "repoquery", "--showduplicates", "--qf", form, *patterns]
    )
    if status:
        return None
    versions: dict[str, list[str]] = {}
    for line in reversed(out.splitlines()):
        name, __, full_version = line.partition("\t")
        if full_version:
            version = re.sub("^0:", "", full_version)
            versions.setdefault(name, []).append(version)
            if KERNEL_PACKAGE.fullmatch(name):  # named with its version by a plan
                versions.setdefault(
                    f"{name}-{version.partition(':')[2] or version}.{platform.machine()}", [version]
                )
    return versions


def read_hardware_facts(
    module: AnsibleModule, root: Path, pci_root: str, with_candidates: bool
) -> dict[str, Any]:
    """Return the facts that a driver plan needs."""
    rehearsed = (root / REHEARSAL).is_dir()
    bus = Path(pci_root) if pci_root else (root / REHEARSAL if rehearsed else root) / SYSFS
    kernel = platform.release()
    pci = read_pci_functions(bus)
    hardware: dict[str, Any] = {
        "pci": pci,
        "os": parse_os_release(read_text_or_empty(root / "etc/os-release")),
        "kernel": kernel,
        "arch": platform.machine(),
        "rehearsed": rehearsed,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "raspberry": "Raspberry Pi" in read_text_or_empty(root / "proc/device-tree/model"),
    }
    if any(could_need_driver(function) for function in pci):
        hardware.update(read_driver_facts(module, root, kernel, with_candidates))
    return hardware


def read_driver_facts(
    module: AnsibleModule, root: Path, kernel: str, with_candidates: bool
) -> dict[str, Any]:
    """Return the facts that are read only on a host with cards."""
    manager = (
        read_debian_driver_packages
        if module.get_bin_path("dpkg-query")
        else read_rpm_driver_packages
        if module.get_bin_path("rpm")
        else None
    )
    packages, held_names, offered = manager(module, kernel, with_candidates) if manager else ({}, [], None)
    # The modules and the firmware that a rehearsed host sees are those of the machine that it runs on.
    machine = root / REHEARSAL if (root / REHEARSAL).is_dir() else root
    return {
        "secure_boot": is_secure_boot_enabled(machine),
        "headers_installed": has_kernel_headers(root, kernel),
        "newest_kernel": find_newest_kernel(root, kernel),
        "loaded": read_gpu_module_versions(machine),
        "firmware": list_firmware_processors(machine),
        "packages": packages,
        "held": held_names,
        "candidates": offered,
        "container": read_container_manager(root),
        "virtual": read_hypervisor_vendor(root),
    }


def read_hypervisor_vendor(root: Path) -> str:
    """Return the vendor of the hypervisor; empty on hardware."""
    if "hypervisor" not in read_text_or_empty(root / "proc/cpuinfo"):
        return ""
    return read_text_or_empty(root / "sys/class/dmi/id/sys_vendor") or "unknown"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "pci_root": {"type": "str", "default": ""},
            "root": {"type": "path", "default": "/"},
            "candidates": {"type": "bool", "default": True},
            "fetch": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    os.environ["LC_ALL"] = "C"
    params = module.params
    hardware = read_hardware_facts(module, Path(params["root"]), params["pci_root"], params["candidates"])
    module.exit_json(changed=False, hardware=hardware, cards=any(map(could_need_driver, hardware["pci"])))


if __name__ == "__main__":
    main()

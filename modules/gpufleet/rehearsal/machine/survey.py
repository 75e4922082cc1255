"""The checks of `gpufleet doctor`, in the order in which they are printed."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from gpufleet import engine, paths
from gpufleet.catalog.cloud import CLOUDS, Cloud
from gpufleet.cost import find_node
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.fleet.used_cloud import list_used_clouds
from gpufleet.rehearsal import rack
from gpufleet.rehearsal.machine import cloud_check
from gpufleet.rehearsal.machine.check import MachineCheck, PackagedProgram, Requirement

PYTHON_FLOOR = (3, 11)
PYTHON_PACKAGES = ("pulumi", "ansible-core", "ansible-runner")
# Measured on Debian 12, x86-64: Go's module and build caches take 3.3 GB while the engine is built, which
# leaves 0.13 GB; a base image of rehearsed hosts takes 0.35 GB and twenty hosts write less than that.
BUILD_GIB, WORK_GIB = 4.0, 1.0
ARM64_PROGRAMS = {"qemu-aarch64-static": "qemu-user-static", "update-binfmts": "binfmt-support"}
TEST_PROGRAMS = {
    "c++": "g++",  # compiles the agent's CUDA and HIP kernels for this processor
    "cc": "gcc libc6-dev",  # compiles the stand-in of NVIDIA's driver, and reads constants out of its headers
    "chromium": "chromium",
    # Assembles the agent's HIP kernels for AMD's processors; the second has the headers of its prototypes.
    "clang-19": "clang-19 libamdhip64-dev",
    "createrepo_c": "createrepo-c",
    "dnf": "dnf dnf-plugins-core",  # the second has versionlock
    "faketime": "faketime",
    "fio": "fio",
    "iperf3": "iperf3",
    "ipmi_sim": "openipmi",
    "ipmitool": "ipmitool",
    "mkfs.ext4": "e2fsprogs",
    "glslangValidator": "glslang-tools",  # compiles the agent's Vulkan kernels again
    "gpg": "gnupg",
    "nft": "nftables",
    "rpmbuild": "rpm",
    "shellcheck": "shellcheck",
    "ssh-audit": "ssh-audit",
    # Runs the agent's Vulkan kernels on the processor: a driver, its validator and the headers.
    "spirv-val": "spirv-tools mesa-vulkan-drivers libvulkan-dev vulkan-validationlayers",
    "stress-ng": "stress-ng",
}
IS_CLONE = (Path(__file__).parents[4] / "tests/conftest.py").is_file()
SET_UP = (
    "make setup (keeps .venv/)"
    if IS_CLONE
    else "uv tool install gpufleet, or pip install gpufleet in a new virtual environment"
)
POSTGRES_FOLDERS = "/usr/lib/postgresql"


def survey_machine(home: Path | None = None) -> list[MachineCheck]:
    """Return every check of this machine; nothing is changed. ``home`` is the user's home folder.

    What only the test suite needs is left out if this is not a clone of gpufleet.
    """
    user_home = home or Path.home()
    checks = _list_checks(user_home)
    return checks if IS_CLONE else [check for check in checks if check.need != "tests"]


def _list_checks(user_home: Path) -> list[MachineCheck]:
    return [
        _check_python(),
        _check_virtual_environment(),
        *map(_check_python_package, PYTHON_PACKAGES),
        _check_engine(),
        _check_program("ssh", "openssh-client", "required"),
        _check_program("git", "git", "required"),
        _check_node(),
        _check_disk(),
        *_check_racks(),
        *_check_arm64(),
        *(_check_program(program, package, "tests") for program, package in TEST_PROGRAMS.items()),
        _check_promtool(),
        _check_packer(),
        _check_postgres(),
        *cloud_check.check_cloud_prerequisites(user_home, os.environ, _list_clouds()),
    ]


def _list_clouds() -> list[Cloud]:
    """Return the clouds of the project here, all of them outside a project."""
    try:
        root = paths.find_project_root()
    except InputError:
        return [*CLOUDS.values()]
    return [CLOUDS[name] for name in list_used_clouds(root, CLOUDS)]


def _check_python() -> MachineCheck:
    version = ".".join(str(part) for part in sys.version_info[:3])
    required_version = ".".join(str(part) for part in PYTHON_FLOOR)
    return MachineCheck(
        "Python", "required", sys.version_info >= PYTHON_FLOOR, f"{version}, {sys.executable}",
        f"apt-get install python3 (Python {required_version} or newer)",
    )  # fmt: skip


def _check_virtual_environment() -> MachineCheck:
    is_active = sys.prefix != sys.base_prefix
    detail = (
        sys.prefix
        if is_active
        else "gpufleet runs outside a virtual environment: `pulumi` may not find its packages"
    )
    return MachineCheck("virtual environment", "required", is_active, detail, SET_UP)


def _check_python_package(name: str) -> MachineCheck:
    try:
        return MachineCheck(name, "required", ok=True, detail=metadata.version(name))
    except metadata.PackageNotFoundError:
        return MachineCheck(name, "required", ok=False, detail="not installed", remedy=SET_UP)


def _check_engine() -> MachineCheck:
    installed = engine.find_pulumi_engine()
    if installed:
        detail = f"{installed.version}, {installed.origin}, {installed.pulumi}, with its Python language host"
        if shutil.which("pulumi") is None:
            detail += f'; outside a rehearsal put it on PATH: export PATH="{installed.bin_dir}:$PATH"'
        return MachineCheck("Pulumi engine", "required", ok=True, detail=detail)
    unusable = engine.find_installed_pulumi_engine()
    detail_when_missing = (
        f"{unusable.pulumi}: {unusable.defect}" if unusable else "neither installed nor built"
    )
    remedy = (
        "gpufleet doctor --fix (builds it once, about 5 minutes), or install Pulumi with its own installer"
    )
    return MachineCheck("Pulumi engine", "required", ok=False, detail=detail_when_missing, remedy=remedy)


def _check_program(name: str, package: str, requirement: Requirement) -> MachineCheck:
    # Debian keeps some programs for root where a user's PATH may not look.
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    return MachineCheck(
        name,
        requirement,
        path is not None,
        path or "not installed",
        f"apt-get install {package}",
        tuple(package.split()),
    )


def _check_node() -> MachineCheck:
    """Return whether TypeScript and JavaScript programs can be priced; their packages are each project's own."""
    remedy = "install Node.js for TypeScript and JavaScript programs, and run npm ci in their projects"
    try:
        return MachineCheck("node", "optional", ok=True, detail=str(find_node(os.environ)), remedy=remedy)
    except EnvironmentFault as fault:
        return MachineCheck("node", "optional", ok=False, detail=str(fault), remedy=remedy)


def _check_disk() -> MachineCheck:
    folder = next(
        path for path in (paths.user_cache_folder(), *paths.user_cache_folder().parents) if path.exists()
    )
    free_gib = shutil.disk_usage(folder).free / 2**30
    needed_gib = WORK_GIB if engine.find_pulumi_engine() else BUILD_GIB
    return MachineCheck(
        "disk space", "required", free_gib >= needed_gib,
        f"{free_gib:.1f} GiB free at {folder} (needs {needed_gib:.0f})",
        "free some space, or point XDG_CACHE_HOME elsewhere",
    )  # fmt: skip


def _check_racks() -> Iterator[MachineCheck]:
    is_linux, is_root = sys.platform == "linux", os.geteuid() == 0
    yield MachineCheck(
        "Linux", "racks", is_linux, sys.platform, "rehearsed racks need Linux; everything else works here"
    )
    yield MachineCheck(
        "root",
        "racks",
        is_root,
        "yes" if is_root else "no",
        "sudo -E env PATH=$PATH gpufleet rehearse up -s STACK",
    )
    packages = tuple(rack.list_missing_debian_packages()) if is_linux else ()
    yield MachineCheck(
        "namespaces, nspawn, debootstrap", "racks", is_linux and not packages,
        f"missing: {' '.join(packages)}" if packages else "installed" if is_linux else "Linux only",
        f"apt-get install {' '.join(packages)}", packages,
    )  # fmt: skip
    images = sorted(path.name for path in (paths.user_cache_folder() / "hosts").glob("*") if path.is_dir())
    yield MachineCheck(
        "base images of hosts", "optional", bool(images), ", ".join(images) or "none yet",
        "gpufleet rehearse up (builds it once, about 2 minutes)",
    )  # fmt: skip


def _check_arm64() -> Iterator[MachineCheck]:
    """Return checks only if arm64 hosts would be emulated."""
    if os.uname().machine not in ("aarch64", "arm64"):
        yield from (_check_program(program, package, "tests") for program, package in ARM64_PROGRAMS.items())


def _check_promtool() -> MachineCheck:
    """Debian's package also has the service of Prometheus, which would start and open a port."""
    path = shutil.which("promtool")
    return MachineCheck(
        "promtool", "tests", path is not None, path or "not installed",
        "gpufleet doctor --fix --tests (takes it out of Debian's package prometheus)",
        unpacked=PackagedProgram("prometheus", "usr/bin/promtool"),
    )  # fmt: skip


def _check_packer() -> MachineCheck:
    """Debian has a Packer package; elsewhere it is optional, and the tests of images are skipped without it."""
    is_debian = platform.freedesktop_os_release().get("ID") == "debian" if sys.platform == "linux" else False
    return _check_program("packer", "packer", "tests" if is_debian else "optional")


def _check_postgres() -> MachineCheck:
    servers = sorted(Path(POSTGRES_FOLDERS).glob("*/bin/postgres")) if Path(POSTGRES_FOLDERS).is_dir() else []
    path = str(servers[-1]) if servers else shutil.which("postgres")
    return MachineCheck(
        "PostgreSQL server", "tests", path is not None, path or "not installed (SQLite is the default)",
        "apt-get install postgresql", ("postgresql",),
    )  # fmt: skip

"""The doctor's questions, in the order in which the answers are read."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from gpufleet import engine, paths
from gpufleet.rehearsal import rack
from gpufleet.rehearsal.machine import cloud
from gpufleet.rehearsal.machine.check import Check, Need

PYTHON_FLOOR = (3, 11)
PYTHON_PACKAGES = (
    "pulumi",
    "pulumi-aws",
    "pulumi-gcp",
    "pulumi-azure-native",
    "ansible-core",
    "ansible-runner",
)
# Measured on Debian 12, x86-64: Go's module and build caches take 3.3 GB while the engine is built, which
# leaves 0.13 GB; a base image of rehearsed hosts takes 0.35 GB and twenty hosts write less than that.
BUILD_GIB, WORK_GIB = 4.0, 1.0
ARM64_PROGRAMS = {"qemu-aarch64-static": "qemu-user-static", "update-binfmts": "binfmt-support"}
TEST_PROGRAMS = {
    "chromium": "chromium",
    "faketime": "faketime",
    "fio": "fio",
    "iperf3": "iperf3",
    "nft": "nftables",
    "shellcheck": "shellcheck",
    "stress-ng": "stress-ng",
}
POSTGRES_FOLDERS = "/usr/lib/postgresql"


def survey(home: Path | None = None) -> list[Check]:
    """Look at the machine and return every check; nothing is changed. ``home`` is the user's folder."""
    person = home or Path.home()
    return [
        _python(),
        _virtual_environment(),
        *map(_python_package, PYTHON_PACKAGES),
        _engine(),
        _program("ssh", "openssh-client", "required"),
        _program("git", "git", "required"),
        _disk(),
        *_racks(),
        *_arm64(),
        *(_program(program, package, "tests") for program, package in TEST_PROGRAMS.items()),
        _packer(),
        _postgres(),
        *cloud.checks(person, os.environ),
    ]


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    wanted = ".".join(str(part) for part in PYTHON_FLOOR)
    return Check(
        "Python", "required", sys.version_info >= PYTHON_FLOOR, f"{version}, {sys.executable}",
        f"apt-get install python3 (Python {wanted} or newer)",
    )  # fmt: skip


def _virtual_environment() -> Check:
    inside = sys.prefix != sys.base_prefix
    found = sys.prefix if inside else "gpufleet runs outside one: `pulumi` may not find its packages"
    return Check("virtual environment", "required", inside, found, "make setup (keeps .venv/)")


def _python_package(name: str) -> Check:
    try:
        return Check(name, "required", ok=True, found=metadata.version(name))
    except metadata.PackageNotFoundError:
        return Check(name, "required", ok=False, found="not installed", get="make setup")


def _engine() -> Check:
    found = engine.find()
    if found:
        said = f"{found.version}, {found.origin}, {found.pulumi}, with its Python language host"
        if shutil.which("pulumi") is None:
            said += f'; outside a rehearsal put it on PATH: export PATH="{found.bin_dir}:$PATH"'
        return Check("Pulumi engine", "required", ok=True, found=said)
    unfit = engine.installed()
    lacks = f"{unfit.pulumi}: {unfit.lacks}" if unfit else "neither installed nor built"
    get = "gpufleet doctor --fix (builds it once, about 5 minutes), or install Pulumi with its own installer"
    return Check("Pulumi engine", "required", ok=False, found=lacks, get=get)


def _program(name: str, package: str, need: Need) -> Check:
    # Debian keeps some programs for root where a user's PATH may not look.
    place = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    return Check(
        name, need, place is not None, place or "not installed", f"apt-get install {package}", (package,)
    )


def _disk() -> Check:
    folder = next(path for path in (paths.user_cache(), *paths.user_cache().parents) if path.exists())
    free = shutil.disk_usage(folder).free / 2**30
    wanted = WORK_GIB if engine.find() else BUILD_GIB
    return Check(
        "disk space", "required", free >= wanted, f"{free:.1f} GiB free at {folder} (needs {wanted:.0f})",
        "free some space, or point XDG_CACHE_HOME elsewhere",
    )  # fmt: skip


def _racks() -> Iterator[Check]:
    linux, root = sys.platform == "linux", os.geteuid() == 0
    yield Check("Linux", "racks", linux, sys.platform, "rehearsed racks need Linux; all else works here")
    yield Check(
        "root", "racks", root, "yes" if root else "no", "sudo -E env PATH=$PATH gpufleet rehearse up -s STACK"
    )
    packages = tuple(rack.missing_packages()) if linux else ()
    yield Check(
        "namespaces, nspawn, debootstrap", "racks", linux and not packages,
        f"lacks {' '.join(packages)}" if packages else "installed" if linux else "Linux only",
        f"apt-get install {' '.join(packages)}", packages,
    )  # fmt: skip
    images = sorted(path.name for path in (paths.user_cache() / "hosts").glob("*") if path.is_dir())
    yield Check(
        "base images of hosts", "optional", bool(images), ", ".join(images) or "none yet",
        "gpufleet rehearse up (builds it once, about 2 minutes)",
    )  # fmt: skip


def _arm64() -> Iterator[Check]:
    """Only where arm64 hosts would be emulated."""
    if os.uname().machine not in ("aarch64", "arm64"):
        yield from (_program(program, package, "tests") for program, package in ARM64_PROGRAMS.items())


def _packer() -> Check:
    """Debian has a Packer; elsewhere it is HashiCorp's to bring, and the tests of images are left out without it."""
    debian = platform.freedesktop_os_release().get("ID") == "debian" if sys.platform == "linux" else False
    return _program("packer", "packer", "tests" if debian else "optional")


def _postgres() -> Check:
    servers = sorted(Path(POSTGRES_FOLDERS).glob("*/bin/postgres")) if Path(POSTGRES_FOLDERS).is_dir() else []
    place = str(servers[-1]) if servers else shutil.which("postgres")
    return Check(
        "PostgreSQL server", "optional", place is not None, place or "not installed (SQLite is the default)",
        "apt-get install postgresql", ("postgresql",),
    )  # fmt: skip

"""Base images: a Debian (or Ubuntu) root folder per release and architecture, built once by debootstrap and shared.

An image is stored in the user's cache under a name with the hash of its recipe, so a changed recipe builds another
image and removes those of the same release and architecture that were not used for weeks. It is built next to its
target and renamed: an existing image is complete. Everything mounted during the build is in a mount namespace that
ends with the build.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from gpufleet.errors import EnvironmentFault
from gpufleet.paths import user_cache_folder
from gpufleet.rehearsal.rack import apt_sources, emulation
from gpufleet.rehearsal.rack.shell import (
    Reporter,
    build_system_environment,
    exclusive_lock,
    find_last_nonblank_line,
)

# Everything that the base roles and the burn-in agent use on a host, so that site.yml on a rack downloads nothing.
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "udev", "kmod", "procps", "tzdata", "systemd-timesyncd"),
    *("openssh-server", "sudo", "acl", "ca-certificates", "curl", "python3", "python3-apt"),
    *("iproute2", "iputils-ping", "ethtool", "iperf3", "pciutils", "smartmontools", "unattended-upgrades"),
)
# These would start on every host at once, without use on a temporary machine.
MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "unattended-upgrades.service",
)
RECIPE_VERSION = 3
FALLBACK_SUITE = "bookworm"
SCRIPTS = Path("/usr/share/debootstrap/scripts")
EXPIRE_AFTER_DAYS = 60
DEBIAN_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class ImageRecipe:
    """The content of an image; its hash names the folder."""

    suite: str
    arch: str
    components: tuple[str, ...] = ("main",)
    packages: tuple[str, ...] = PACKAGES
    masked: tuple[str, ...] = MASKED
    version: int = RECIPE_VERSION

    @property
    def suite_and_arch(self) -> str:
        """Return the common name of all recipes of this suite and architecture."""
        return f"{self.suite}-{self.arch}"

    @property
    def image_name(self) -> str:
        """Return the image's name: suite, architecture, hash of the recipe."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        return f"{self.suite_and_arch}-{digest[:12]}"


def native_arch() -> str:
    """Return this machine's architecture by Debian's name."""
    return DEBIAN_NAMES.get(platform.machine(), platform.machine())


def image_suite(image_folder: Path) -> str:
    """Return the suite of an image, from its name."""
    return image_folder.name.split("-", 1)[0]


def ensure_base_image(arch: str, report: Reporter, suite: str = "") -> Path:
    """Return the base image for an architecture (``amd64``, ``arm64``), and build it if it does not exist.

    ``suite`` is a release of Debian; an empty one means this machine's own release.
    """
    recipe, mirror = _choose_recipe(arch, suite)
    folder = user_cache_folder() / "hosts"
    image = folder / recipe.image_name
    if arch != native_arch():
        emulation.ensure_cpu_emulation(arch)
    if image.is_dir():
        os.utime(image)
        return image
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(folder / f"{recipe.suite_and_arch}.lock", report, "builds this base image"):
        if not image.is_dir():
            _build_image(recipe, mirror, image, report)
    return image


def _choose_recipe(arch: str, suite: str) -> tuple[ImageRecipe, str | None]:
    """Choose the recipe and its mirror: the suite, else this machine's own one; else the fallback.

    The mirror is this machine's own. Without one debootstrap's default serves Debian's suites.
    """
    chosen = suite or platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    is_buildable = bool(chosen) and (SCRIPTS / chosen).is_file()
    if suite and not is_buildable:
        raise EnvironmentFault(
            f"this machine's debootstrap cannot build {suite}: {SCRIPTS / suite} does not exist",
            hint="install a newer debootstrap",
        )
    source = (
        apt_sources.find_suite_mirror(chosen, apt_sources.read_suite_apt_sources(chosen))
        if is_buildable
        else None
    )
    if source is None:
        return ImageRecipe(suite or FALLBACK_SUITE, arch), None
    components = tuple(c for c in ("main", "universe") if c in source.components)
    # Ubuntu keeps foreign architectures on another server; debootstrap knows which.
    is_on_ports_server = "universe" in components and arch != native_arch()
    return ImageRecipe(chosen, arch, components), None if is_on_ports_server else source.uri


def _build_image(recipe: ImageRecipe, mirror: str | None, image: Path, report: Reporter) -> None:
    report(f"base image {image.name}: building once, about one minute (three for a foreign architecture)")
    partial_image = image.with_name(f".{image.name}.building")
    package_cache = image.with_name(f".{recipe.suite_and_arch}.packages")
    for interrupted in image.parent.glob(f".{recipe.suite_and_arch}-*.building"):
        shutil.rmtree(interrupted)  # its processes and mounts ended with its build
    package_cache.mkdir(exist_ok=True)  # downloads survive an interrupted build
    _run_debootstrap(recipe, mirror, partial_image, package_cache, report)
    _remove_host_specific_files(recipe, partial_image)
    partial_image.rename(image)
    shutil.rmtree(package_cache)
    _remove_expired_images(recipe, image)
    report(f"base image {image.name}: ready")


def _remove_expired_images(recipe: ImageRecipe, current_image: Path) -> None:
    """Remove images of older recipes for this suite and architecture; another checkout may use a recent one."""
    for image in current_image.parent.glob(f"{recipe.suite_and_arch}-*"):
        unused_s = time.time() - image.stat().st_mtime
        if image.is_dir() and image != current_image and unused_s > EXPIRE_AFTER_DAYS * 86400:
            shutil.rmtree(image)


def _run_debootstrap(
    recipe: ImageRecipe, mirror: str | None, target: Path, packages: Path, report: Reporter
) -> None:
    command = [
        # Ends with this process, together with its children and mounts.
        *("setpriv", "--pdeathsig", "KILL"),
        *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *("debootstrap", "--variant=minbase", f"--arch={recipe.arch}", f"--cache-dir={packages}"),
        *(f"--components={','.join(recipe.components)}", f"--include={','.join(recipe.packages)}"),
        *(recipe.suite, str(target), *([mirror] if mirror else [])),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_debootstrap_environment()
    ) as build:
        last_output = _report_progress(build, report)
    if build.returncode:
        log = target / "debootstrap" / "debootstrap.log"
        raise EnvironmentFault(f"debootstrap of {recipe.suite} failed: {last_output}", hint=f"see {log}")


def _debootstrap_environment() -> dict[str, str]:
    """Return debootstrap's environment: the C locale and apt's proxy."""
    proxy = apt_sources.find_apt_proxy()
    return build_system_environment() | ({"http_proxy": proxy} if proxy else {})


def _report_progress(build: subprocess.Popen[str], report: Reporter) -> str:
    """Report debootstrap's progress every 30 packages; return its last line."""
    counts: dict[str, int] = {}
    last_output = "no output"
    assert build.stdout is not None  # noqa: S101 - Popen was asked for a pipe
    for line in build.stdout:
        last_output = line.strip() or last_output
        verb = line.removeprefix("I: ").split(" ", 1)[0]
        if line.startswith("I: ") and verb in {"Retrieving", "Unpacking", "Configuring"}:
            counts[verb] = counts.get(verb, 0) + 1
            if counts[verb] % 30 == 0:
                total = f" of {counts['Retrieving']}" if verb != "Retrieving" else ""
                report(f"base image: {verb.lower()} packages, {counts[verb]}{total}")
    return find_last_nonblank_line(last_output)


def _remove_host_specific_files(recipe: ImageRecipe, root: Path) -> None:
    """Remove files that hosts must not share or do not need."""
    for key in root.glob("etc/ssh/ssh_host_*"):
        key.unlink()
    for package in root.glob("var/cache/apt/archives/*.deb"):
        package.unlink()
    shutil.rmtree(root / "var/lib/apt/lists", ignore_errors=True)
    # Without this folder journals stay in memory, which spares the disk that all hosts share.
    shutil.rmtree(root / "var/log/journal", ignore_errors=True)
    (root / "etc/machine-id").write_text("")
    (root / "var/lib/dbus/machine-id").unlink(missing_ok=True)
    (root / "var/lib/dbus/machine-id").symlink_to("/etc/machine-id")
    for unit in recipe.masked:
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")

"""Base images: a Debian (or Ubuntu) root folder per architecture, built once by debootstrap and shared.

An image lives in the user's cache under a name that holds the hash of its recipe, so a changed recipe builds
anew. It is built beside its place and renamed into it: what is found there is whole. Everything mounted while
building is in a mount namespace that dies with the build.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from gpufleet.errors import EnvironmentFault
from gpufleet.paths import user_cache
from gpufleet.rehearsal.rack import apt, emulation
from gpufleet.rehearsal.rack.shell import Say, alone, environment, last_line

# All that the base roles and the burn-in agent use on a host, so that site.yml on a whole rack fetches nothing.
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "udev", "kmod", "procps", "tzdata", "systemd-timesyncd"),
    *("openssh-server", "sudo", "acl", "ca-certificates", "curl", "python3", "python3-apt"),
    *("iproute2", "iputils-ping", "ethtool", "iperf3", "pciutils", "smartmontools", "unattended-upgrades"),
)
# They would wake up on every host at once, to no use on a machine that is thrown away.
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
DEBIAN_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Recipe:
    """What an image is made of; its hash names the folder."""

    suite: str
    arch: str
    components: tuple[str, ...] = ("main",)
    packages: tuple[str, ...] = PACKAGES
    masked: tuple[str, ...] = MASKED
    version: int = RECIPE_VERSION

    @property
    def family(self) -> str:
        """Name what all recipes of the same suite and architecture share."""
        return f"{self.suite}-{self.arch}"

    @property
    def name(self) -> str:
        """Name the image: suite, architecture, hash of the whole recipe."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        return f"{self.family}-{digest[:12]}"


def native_arch() -> str:
    """Return this machine's architecture in Debian's words."""
    return DEBIAN_NAMES.get(platform.machine(), platform.machine())


def suite_of(image: Path) -> str:
    """Return the suite that an image was made from, as its name says."""
    return image.name.split("-", 1)[0]


def ensure_base(arch: str, say: Say) -> Path:
    """Return the base image for an architecture (``amd64``, ``arm64``), building it when absent."""
    recipe, mirror = _recipe(arch)
    folder = user_cache() / "hosts"
    image = folder / recipe.name
    if arch != native_arch():
        emulation.ensure(arch)
    if image.is_dir():
        return image
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder / f"{recipe.family}.lock", say, "builds this base image"):
        if not image.is_dir():
            _build(recipe, mirror, image, say)
    return image


def _recipe(arch: str) -> tuple[Recipe, str | None]:
    """Choose what to build: this machine's own suite, from where its apt fetches it."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    source = apt.mirror_of(codename, apt.system_sources()) if (SCRIPTS / codename).is_file() else None
    if not codename or source is None:
        return Recipe(FALLBACK_SUITE, arch), None
    components = tuple(c for c in ("main", "universe") if c in source.components)
    # Ubuntu keeps foreign architectures on another server; debootstrap knows which.
    elsewhere = "universe" in components and arch != native_arch()
    return Recipe(codename, arch, components), None if elsewhere else source.uri


def _build(recipe: Recipe, mirror: str | None, image: Path, say: Say) -> None:
    say(f"base image {image.name}: building once, about a minute (three for a foreign architecture)")
    building = image.with_name(f".{image.name}.building")
    packages = image.with_name(f".{recipe.family}.packages")
    for interrupted in image.parent.glob(f".{recipe.family}-*.building"):
        shutil.rmtree(interrupted)  # its processes and mounts died with the one that built it
    packages.mkdir(exist_ok=True)  # downloads outlive an interrupted build
    _debootstrap(recipe, mirror, building, packages, say)
    _finish(recipe, building)
    building.rename(image)
    shutil.rmtree(packages)
    say(f"base image {image.name}: ready")


def _debootstrap(recipe: Recipe, mirror: str | None, target: Path, packages: Path, say: Say) -> None:
    command = [
        # Dies with this process, and takes everything that it started and mounted with it.
        *("setpriv", "--pdeathsig", "KILL"),
        *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *("debootstrap", "--variant=minbase", f"--arch={recipe.arch}", f"--cache-dir={packages}"),
        *(f"--components={','.join(recipe.components)}", f"--include={','.join(recipe.packages)}"),
        *(recipe.suite, str(target), *([mirror] if mirror else [])),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_environment()
    ) as build:
        last = _follow(build, say)
    if build.returncode:
        log = target / "debootstrap" / "debootstrap.log"
        raise EnvironmentFault(f"debootstrap of {recipe.suite} failed: {last}", hint=f"see {log}")


def _environment() -> dict[str, str]:
    """Give debootstrap the plain language and the proxy that apt uses."""
    proxy = apt.proxy()
    return environment() | ({"http_proxy": proxy} if proxy else {})


def _follow(build: subprocess.Popen[str], say: Say) -> str:
    """Turn debootstrap's lines into a line of progress every 30 packages; return its last line."""
    seen: dict[str, int] = {}
    last = "no output"
    assert build.stdout is not None  # noqa: S101 - Popen was asked for a pipe
    for line in build.stdout:
        last = line.strip() or last
        verb = line.removeprefix("I: ").split(" ", 1)[0]
        if line.startswith("I: ") and verb in {"Retrieving", "Unpacking", "Configuring"}:
            seen[verb] = seen.get(verb, 0) + 1
            if seen[verb] % 30 == 0:
                total = f" of {seen['Retrieving']}" if verb != "Retrieving" else ""
                say(f"base image: {verb.lower()} packages, {seen[verb]}{total}")
    return last_line(last)


def _finish(recipe: Recipe, root: Path) -> None:
    """Take out what hosts must not share, and what they have no use for."""
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

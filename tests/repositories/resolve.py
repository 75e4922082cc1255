"""The files and the script that resolve one package set, and what its output means."""

from __future__ import annotations

import re
import shlex
import urllib.request
from dataclasses import dataclass
from functools import cache
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.module_utils import apt_sources, signing_key
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError
from repositories.backend import BackendError
from repositories.plans import PackageSet, System

APT_SUMMARY = re.compile(r"^\d+ upgraded, (\d+) newly installed", re.MULTILINE)
DNF_SUMMARY = re.compile(r"^Install +(\d+) Packages?", re.MULTILINE)
APT_PROBLEM = re.compile(r"^(?:E:|W: Failed|Err:| \S+ : (?:Pre)?Depends:).*", re.MULTILINE)
DNF_PROBLEM = re.compile(r"^(?:Error:|No match|Unable to|Problem|.*[Ee]rror\b).*", re.MULTILINE)
# Words of the plans for what dnf needs first, as the roles apply them (EPEL's and Rocky's own documents).
DNF_PREREQUISITES = {
    "epel": "dnf -y -q install epel-release",
    "crb": "dnf -y -q install dnf-plugins-core && dnf config-manager --set-enabled crb",
    "versionlock": "dnf -y -q install python3-dnf-plugin-versionlock",
}


@dataclass(frozen=True)
class Resolution:
    """Whether a set resolves; ``reason`` is the number of packages, or the package manager's words."""

    is_resolved: bool
    reason: str


@cache
def fetch_key(url: str, fingerprints: tuple[str, ...]) -> str:
    """Return a repository's key, verified by its fingerprint as the role does."""
    if not url.startswith("https://"):
        raise BackendError(f"a key is fetched over https:// only, not from {url or 'nowhere'}")
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            data = response.read(signing_key.MAX_KEY_BYTES + 1)
        return signing_key.select_signing_keys(data, fingerprints, url)
    except HostError as error:
        raise BackendError(error.msg) from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise BackendError(f"cannot fetch the signing key {url}: {reason}") from None


def build_input(package_set: PackageSet) -> tuple[dict[str, str], str]:
    """Return the files of the repositories, and the script; a BackendError if a key cannot be verified."""
    files: dict[str, str] = {}
    for repository in package_set.repositories:
        name, key = repository["name"], repository["key"]
        text = fetch_key(key["url"], tuple(key["fingerprints"]))
        build = _apt_files if package_set.system.uses_apt else _dnf_files
        files |= build(name, repository, text)
    return files, _apt_script(package_set) if package_set.system.uses_apt else _dnf_script(package_set)


def _apt_files(name: str, repository: dict[str, Any], key: str) -> dict[str, str]:
    path = f"/etc/apt/keyrings/{name}.asc"
    entry = {"architectures": [], **repository, "components": repository["components"] or []}
    files = {
        path: key,
        f"/etc/apt/sources.list.d/{name}.sources": apt_sources.deb822_source_text(entry, path),
    }
    if pin := repository.get("pin"):
        files[f"/etc/apt/preferences.d/{name.replace('.', '-')}"] = apt_sources.pin_text(pin)
    return files


def _dnf_files(name: str, repository: dict[str, Any], key: str) -> dict[str, str]:
    path = f"/etc/pki/rpm-gpg/RPM-GPG-KEY-{name}"
    lines = [
        f"[{name}]",
        f"name={name}",
        f"baseurl={repository['uri']}",
        "enabled=1",
        "gpgcheck=1",
        f"gpgkey=file://{path}",
    ]
    return {path: key, f"/etc/yum.repos.d/{name}.repo": "\n".join(lines) + "\n"}


def _apt_script(package_set: PackageSet) -> str:
    names = shlex.join(package_set.packages)
    vendors = " ".join(
        f"/etc/apt/sources.list.d/{entry['name']}.sources" for entry in package_set.repositories
    )
    lines = [
        "export DEBIAN_FRONTEND=noninteractive",
        f'VENDORS="{vendors}"',
        # An image of Ubuntu has no certificates for https; its own archive needs none, and its packages are signed.
        "[ -e /etc/ssl/certs/ca-certificates.crt ] || {",
        "  for file in $VENDORS; do mv $file $file.later; done",
        "  apt-get -qq update && apt-get -qq -y install ca-certificates >/dev/null 2>&1",
        "  for file in $VENDORS; do mv $file.later $file; done; }",
        "apt-get -qq -o APT::Update::Error-Mode=any update || exit 9",
        f"apt-get -s --no-install-recommends install {names}",
    ]
    return "\n".join(lines) + "\n"


def _dnf_script(package_set: PackageSet) -> str:
    lines = ["set -e"]
    lines += [DNF_PREREQUISITES[word] for word in package_set.prerequisites]
    lines += [f"dnf -y module enable {shlex.quote(stream)}" for stream in package_set.streams]
    return "\n".join([*lines, f"dnf --assumeno install {shlex.join(package_set.packages)}"]) + "\n"


def judge(system: System, status: int, output: str) -> Resolution:
    """Return what the output says. dnf --assumeno ends with status 1 also where everything resolves."""
    if system.uses_apt:
        match = APT_SUMMARY.search(output) if status == 0 else None
    else:
        match = DNF_SUMMARY.search(output) if "Operation aborted" in output else None
    if match:
        return Resolution(True, f"{match.group(1)} packages")
    problem = (APT_PROBLEM if system.uses_apt else DNF_PROBLEM).findall(output)
    lines = problem or output.strip().splitlines()[-1:] or [f"exit status {status}"]
    return Resolution(False, "; ".join(" ".join(line.split()) for line in lines[:2]))

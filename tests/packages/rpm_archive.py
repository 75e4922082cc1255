"""Build signed repositories of empty rpm packages with the names, dependencies and streams of the vendors' own.

Sources, read 2026-11-22: NVIDIA/yum-packaging-nvidia-driver (nvidia-driver.spec: epoch, requirements);
NVIDIA/yum-packaging-precompiled-kmod (genmodules.py: modules.yaml); NVIDIA Driver Installation Guide 620, Kernel
Modules (stream 580-open, package nvidia-open) and Version locking (names of packages). dnf's messages in public reports
show that kmod-nvidia-open-dkms needs dkms, which is in EPEL. Those documents do not say which repository of RHEL 9 has
ocl-icd: here it is CRB, so that CRB is needed.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

PLUGINS = "/usr/lib/python3/dist-packages/dnf-plugins"


@dataclass(frozen=True)
class RpmPackage:
    name: str
    version: str
    epoch: int = 0
    requires: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    release: str = "1.el9"
    is_native: bool = False

    @property
    def nevra(self) -> str:
        return f"{self.name}-{self.epoch}:{self.version}-1.el9.noarch"

    def spec(self) -> str:
        """Return a spec that builds the package, with the text of its files."""
        lines = [
            f"Name: {self.name}",
            f"Version: {self.version}",
            f"Release: {self.release}",
            f"Epoch: {self.epoch}",
            "Summary: empty",
            "License: none",
            *([] if self.is_native else ["BuildArch: noarch"]),
            *(f"Requires: {name}" for name in self.requires),
            *(f"Provides: {name}" for name in self.provides),
            "%description\nempty\n%install",
        ]
        for path, source in self.files.items():
            lines.append(f"install -D -m 0644 {source} %{{buildroot}}{path}")
        return "\n".join([*lines, "%files", *self.files, ""])


def nvidia_packages(version: str) -> list[RpmPackage]:
    """Return the packages of one driver version, which need each other at exactly this version."""

    def package(name, *requires, provides=()):
        exact = tuple(
            f"{each} = 3:{version}" if each.startswith(("nvidia", "kmod")) else each for each in requires
        )
        return RpmPackage(name, version, 3, exact, provides)

    return [
        package("nvidia-open", "nvidia-driver", "nvidia-driver-cuda", "kmod-nvidia-open-dkms"),
        package("nvidia-driver", "nvidia-driver-libs", "nvidia-kmod-common"),
        package("nvidia-driver-libs"),
        package("nvidia-driver-cuda", "nvidia-driver-cuda-libs", "nvidia-persistenced", "ocl-icd"),
        package("nvidia-driver-cuda-libs"),
        package("nvidia-persistenced"),
        package("nvidia-kmod-common", "nvidia-kmod"),
        package("kmod-nvidia-open-dkms", "dkms", provides=(f"nvidia-kmod = 3:{version}",)),
        package("nvidia-fabricmanager"),
    ]


def modules_text(streams: dict[str, list[RpmPackage]]) -> str:
    """Return modules.yaml as genmodules.py writes it, with NVIDIA's default stream."""
    documents = []
    for stream, packages in streams.items():
        artifacts = "".join(f"        - {package.nevra}\n" for package in packages)
        documents.append(
            "document: modulemd\nversion: 2\ndata:\n"
            f"    name: nvidia-driver\n    stream: {stream}\n    version: 20261122000000\n    context: 0123abcd\n"
            f"    arch: x86_64\n    summary: Nvidia driver for {stream} branch\n    description: >-\n        empty\n"
            "    license:\n        module:\n            - MIT\n"
            "    profiles:\n        default:\n            rpms:\n                - nvidia-open\n"
            f"    artifacts:\n        rpms:\n{artifacts}"
        )
    default = (
        "document: modulemd-defaults\nversion: 1\ndata:\n    module: nvidia-driver\n    stream: open-dkms\n"
    )
    return (
        "---\n"
        + "...\n---\n".join([*documents, f"{default}    profiles:\n        open-dkms: [default]\n"])
        + "...\n"
    )


class RpmArchive:
    """Folders with signed repositories, and the keys that signed them."""

    def __init__(self, folder: Path, signing_home) -> None:
        self.folder, self.signing_home = folder, signing_home
        self.keys = {name: signing_home.create_key(name) for name in ("distribution", "epel", "nvidia")}

    def add_repository(self, name: str, packages: list[RpmPackage], signer: str, modules: str = "") -> None:
        """Build, sign and index the packages of a repository."""
        target = self.folder / name
        target.mkdir()
        specs = []
        for package in packages:
            spec = target / f"{package.name}-{package.version}.spec"
            spec.write_text(package.spec())
            specs.append(spec)
        macros = ["--define", f"_topdir {self.folder}/build-{name}", "--define", f"_rpmdir {target}"]
        run(
            "rpmbuild",
            "--quiet",
            *macros,
            "--define",
            "_build_name_fmt %%{NAME}-%%{VERSION}.rpm",
            "-bb",
            *specs,
        )
        for spec in specs:
            spec.unlink()
        self.sign(list(target.glob("*.rpm")), self.keys[signer][0])
        run("createrepo_c", "--quiet", target)
        if modules:
            (self.folder / "modules.yaml").write_text(modules)
            run("modifyrepo_c", "--mdtype=modules", self.folder / "modules.yaml", target / "repodata")

    def sign(self, paths: list[Path], fingerprint: str) -> None:
        settings = {"__gpg": "/usr/bin/gpg", "_gpg_name": fingerprint, "_gpg_path": self.signing_home.folder}
        macros = [text for name, value in settings.items() for text in ("--define", f"{name} {value}")]
        run("rpmsign", *macros, "--addsign", *paths)

    def repository_text(self, name: str, signer: str, enabled: bool = True) -> str:
        """Return the file of a repository that the distribution brings."""
        return (
            f"[{name}]\nname={name}\nbaseurl=file://{self.folder}/{name}\nenabled={int(enabled)}\ngpgcheck=1\n"
            f"gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-{signer}\n"
        )


def run(*argv) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv[0]}\n{done.stdout}{done.stderr}"

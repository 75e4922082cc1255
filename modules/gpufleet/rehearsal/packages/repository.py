"""The fake package repository: small Debian packages built from the ``data/fake-*.yaml`` files.

They have the names, versions and relations of vendors' packages; their files and shell commands are marked as fake.
Tests of roles use them to choose, install, hold, upgrade and remove packages without access to a vendor. The
repository is built once into the user's cache, in a folder named by the hash of its data.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from email.utils import formatdate
from importlib import resources
from pathlib import Path
from typing import Any

from gpufleet.boundary import decode_yaml
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.paths import user_cache_folder
from gpufleet.rehearsal.rack.shell import exclusive_lock, run_command

DATA = "fake-packages.yaml"
MORE_DATA = ("fake-kernels.yaml", "fake-gpudirect.yaml")
MARKER = "FAKE"
FORMAT = 2  # raise it when the same data must build different packages
RELATIONS = ("pre-depends", "depends", "recommends", "provides", "conflicts", "breaks", "replaces")
SCRIPTS = ("preinst", "postinst", "prerm", "postrm")
KEYS = {
    *("name", "versions", "arch", "section", "summary", "source", "files", "commands", "units", "fill_mib"),
    *RELATIONS,
    *SCRIPTS,
}
REQUIRED = ("name", "versions", "summary", "source")
EXPIRE_AFTER_DAYS = 7


def ensure_fake_repository(package_data: str | None = None, cache_folder: Path | None = None) -> Path:
    """Return the folder of the built repository; ``package_data`` is YAML text (default: the shipped data)."""
    data_texts = {DATA: package_data} if package_data is not None else _read_shipped_data()
    folder = (cache_folder or user_cache_folder() / "packages") / MARKER.lower()
    repository = (
        folder / hashlib.sha256("\n".join([str(FORMAT), *data_texts.values()]).encode()).hexdigest()[:16]
    )
    if repository.is_dir():
        os.utime(repository)
        return repository
    entries = [entry for name, text in data_texts.items() for entry in parse_fake_packages(text, name)]
    if not shutil.which("dpkg-deb"):
        raise EnvironmentFault("dpkg-deb is not installed", hint="apt install dpkg")
    with exclusive_lock(folder / ".lock", lambda _line: None, "builds fake packages"):
        if not repository.is_dir():
            _build_repository(entries, repository)
            _remove_expired(folder, repository)
    return repository


def _read_shipped_data() -> dict[str, str]:
    folder = resources.files("gpufleet.rehearsal") / "data"
    return {name: (folder / name).read_text() for name in (DATA, *MORE_DATA)}


def parse_fake_packages(package_data: str, where: str = DATA) -> list[dict[str, Any]]:
    """Parse the data; raise InputError with the entry if no package can be built from it."""
    entries = (decode_yaml(package_data, where) or {}).get("packages", [])
    for entry in entries:
        name = str(entry.get("name"))
        if missing := [key for key in REQUIRED if not entry.get(key)]:
            raise InputError(f"has no {', '.join(missing)}", where=where, key=name)
        if unknown := sorted(set(entry) - KEYS):
            raise InputError(
                f"unknown {', '.join(unknown)}", where=where, key=name, remedy=", ".join(sorted(KEYS))
            )
    packages = [
        f"{e['name']}={version} {arch}"
        for e in entries
        for version in e["versions"]
        for arch in _architectures(e)
    ]
    if duplicates := sorted({package for package in packages if packages.count(package) > 1}):
        raise InputError(f"duplicate packages: {', '.join(duplicates)}", where=where)
    return list(entries)


def build_control_file(package_entry: dict[str, Any], version: str, arch: str) -> str:
    """Return the control file of one package; ``{version}`` in a relation means the package's own."""
    fields = {
        "Package": package_entry["name"],
        "Version": version,
        "Architecture": arch,
        "Maintainer": "gpufleet rehearsal <root@localhost>",
        "Section": package_entry.get("section", "misc"),
        "Priority": "optional",
        "Installed-Size": str(1 + 1024 * package_entry.get("fill_mib", 0)),
        **{
            r.title(): ", ".join(package_entry[r]).replace("{version}", version)
            for r in RELATIONS
            if package_entry.get(r)
        },
        "Description": f"{MARKER} {package_entry['summary']}\n"
        " Made for rehearsed hosts; the vendor's software is not in it.",
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def list_package_files(package_entry: dict[str, Any], version: str) -> Iterator[tuple[str, str, int]]:
    """Yield the files of the package: path, text, mode."""
    name = package_entry["name"]
    for path, text in package_entry.get("files", {}).items():
        yield path.lstrip("/"), text.replace("{version}", version), 0o644
    for path, text in package_entry.get("commands", {}).items():
        target = path.lstrip("/") if "/" in path else f"usr/bin/{path}"
        program = target.rpartition("/")[2]
        header = f"#!/bin/sh\n# {MARKER} {program} of {name}: a shell script, not the vendor's program.\n"
        yield target, header + text.replace("{version}", version), 0o755
    for unit, text in package_entry.get("units", {}).items():
        yield f"lib/systemd/system/{unit}", f"# {MARKER}\n" + text.replace("{version}", version), 0o644


def _architectures(entry: dict[str, Any]) -> list[str]:
    arch = entry.get("arch", "all")
    return [arch] if isinstance(arch, str) else list(arch)


def _build_repository(entries: Iterable[dict[str, Any]], target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as name:
        work = Path(name)
        repository = work / "repository"
        repository.mkdir(parents=True)
        stanzas = [
            _build_package(entry, str(version), arch, work / "root", repository)
            for entry in entries
            for version in entry["versions"]
            for arch in _architectures(entry)
        ]
        index = "\n".join(stanzas)
        (repository / "Packages").write_text(index)
        (repository / "Release").write_text(_release_file(index))
        repository.rename(target)


def _build_package(entry: dict[str, Any], version: str, arch: str, root: Path, repository: Path) -> str:
    """Build one package and return its stanza of the index."""
    shutil.rmtree(root, ignore_errors=True)
    for path, text, mode in list_package_files(entry, version):
        _write_file(root / path, text, mode)
    if size_mib := entry.get("fill_mib"):
        _write_filler(root / f"usr/share/{entry['name']}/fill", size_mib)
    _write_file(root / "DEBIAN/control", build_control_file(entry, version, arch), 0o644)
    for script in SCRIPTS:
        if steps := entry.get(script):
            text = f"#!/bin/sh\n# {MARKER}\nset -e\n{steps}".replace("{version}", version)
            _write_file(root / "DEBIAN" / script, text, 0o755)
    # apt leaves the epoch out of file names.
    file = repository / f"{entry['name']}_{version.rpartition(':')[2]}_{arch}.deb"
    run_command(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(root), str(file)])
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    file_fields = f"Filename: ./{file.name}\nSize: {file.stat().st_size}\nSHA256: {digest}\n"
    return build_control_file(entry, version, arch) + file_fields


def _release_file(index: str) -> str:
    raw = index.encode()
    return (
        f"Origin: gpufleet {MARKER}\nLabel: gpufleet {MARKER}\nSuite: {MARKER.lower()}\nCodename: {MARKER.lower()}\n"
        f"Date: {formatdate(usegmt=True)}\n"
        f"Architectures: all amd64 arm64\nDescription: {MARKER} packages for rehearsed hosts\n"
        f"SHA256:\n {hashlib.sha256(raw).hexdigest()} {len(raw)} Packages\n"
    )


def _write_filler(path: Path, size_mib: int) -> None:
    """Write bytes that fill a disk; the compressed package stays small."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        for _ in range(size_mib):
            out.write(b"\x55" * 2**20)


def _remove_expired(folder: Path, current: Path) -> None:
    """Remove repositories unused for days; a running server may still use a recent one."""
    for repository in folder.iterdir():
        unused_s = time.time() - repository.stat().st_mtime
        if repository.is_dir() and repository != current and unused_s > EXPIRE_AFTER_DAYS * 86400:
            shutil.rmtree(repository, ignore_errors=True)


def _write_file(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)

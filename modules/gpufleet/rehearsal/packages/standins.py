"""The stand-in repository: small Debian packages made from ``data/stand-in-packages.yaml``.

They bear the names, versions and relations of vendors' packages, and bring files and shell commands that say
what they are. So roles can be seen to choose, install, hold, upgrade and remove the right ones, where no vendor
can be reached. Built once into the user's cache, under the hash of all that it is made from.
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
from gpufleet.paths import user_cache
from gpufleet.rehearsal.rack.shell import alone, run

DATA = "stand-in-packages.yaml"
MARK = "STAND-IN"
FORMAT = 2  # raise it when the same data shall give other packages
RELATIONS = ("pre-depends", "depends", "recommends", "provides", "conflicts", "breaks", "replaces")
SCRIPTS = ("preinst", "postinst", "prerm", "postrm")
KEYS = {
    *("name", "versions", "arch", "section", "summary", "source", "files", "commands", "units", "fill_mib"),
    *RELATIONS,
    *SCRIPTS,
}
REQUIRED = ("name", "versions", "summary", "source")
UNUSED_DAYS = 7


def ensure_repository(text: str | None = None, cache: Path | None = None) -> Path:
    """Return the folder of the built repository; ``text`` is the data, by default what is shipped."""
    text = (resources.files("gpufleet.rehearsal") / "data" / DATA).read_text() if text is None else text
    folder = (cache or user_cache() / "packages") / MARK.lower()
    built = folder / hashlib.sha256(f"{FORMAT}\n{text}".encode()).hexdigest()[:16]
    if built.is_dir():
        os.utime(built)
        return built
    entries = parse(text)
    if not shutil.which("dpkg-deb"):
        raise EnvironmentFault("dpkg-deb is not installed", hint="apt install dpkg")
    with alone(folder / ".lock", lambda _line: None, "builds stand-in packages"):
        if not built.is_dir():
            _build(entries, built)
            _forget_old(folder, built)
    return built


def parse(text: str, where: str = DATA) -> list[dict[str, Any]]:
    """Read the data and refuse what no package can be made of, naming the entry."""
    entries = (decode_yaml(text, where) or {}).get("packages", [])
    for entry in entries:
        name = str(entry.get("name"))
        if lacks := [key for key in REQUIRED if not entry.get(key)]:
            raise InputError(f"lacks {', '.join(lacks)}", where=where, key=name)
        if unknown := sorted(set(entry) - KEYS):
            raise InputError(
                f"unknown {', '.join(unknown)}", where=where, key=name, remedy=", ".join(sorted(KEYS))
            )
    made = [
        f"{e['name']}={version} {arch}" for e in entries for version in e["versions"] for arch in _archs(e)
    ]
    if twice := sorted({one for one in made if made.count(one) > 1}):
        raise InputError(f"given twice: {', '.join(twice)}", where=where)
    return list(entries)


def control(entry: dict[str, Any], version: str, arch: str) -> str:
    """Return the control file of one package; ``{version}`` in a relation means the package's own."""
    fields = {
        "Package": entry["name"],
        "Version": version,
        "Architecture": arch,
        "Maintainer": "gpufleet rehearsal <root@localhost>",
        "Section": entry.get("section", "misc"),
        "Priority": "optional",
        "Installed-Size": str(1 + 1024 * entry.get("fill_mib", 0)),
        **{r.title(): ", ".join(entry[r]).replace("{version}", version) for r in RELATIONS if entry.get(r)},
        "Description": f"{MARK} {entry['summary']}\n Made for rehearsed hosts; the vendor's software is not in it.",
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def contents(entry: dict[str, Any], version: str) -> Iterator[tuple[str, str, int]]:
    """Yield what the package brings: path, text, mode."""
    name = entry["name"]
    for path, text in entry.get("files", {}).items():
        yield path.lstrip("/"), text.replace("{version}", version), 0o644
    for path, text in entry.get("commands", {}).items():
        place = path.lstrip("/") if "/" in path else f"usr/bin/{path}"
        head = f"#!/bin/sh\n# {MARK} for {place.rpartition('/')[2]} of {name}: a shell script, no vendor's program.\n"
        yield place, head + text.replace("{version}", version), 0o755
    for unit, text in entry.get("units", {}).items():
        yield f"lib/systemd/system/{unit}", f"# {MARK}\n" + text.replace("{version}", version), 0o644


def _archs(entry: dict[str, Any]) -> list[str]:
    arch = entry.get("arch", "all")
    return [arch] if isinstance(arch, str) else list(arch)


def _build(entries: Iterable[dict[str, Any]], built: Path) -> None:
    with tempfile.TemporaryDirectory(dir=built.parent, prefix=".building-") as name:
        work = Path(name)
        repository = work / "repository"
        repository.mkdir(parents=True)
        stanzas = [
            _package(entry, str(version), arch, work / "root", repository)
            for entry in entries
            for version in entry["versions"]
            for arch in _archs(entry)
        ]
        index = "\n".join(stanzas)
        (repository / "Packages").write_text(index)
        (repository / "Release").write_text(_release(index))
        repository.rename(built)


def _package(entry: dict[str, Any], version: str, arch: str, root: Path, repository: Path) -> str:
    """Build one package and return its stanza of the index."""
    shutil.rmtree(root, ignore_errors=True)
    for path, text, mode in contents(entry, version):
        _write(root / path, text, mode)
    if size_mib := entry.get("fill_mib"):
        _fill(root / f"usr/share/{entry['name']}/fill", size_mib)
    _write(root / "DEBIAN/control", control(entry, version, arch), 0o644)
    for script in SCRIPTS:
        if steps := entry.get(script):
            told = f"#!/bin/sh\n# {MARK}\nset -e\n{steps}".replace("{version}", version)
            _write(root / "DEBIAN" / script, told, 0o755)
    # apt leaves the epoch out of file names, and a colon has no place in them.
    file = repository / f"{entry['name']}_{version.rpartition(':')[2]}_{arch}.deb"
    run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(root), str(file)])
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    place = f"Filename: ./{file.name}\nSize: {file.stat().st_size}\nSHA256: {digest}\n"
    return control(entry, version, arch) + place


def _release(index: str) -> str:
    raw = index.encode()
    return (
        f"Origin: gpufleet {MARK}\nLabel: gpufleet {MARK}\nSuite: {MARK.lower()}\nCodename: {MARK.lower()}\n"
        f"Date: {formatdate(usegmt=True)}\n"
        f"Architectures: all amd64 arm64\nDescription: {MARK} packages for rehearsed hosts\n"
        f"SHA256:\n {hashlib.sha256(raw).hexdigest()} {len(raw)} Packages\n"
    )


def _fill(path: Path, size_mib: int) -> None:
    """Write bytes that take their room on a disk; the package itself stays small."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        for _ in range(size_mib):
            out.write(b"\x55" * 2**20)


def _forget_old(folder: Path, built: Path) -> None:
    """Remove what no rehearsal has begun with for days: a server may still give out of an older one."""
    for old in folder.iterdir():
        unused_s = time.time() - old.stat().st_mtime
        if old.is_dir() and old != built and unused_s > UNUSED_DAYS * 86400:
            shutil.rmtree(old, ignore_errors=True)


def _write(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)

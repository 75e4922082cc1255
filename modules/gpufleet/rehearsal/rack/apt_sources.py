"""The apt sources of this machine: base images and hosts' packages come from the same mirrors.

Input: the text of sources files. Output: the mirror and the archives of a suite.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gpufleet.rehearsal.rack.shell import run_command

# Debian's mirror on a machine of another distribution: debootstrap's default (DEF_MIRROR).
DEBIAN_MIRROR = "http://deb.debian.org/debian"
# Vendors' drivers are in Debian's non-free parts and in Ubuntu's restricted ones.
COMPONENTS = {
    "main": ("main", "contrib", "non-free", "non-free-firmware"),
    "universe": ("main", "universe", "restricted", "multiverse"),
}


@dataclass(frozen=True)
class AptSource:
    """One archive of Debian packages in apt's sources."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


@dataclass(frozen=True)
class AptArchive:
    """An archive for hosts; ``name`` is its folder on the rehearsal's package server."""

    name: str
    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


def list_suite_archives(suite: str, sources: Iterable[AptSource]) -> list[AptArchive]:
    """Return the archives of a suite, and of its updates and security fixes if this machine's apt has them."""
    sources = list(sources)
    main_source = find_suite_mirror(suite, sources) or AptSource(DEBIAN_MIRROR, (suite,), ("main",))
    components = COMPONENTS["universe" if "universe" in main_source.components else "main"]
    suites: dict[str, list[str]] = {main_source.uri: [suite]}
    for pocket in ("updates", "security"):
        if source := find_suite_mirror(f"{suite}-{pocket}", sources):
            suites.setdefault(source.uri, []).append(f"{suite}-{pocket}")
    names = {uri: uri.rstrip("/").rpartition("/")[2] for uri in suites}
    return [
        AptArchive(names[uri], uri, tuple(suite_names), components) for uri, suite_names in suites.items()
    ]


def read_suite_apt_sources(suite: str) -> list[AptSource]:
    """Return the sources of this machine's apt, for a suite that may be another one than the machine's own.

    A Debian machine gets every Debian release from the archives that have its own release.
    """
    release = platform.freedesktop_os_release()
    sources = read_system_apt_sources()
    codename = release.get("VERSION_CODENAME", "")
    if release.get("ID") != "debian" or not codename or find_suite_mirror(suite, sources):
        return sources
    return [replace_release(source, codename, suite) for source in sources]


def replace_release(source: AptSource, codename: str, other_codename: str) -> AptSource:
    """Return the source with the suites of one release (also ``-updates``) replaced by those of another."""
    suites = (
        other_codename + suite.removeprefix(codename) if suite.partition("-")[0] == codename else suite
        for suite in source.suites
    )
    return replace(source, suites=tuple(suites))


def read_system_apt_sources() -> list[AptSource]:
    """Return the sources of this machine's apt; empty without apt."""
    etc = Path("/etc/apt")
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    readable = (f for f in files if f.is_file() and f.suffix in {".list", ".sources"})
    return [source for f in readable for source in parse_apt_sources(f.read_text(errors="replace"))]


def find_apt_proxy() -> str:
    """Return the HTTP proxy of this machine's apt, or an empty text."""
    if not shutil.which("apt-config"):
        return ""
    output = run_command(["apt-config", "shell", "proxy", "Acquire::http::Proxy"])
    proxy_url = output.strip().removeprefix("proxy=").strip("'")
    return "" if proxy_url == "DIRECT" else proxy_url


def parse_apt_sources(text: str) -> list[AptSource]:
    """Parse a sources file in either format: ``deb …`` lines or blocks of fields."""
    one_line = [line.split() for line in text.splitlines() if line.startswith(("deb ", "deb\t", "deb["))]
    return [_parse_one_line(fields) for fields in one_line] if one_line else list(_parse_blocks(text))


def find_suite_mirror(suite: str, sources: Iterable[AptSource]) -> AptSource | None:
    """Return the archive that serves a suite's main packages."""
    matches = (s for s in sources if suite in s.suites and "main" in s.components and "://" in s.uri)
    return next((s for s in matches if s.uri.startswith(("http://", "https://", "file://"))), None)


def _parse_one_line(fields: list[str]) -> AptSource:
    arguments = fields[1:]
    if arguments and arguments[0].startswith("["):
        last_option = next(
            (i for i, argument in enumerate(arguments) if argument.endswith("]")), len(arguments) - 1
        )
        arguments = arguments[last_option + 1 :]
    uri, suite, *components = [*arguments, "", ""][: max(len(arguments), 2)]
    return AptSource(uri, (suite,), tuple(components))


def _parse_blocks(text: str) -> Iterator[AptSource]:
    for block in text.split("\n\n"):
        fields = _parse_fields(block)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes") == "no":
            continue
        suites, components = fields.get("suites", "").split(), fields.get("components", "").split()
        for uri in fields.get("uris", "").split():
            yield AptSource(uri, tuple(suites), tuple(components))


def _parse_fields(block: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in block.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            fields[name] = f"{fields.get(name, '')} {line.strip()}"
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields

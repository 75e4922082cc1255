"""Where this machine's own apt fetches its distribution from, so that base images and hosts' packages do too.

Takes the text of sources files, gives the mirror and the archives of a suite.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpufleet.rehearsal.rack.shell import run

# Where a machine of another distribution gets Debian from: debootstrap's own choice (its DEF_MIRROR).
DEBIAN = "http://deb.debian.org/debian"
# Vendors' drivers are in Debian's non-free parts and in Ubuntu's restricted ones.
WIDER = {
    "main": ("main", "contrib", "non-free", "non-free-firmware"),
    "universe": ("main", "universe", "restricted", "multiverse"),
}


@dataclass(frozen=True)
class Source:
    """One archive of Debian packages that apt is told to use."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


@dataclass(frozen=True)
class Archive:
    """What hosts may install from one address: ``name`` is its folder on the rehearsal's package server."""

    name: str
    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


def archives(suite: str, sources: Iterable[Source]) -> list[Archive]:
    """Return the archives of a suite with its updates and security fixes, as far as this machine's apt has them."""
    sources = list(sources)
    base = mirror_of(suite, sources) or Source(DEBIAN, (suite,), ("main",))
    components = WIDER["universe" if "universe" in base.components else "main"]
    suites: dict[str, list[str]] = {base.uri: [suite]}
    for pocket in ("updates", "security"):
        if source := mirror_of(f"{suite}-{pocket}", sources):
            suites.setdefault(source.uri, []).append(f"{suite}-{pocket}")
    names = {uri: uri.rstrip("/").rpartition("/")[2] for uri in suites}
    return [Archive(names[uri], uri, tuple(of), components) for uri, of in suites.items()]


def system_sources() -> list[Source]:
    """Return what this machine's own apt is told to use; nothing where there is no apt."""
    etc = Path("/etc/apt")
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    readable = (f for f in files if f.is_file() and f.suffix in {".list", ".sources"})
    return [source for f in readable for source in parse_sources(f.read_text(errors="replace"))]


def proxy() -> str:
    """Return the HTTP proxy that this machine's apt uses, or nothing."""
    if not shutil.which("apt-config"):
        return ""
    asked = run(["apt-config", "shell", "proxy", "Acquire::http::Proxy"])
    said = asked.strip().removeprefix("proxy=").strip("'")
    return "" if said == "DIRECT" else said


def parse_sources(text: str) -> list[Source]:
    """Read a sources file of either shape: ``deb …`` lines or blocks of fields."""
    one_line = [line.split() for line in text.splitlines() if line.startswith(("deb ", "deb\t", "deb["))]
    return [_from_words(words) for words in one_line] if one_line else list(_from_blocks(text))


def mirror_of(suite: str, sources: Iterable[Source]) -> Source | None:
    """Return the archive that serves a suite's main packages."""
    fits = (s for s in sources if suite in s.suites and "main" in s.components and "://" in s.uri)
    return next((s for s in fits if s.uri.startswith(("http://", "https://", "file://"))), None)


def _from_words(words: list[str]) -> Source:
    rest = words[1:]
    if rest and rest[0].startswith("["):
        end = next((i for i, word in enumerate(rest) if word.endswith("]")), len(rest) - 1)
        rest = rest[end + 1 :]
    uri, suite, *components = [*rest, "", ""][: max(len(rest), 2)]
    return Source(uri, (suite,), tuple(components))


def _from_blocks(text: str) -> Iterator[Source]:
    for block in text.split("\n\n"):
        fields = _fields(block)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes") == "no":
            continue
        suites, components = fields.get("suites", "").split(), fields.get("components", "").split()
        for uri in fields.get("uris", "").split():
            yield Source(uri, tuple(suites), tuple(components))


def _fields(block: str) -> dict[str, str]:
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

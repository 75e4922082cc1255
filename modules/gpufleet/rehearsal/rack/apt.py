"""Where this machine's own apt fetches its distribution from, so that base images come from there too.

Takes the text of sources files, gives the mirror; no address is written down here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """One archive of Debian packages that apt is told to use."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


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

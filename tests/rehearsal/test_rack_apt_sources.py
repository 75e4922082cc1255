"""Base images come from where this machine's own apt fetches its distribution."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.rehearsal.rack import apt_sources
from gpufleet.rehearsal.rack.apt_sources import AptSource, find_suite_mirror, parse_apt_sources

CASES = Path(__file__).parents[1] / "cases/rehearsal/apt_sources"


def sources(name):
    return parse_apt_sources((CASES / name).read_text())


@pytest.mark.parametrize(
    ("file", "suite", "uri"),
    [
        ("debian-12.sources", "bookworm", "http://mirror.example.org/debian"),
        ("debian-12.sources", "bookworm-security", "http://mirror.example.org/debian-security"),
        ("one-line.list", "jammy", "http://ports.example.org/ubuntu"),
        ("other-archives.sources", "bookworm", "file:///srv/debian"),
    ],
)
def test_archive_of_a_suite_is_found(file, suite, uri):
    assert find_suite_mirror(suite, sources(file)).uri == uri


@pytest.mark.parametrize("file", ["debian-12.sources", "one-line.list", "other-archives.sources"])
def test_suite_unknown_to_apt_has_no_archive(file):
    assert find_suite_mirror("trixie", sources(file)) is None


def test_one_line_sources_with_options_and_components_are_read():
    assert sources("one-line.list")[:2] == [
        AptSource("https://vendor.example.org/apt", ("stable",), ("main",)),
        AptSource("http://ports.example.org/ubuntu", ("jammy",), ("main", "restricted", "universe")),
    ]


def test_disabled_and_source_archives_are_omitted():
    assert {s.uri for s in sources("other-archives.sources")} == {
        "https://vendor.example.org/node",
        "cdrom:[Debian]/",
        "file:///srv/debian",
    }


@pytest.mark.parametrize("text", ["", "# nothing\n", "deb\n", "deb [arch=amd64]\n", "Types: deb\n"])
def test_malformed_sources_files_give_no_mirror(text):
    assert find_suite_mirror("bookworm", parse_apt_sources(text)) is None


@pytest.mark.parametrize(("os_id", "found"), [("debian", True), ("ubuntu", False)])
def test_debian_machine_has_the_archives_of_every_debian_release(monkeypatch, os_id, found):
    release = {"ID": os_id, "VERSION_CODENAME": "bookworm"}
    monkeypatch.setattr(apt_sources.platform, "freedesktop_os_release", lambda: release)
    monkeypatch.setattr(apt_sources, "read_system_apt_sources", lambda: sources("debian-12.sources"))
    trixie = apt_sources.read_suite_apt_sources("trixie")
    own = sources("debian-12.sources")
    for suite in ("", "-updates", "-security"):
        expected = find_suite_mirror(f"bookworm{suite}", own).uri if found else None
        mirror = find_suite_mirror(f"trixie{suite}", trixie)
        assert (mirror.uri if mirror else None) == expected
    assert apt_sources.read_suite_apt_sources("bookworm") == own

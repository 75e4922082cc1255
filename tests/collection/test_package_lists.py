"""Test when the package lists of apt are fetched again."""

from __future__ import annotations

import os

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils import dpkg

FETCHED = 1_800_000_000
VALID = 3600


@pytest.fixture
def host(monkeypatch, tmp_path):
    """Give a host whose lists were fetched at FETCHED, after its sources were written."""
    lists, sources = tmp_path / "lists", tmp_path / "apt"
    (sources / "sources.list.d").mkdir(parents=True)
    lists.mkdir()
    (lists / "deb.example_dists_bookworm_main_binary-amd64_Packages").touch()
    (sources / "sources.list").touch()
    for path in (sources / "sources.list", sources / "sources.list.d"):
        os.utime(path, (FETCHED - 10, FETCHED - 10))
    os.utime(lists, (FETCHED, FETCHED))
    monkeypatch.setattr(dpkg, "LISTS", lists)
    monkeypatch.setattr(dpkg, "SOURCES", sources)
    return tmp_path


def is_stale(seconds_later):
    return dpkg.are_package_lists_stale({"cache_valid_seconds": VALID}, FETCHED + seconds_later)


@pytest.mark.parametrize(("seconds_later", "stale"), [(0, False), (VALID, False), (VALID + 1, True)])
def test_fresh_lists_are_valid(host, seconds_later, stale):
    assert is_stale(seconds_later) is stale


def test_lists_older_than_a_source_are_stale(host):
    os.utime(host / "apt/sources.list", (FETCHED + 1, FETCHED + 1))
    assert is_stale(2)


def test_missing_lists_are_stale(host):
    for path in (host / "lists").iterdir():
        path.unlink()
    os.utime(host / "lists", (FETCHED, FETCHED))
    assert is_stale(1)

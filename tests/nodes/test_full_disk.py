"""A registry on a disk that is really full, at every level of free space: whole or absent, and usable afterwards."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from full_disk import run_on_small_disk
from gpufleet.errors import EnvironmentFault
from gpufleet.nodes import Registry, registry_file
from gpufleet.nodes.database import HEAD

CASE = Path(__file__).with_name("full_disk_case.py")
OLD_NODES, NEW_NODES = 20, 200
FILES = {"registry.db", "registry.db-wal", "registry.db-shm"}


@pytest.fixture(scope="module", params=["first", "existing", "migration"])
def levels(request, tmp_path_factory):
    """Give the kind of registry and what came of each level of free space, from none to enough."""
    results = run_on_small_disk(tmp_path_factory.mktemp("disk"), CASE, request.param)
    return request.param, results


def test_the_levels_reach_from_a_full_disk_to_enough_space(levels):
    _, results = levels
    assert results[0]["error"]
    assert results[-1]["error"] is None
    assert len(results) >= 20


def test_failure_is_one_line_that_says_how_much_to_free(levels):
    for result in levels[1]:
        if error := result["error"]:
            assert error["code"] == 3
            assert "KiB free: free " in error["hint"], result
            assert "\n" not in error["message"]
            assert "restore" not in error["hint"]


def test_registry_is_whole_or_absent_and_no_draft_is_left(levels):
    kind, results = levels
    for result in results:
        assert set(result["left"]) <= FILES, result
        found = result["between"]
        if kind == "first" and found is None:
            assert result["error"]
            continue
        assert found["integrity"] == "ok", result
        version_before = "0001" if kind == "migration" else HEAD
        assert found["version"] in (version_before, HEAD)
        assert found["has_parts"] == (found["version"] == HEAD)


def test_what_was_recorded_before_is_kept_and_a_failed_sync_changes_nothing(levels):
    kind, results = levels
    for result in results:
        recorded = OLD_NODES if kind == "existing" else 0
        synced = NEW_NODES if kind == "existing" else OLD_NODES
        if found := result["between"]:
            assert found["nodes"] == (recorded if result["error"] else synced), result


def test_next_sync_succeeds_with_space_again(levels):
    for result in levels[1]:
        expected = {"integrity": "ok", "version": HEAD, "has_parts": True, "nodes": NEW_NODES}
        assert result["after"] == expected, result


def cut_off_draft(draft):
    """Do what a checkpoint that found no space leaves: a file without its last pages."""
    draft.write_bytes(draft.read_bytes()[: 1 << 15])


@pytest.mark.parametrize("damage", [cut_off_draft, lambda draft: draft.write_bytes(b"")])
def test_incomplete_draft_is_never_published(tmp_path, monkeypatch, damage):
    original = registry_file._publish

    def publish(draft, path, url):
        damage(draft)
        original(draft, path, url)

    monkeypatch.setattr(registry_file, "_publish", publish)
    with pytest.raises(EnvironmentFault, match="does not answer"):
        Registry(f"sqlite:///{tmp_path}/registry.db")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    with Registry(f"sqlite:///{tmp_path}/registry.db") as registry:
        assert registry.list_nodes() == []


def test_new_registry_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(
        registry_file, "sync_to_disk", lambda path: synced.append((path, (tmp_path / "r.db").exists()))
    )
    Registry(f"sqlite:///{tmp_path}/r.db").close()
    (draft, named), folder = synced
    assert (draft.name, named) == ("r.db", False)
    assert folder == (tmp_path, True)


def test_draft_of_a_killed_process_does_not_block_the_next_one(tmp_path):
    # In a container every run may have the same process id.
    import os

    (tmp_path / f".registry.db.{os.getpid()}").touch()
    Registry(f"sqlite:///{tmp_path}/registry.db").close()
    with sqlite3.connect(tmp_path / "registry.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)

"""A new price store on a disk that is really full, at every level of free space."""

from __future__ import annotations

from pathlib import Path

from full_disk import run_on_small_disk


def test_new_store_on_a_full_disk_is_one_line_and_succeeds_with_space_again(tmp_path):
    results = run_on_small_disk(tmp_path, Path(__file__).with_name("full_disk_case.py"))
    assert results[0]["error"]
    assert results[-1]["error"] is None
    for result in results:
        assert result["after"] == "ok", result
        if result["error"]:
            message, hint = result["error"]
            assert "database or disk is full" in message
            assert hint == "free some space on its disk, then run it again"

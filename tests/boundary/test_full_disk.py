"""Files that are published by a rename, on a disk that is really full: the old file or the new one, and one line."""

from __future__ import annotations

from pathlib import Path

from full_disk import run_on_small_disk


def test_full_disk_leaves_the_old_file_and_one_line(tmp_path):
    results = run_on_small_disk(tmp_path, Path(__file__).with_name("full_disk_case.py"))
    assert len(results) >= 24
    for result in results:
        if result["leave"] == 0:
            assert result["error"], result
        if result["error"]:
            code, message, hint = result["error"]
            assert (code, "\n" in message) == (3, False), result
            assert "No space left on device" in message
            assert hint == "free some space on its disk, then run it again"
            # A signing key is two files; a private one alone is whole, and the next run names another.
            left = {name: size for name, size in result["after"].items() if result["name"] != "signing key"}
            assert left == result["before"], result
        else:
            assert result["after"] != result["before"], result
    assert all(result["error"] is None for result in results if result["leave"] == 2_000_000)

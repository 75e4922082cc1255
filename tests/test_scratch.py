"""Test that temporary folders of killed processes are removed by the next process of the same kind."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import pytest

from gpufleet import scratch
from gpufleet.scratch import create_scratch_folder

HOLD = """
import sys
from gpufleet.scratch import create_scratch_folder
with create_scratch_folder("test") as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Give a temporary folder of the test's own, to this process and those that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def holder():
    """Start a process that holds a folder until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process, process.stdout.readline().strip()
    process.kill()
    process.communicate()


def test_scratch_folder_is_private_and_removed_at_the_end(place):
    with create_scratch_folder("test") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(place.iterdir()) == []


def test_scratch_folder_of_a_killed_process_is_removed_by_the_next(holder, place):
    process, folder = holder
    process.kill()
    process.wait()
    assert [str(path) for path in place.iterdir()] == [folder]
    with create_scratch_folder("test") as scratch_folder:
        assert list(place.iterdir()) == [scratch_folder]


def test_scratch_folder_may_be_in_another_place(place):
    (place / "memory").mkdir()
    with create_scratch_folder("test", str(place / "memory")) as folder:
        assert list((place / "memory").iterdir()) == [folder]
    assert list((place / "memory").iterdir()) == []


def test_scratch_folder_of_a_running_process_is_kept(holder, place):
    with create_scratch_folder("test"):
        assert len(list(place.iterdir())) == 2


def test_reused_process_id_is_not_the_owner_of_a_scratch_folder(holder, place):
    _, folder = holder
    stale = place / folder.rpartition("/")[2].replace("-", "-", 1)
    lead, _, rest = stale.name.rpartition(".")
    older = place / f"{lead}.1-{rest.partition('-')[2]}"
    older.mkdir()
    with create_scratch_folder("test"):
        assert not older.exists()
        assert stale.exists()


def test_folders_of_other_programs_are_kept(place):
    foreign = [place / "gpufleet-test-mine", place / "gpufleet-other-1.1.1-a"]
    for path in foreign:
        path.mkdir()
    with create_scratch_folder("test"):
        assert all(path.exists() for path in foreign)


def test_folder_in_memory_is_used_only_where_it_fits_and_runs_programs(monkeypatch, tmp_path):
    class State:
        f_bavail, f_frsize, f_flag = 1000, 1 << 10, 0

    monkeypatch.setattr(scratch, "MEMORY_FOLDER", str(tmp_path))
    monkeypatch.setattr(scratch.os, "statvfs", lambda _: State)
    assert scratch.find_folder_in_memory(500 << 10) == str(tmp_path)
    assert scratch.find_folder_in_memory(501 << 10) is None, "half of it must stay free"
    monkeypatch.setattr(State, "f_bavail", 1 << 30)
    assert scratch.find_folder_in_memory(scratch.LARGEST_IN_MEMORY + 1) is None
    monkeypatch.setattr(State, "f_flag", scratch.os.ST_NOEXEC)
    assert scratch.find_folder_in_memory(1) is None, "a program's own libraries could not be loaded"
    monkeypatch.undo()
    monkeypatch.setattr(scratch, "MEMORY_FOLDER", str(tmp_path / "absent"))
    assert scratch.find_folder_in_memory(1) is None

"""Test that fstab and mount of a scratch volume change together or not at all."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError
from ansible_collections.gpufleet.fleet.plugins.modules import scratch

OTHER = "UUID=1 / ext4 defaults 0 1\n"


@pytest.fixture
def host(monkeypatch, tmp_path):
    """Give fstab and the commands that were run; ``host["error"]`` lets the mount fail."""
    state = {"fstab": tmp_path / "fstab", "commands": [], "error": None}
    state["fstab"].write_text(OTHER)

    def run_or_fail(*command):
        state["commands"].append([str(argument) for argument in command])
        if state["error"]:
            raise state["error"]

    monkeypatch.setattr(scratch, "FSTAB", state["fstab"])
    monkeypatch.setattr(scratch, "write_fstab", state["fstab"].write_text)
    monkeypatch.setattr(scratch, "read_disk_signature", lambda _: {"UUID": "2"})
    monkeypatch.setattr(scratch, "run_required_program", run_or_fail)
    monkeypatch.setattr(scratch, "requested_volume_access", lambda *_: None)
    monkeypatch.setattr(scratch, "read_access", lambda _: None)
    return state


@pytest.fixture
def volume(tmp_path):
    return {"mount": str(tmp_path / "scratch"), "filesystem": "xfs", "options": [], "mode": "1777"}


def test_new_volume_is_mounted_and_added_to_fstab(host, volume):
    assert scratch.mount_volume("/dev/loop1", volume, check_mode=False)
    assert host["commands"] == [["mount", volume["mount"]]]
    text = host["fstab"].read_text()
    assert text.startswith(OTHER)
    assert f"UUID=2 {volume['mount']} xfs" in text


def test_failed_mount_leaves_fstab_unchanged(host, volume):
    host["error"] = HostError("mount: wrong fs type")
    with pytest.raises(HostError, match="wrong fs type"):
        scratch.mount_volume("/dev/loop1", volume, check_mode=False)
    assert host["fstab"].read_text() == OTHER

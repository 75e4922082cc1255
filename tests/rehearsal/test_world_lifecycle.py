"""World and racks together: what is refused first, what is left out, how it reads."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gpufleet.errors import InputError
from gpufleet.rehearsal import World, lifecycle, rack


class SimulatedWorld(World):
    """A world that notes what is asked of it and does nothing."""

    def __init__(self, root: Path, stack: str) -> None:
        super().__init__(root, stack)
        self.asked: list[str] = []

    def up(self, say):
        self.asked.append("up")

    def down(self, say):
        self.asked.append("down")


@pytest.fixture
def world(project):
    return SimulatedWorld(project, "production")


def test_without_root_the_rack_is_left_out_in_one_line(world, monkeypatch):
    monkeypatch.setattr(rack, "unavailable_reason", lambda: "hosts need root")
    said = []
    lifecycle.up(world, said.append)
    assert world.asked == ["up"]
    assert said == ["rack left out, the rest works: hosts need root"]


def test_a_stack_without_racks_asks_for_no_hosts(project, monkeypatch):
    monkeypatch.setattr(rack, "unavailable_reason", lambda: pytest.fail("no rack was declared"))
    world = SimulatedWorld(project, "dev")
    lifecycle.up(world, lambda _line: None)
    assert world.asked == ["up"]


def test_hosts_are_booted_after_the_world(world, monkeypatch):
    hosts = (SimpleNamespace(ssh_answers=True), SimpleNamespace(ssh_answers=False))
    monkeypatch.setattr(rack, "unavailable_reason", lambda: None)
    monkeypatch.setattr(rack, "up", lambda world, *_: world.asked.append("rack") or hosts)
    said = []
    lifecycle.up(world, said.append)
    assert world.asked == ["up", "rack"]
    assert said == ["rack: 2 hosts up, 1 answer SSH, 1 do not"]


def test_faults_for_no_such_node_are_refused_before_anything_is_made(world, tmp_path):
    faults = tmp_path / "faults.yaml"
    faults.write_text("faults:\n  blades-1/99: unreachable\n")
    with pytest.raises(InputError, match="no such node"):
        lifecycle.up(world, lambda _line: None, faults=str(faults))
    assert world.asked == []


def test_faults_without_a_rack_are_refused(world):
    with pytest.raises(InputError, match="leave out --no-rack"):
        lifecycle.up(world, lambda _line: None, faults="demo", with_racks=False)
    assert world.asked == []


def test_down_ends_hosts_before_their_records_go(world, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(rack, "down", lambda world, _say: world.asked.append("rack down"))
    lifecycle.down(world, lambda _line: None)
    assert world.asked == ["rack down", "down"]


def test_a_report_reads_well(world):
    text = lifecycle.as_text(lifecycle.report(world))
    assert "state       not up" in text
    assert "hosts       none" in text


def test_silent_hosts_are_named():
    host = {
        "name": "blade04",
        "place": "blades-1/4",
        "address": "198.18.1.14",
        "running": True,
        "ssh_answers": False,
    }
    report = {
        "stack": "production", "up": True, "home": "h", "engine": "3.258.0", "resources": 34,
        "pending_operations": 0, "processes": [7], "hosts": [host], "declared_hosts": 1,
    }  # fmt: skip
    text = lifecycle.as_text(report)
    assert "1 running of 1, 0 answer SSH" in text
    assert "silent    blade04 (blades-1/4, 198.18.1.14)" in text
    none = lifecycle.as_text(report | {"hosts": [], "declared_hosts": 21})
    assert "hosts       none of 21: `gpufleet rehearse up` boots them" in none

"""Rehearsal and racks together: refusals, skipped racks, the printed status."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gpufleet.errors import InputError
from gpufleet.rehearsal import Rehearsal, lifecycle, rack


class RecordingRehearsal(Rehearsal):
    """A rehearsal that records the calls of its methods and does nothing else."""

    def __init__(self, root: Path, stack: str) -> None:
        super().__init__(root, stack)
        self.calls: list[str] = []

    def set_up(self, report):
        self.calls.append("up")

    def tear_down(self, report):
        self.calls.append("down")


@pytest.fixture
def rehearsal(project):
    return RecordingRehearsal(project, "production")


def test_without_root_the_rack_is_skipped_with_one_line(rehearsal, monkeypatch):
    monkeypatch.setattr(rack, "find_missing_requirement", lambda: "hosts need root")
    messages = []
    lifecycle.start_rehearsal(rehearsal, messages.append)
    assert rehearsal.calls == ["up"]
    assert messages == ["the racks are left out, everything else works: hosts need root"]


def test_stack_without_racks_boots_no_hosts(project, monkeypatch):
    monkeypatch.setattr(rack, "find_missing_requirement", lambda: pytest.fail("no rack was declared"))
    rehearsal = RecordingRehearsal(project, "dev")
    lifecycle.start_rehearsal(rehearsal, lambda _line: None)
    assert rehearsal.calls == ["up"]


def test_hosts_are_booted_after_the_rehearsal(rehearsal, monkeypatch):
    hosts = (SimpleNamespace(ssh_answers=True), SimpleNamespace(ssh_answers=False))
    monkeypatch.setattr(rack, "find_missing_requirement", lambda: None)
    monkeypatch.setattr(rack, "start_racks", lambda rehearsal, *_: rehearsal.calls.append("rack") or hosts)
    messages = []
    lifecycle.start_rehearsal(rehearsal, messages.append)
    assert rehearsal.calls == ["up", "rack"]
    assert messages == ["rack: 2 hosts up, 1 answer SSH, 1 do not"]


def test_real_bmcs_are_left_out_with_one_line(project, monkeypatch):
    for stack, cidr in (("bmcs", "10.20.9.0/24"), ("tested", "198.18.9.0/24")):
        (project / f"inventory/{stack}.yaml").write_text(
            f"plugin: gpufleet.fleet.rack\nname: {stack}\nkind: servers\nsite: lab\nmachine: DGX H100\n"
            f"nodes: {stack}[01-02]\nbmc: {{protocol: ipmi, network: {{cidr: {cidr}}}}}\n"
        )
        (project / f"stacks/Pulumi.{stack}.yaml").write_text(
            f"config:\n  gpufleet:fleet:\n    owner: me\n    racks: [{{name: {stack}}}]\n"
        )
    monkeypatch.setattr(rack, "find_missing_requirement", lambda: None)
    monkeypatch.setattr(rack, "start_racks", lambda *_: ())
    messages = []
    for stack in ("bmcs", "tested"):
        lifecycle.start_rehearsal(RecordingRehearsal(project, stack), messages.append)
    assert messages == [
        "the BMCs of 2 nodes are left out: a rehearsal contacts no real one and switches no power",
        "rack: 0 hosts up, 0 answer SSH, 0 do not",
        "rack: 0 hosts up, 0 answer SSH, 0 do not",
    ]


def test_faults_for_an_unknown_node_are_refused_before_any_change(rehearsal, tmp_path):
    faults = tmp_path / "faults.yaml"
    faults.write_text("faults:\n  blades-1/99: unreachable\n")
    with pytest.raises(InputError, match="no such node"):
        lifecycle.start_rehearsal(rehearsal, lambda _line: None, faults=str(faults))
    assert rehearsal.calls == []


def test_faults_without_a_rack_are_refused(rehearsal):
    with pytest.raises(InputError, match="remove --no-rack"):
        lifecycle.start_rehearsal(rehearsal, lambda _line: None, faults="demo", with_racks=False)
    assert rehearsal.calls == []


def test_down_stops_hosts_before_it_removes_their_records(rehearsal, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(rack, "stop_racks", lambda rehearsal, _report: rehearsal.calls.append("rack down"))
    lifecycle.remove_rehearsal(rehearsal, lambda _line: None)
    assert rehearsal.calls == ["rack down", "down"]


def test_rehearsal_status_is_printed_as_text(rehearsal):
    text = lifecycle.format_rehearsal_status(lifecycle.collect_rehearsal_status(rehearsal))
    assert "state       not up" in text
    assert "hosts       none" in text


def test_unresponsive_hosts_are_listed():
    host = {
        "name": "blade04",
        "place": "blades-1/4",
        "address": "198.18.1.14",
        "running": True,
        "ssh_answers": False,
        "faults": ("disk_full", "unreachable"),
    }
    report = {
        "stack": "production", "up": True, "home": "h", "engine": "3.258.0", "resources": 34,
        "pending_operations": 0, "processes": [7], "declared_hosts": 2,
        "hosts": [host, {**host, "name": "blade05", "faults": ()}], "next": "gpufleet configure",
    }  # fmt: skip
    text = lifecycle.format_rehearsal_status(report)
    assert "2 running of 2, 0 answer SSH" in text
    assert "resources   34 and the stack itself, 0 operations pending" in text
    assert "no SSH    blade04 (blades-1/4, 198.18.1.14)" in text
    assert [line for line in text.splitlines() if line.startswith(("  fault", "next"))] == [
        "  fault     blade04 (blades-1/4): disk_full, unreachable",
        "next        gpufleet configure",
    ]
    none = lifecycle.format_rehearsal_status(report | {"hosts": [], "declared_hosts": 21})
    assert "hosts       none of 21: `gpufleet rehearse up` boots them" in none


@pytest.mark.parametrize(
    ("stack", "command"),
    [
        ("production", "pulumi up -s production --yes"),
        ("poc", "gpufleet nodes sync -s poc"),
        ("none", "pulumi up -s none --yes"),
    ],
)
def test_next_command_depends_on_the_pools(project, stack, command):
    assert lifecycle.choose_next_command(RecordingRehearsal(project, stack)) == command


def test_next_command_is_none_that_was_done(rehearsal, monkeypatch):
    monkeypatch.setattr(lifecycle.backend, "count_resources_and_pending", lambda _paths: (3, 0))
    assert lifecycle.choose_next_command(rehearsal) == "gpufleet nodes sync -s production"
    monkeypatch.delenv("GPUFLEET_REHEARSAL", raising=False)
    enter = 'eval "$(gpufleet rehearse env -s production)"'
    assert lifecycle.suggest_next_command(rehearsal) == f"{enter}; gpufleet nodes sync -s production"
    monkeypatch.setenv("GPUFLEET_REHEARSAL", "production")
    assert lifecycle.suggest_next_command(rehearsal) == "gpufleet nodes sync -s production"
    rehearsal.home.mkdir(parents=True)
    (rehearsal.home / "registry.db").touch()
    assert lifecycle.choose_next_command(rehearsal) == "gpufleet configure"

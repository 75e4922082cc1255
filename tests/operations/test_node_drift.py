"""Test drift between declaration, cloud and node."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gpufleet.nodes.model import Node, SourceConflict, SourcedValue, SourcePresence
from gpufleet.operations import node_drift

AT = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
H100 = {"address": "0000:17:00.0", "class": "030200", "id": "10de:2330", "subsystem": ""}
CARDS = ({"model": "H100 SXM5 80GB", "count": 8},)


def make_node(**changed):
    plain = {
        "id": "n-1", "name": "gpu1", "kind": "gpu_server", "state": "ready", "state_since": AT,
        "state_reason": "passed", "address": "10.0.0.1", "sources": (SourcePresence("rack:r1", AT),),
    }  # fmt: skip
    return Node(**{**plain, **changed})


def make_values(source="ssh", **values):
    aspect = "declared" if source.startswith(("rack", "pulumi")) else "observed"
    return [SourcedValue(source, f"{aspect}.{key}", value, AT, 1) for key, value in values.items()]


def find(node, values=(), conflicts=()):
    return node_drift.find_drift([node], {node.id: list(values)}, conflicts, (), AT)


def summary(report):
    return [(entry.what, entry.kind, entry.found) for entry in report.entries]


def test_node_as_declared_has_no_drift():
    node = make_node(accelerators=CARDS, hardware={"memory_gib": 2048, "storage_gib": 3576, "drives": 2})
    drives = [{"name": f"nvme{i}n1", "gib": 3576.9, "model": "x"} for i in range(3)]
    report = find(node, make_values(arch="x86_64", pci=[H100] * 8, memory_gib=2015.3, drives=drives))
    assert summary(report) == []
    assert not report.needs_action
    assert node_drift.format_drift_lines(report, with_routine=False) == ["1 nodes, nothing to do"]


def test_missing_card_module_and_drive_are_actions():
    node = make_node(accelerators=CARDS, hardware={"memory_gib": 2048, "storage_gib": 3576, "drives": 2})
    drives = [
        {"name": "nvme0n1", "gib": 3576.9, "model": "x"},
        {"name": "sda", "gib": 447.1, "model": "boot"},
    ]
    report = find(node, make_values(arch="x86_64", pci=[H100] * 7, memory_gib=1888.0, drives=drives))
    assert summary(report) == [
        ("accelerators", "action", "7 x H100 SXM5 80GB"),
        ("drives", "action", "1 of that size"),
        ("memory", "action", "1888 GiB"),
    ]


def test_other_card_than_declared_is_an_action():
    a100 = {**H100, "id": "10de:20b2"}
    report = find(make_node(accelerators=CARDS), make_values(arch="x86_64", pci=[a100] * 8))
    (entry,) = report.entries
    assert (entry.declared, entry.found) == ("8 x H100 SXM5 80GB", "8 x A100 SXM4 80GB")


def test_cards_that_the_driver_does_not_show_are_an_action():
    shown = [{"name": "NVIDIA H100 80GB HBM3"}] * 7
    report = find(
        make_node(accelerators=CARDS),
        make_values(arch="x86_64", pci=[H100] * 8, nvidia_driver="570.124.06", nvidia_cards=shown),
    )
    assert summary(report) == [("driver", "action", "7 in nvidia-smi")]


def test_node_that_was_not_asked_is_said_and_not_judged():
    report = find(make_node(accelerators=CARDS))
    assert summary(report) == []
    assert report.notes == ("1 of 1 nodes were never asked over SSH: gpufleet nodes facts",)


def test_old_answers_are_said():
    old = [SourcedValue("ssh", "observed.arch", "x86_64", AT - timedelta(days=9), 1)]
    assert find(make_node(), old).notes == ("1 were last asked up to 9d ago: gpufleet nodes facts",)


def test_rehearsed_node_has_the_hardware_of_this_machine():
    node = make_node(accelerators=CARDS, address="198.18.0.4")
    assert summary(find(node, make_values(arch="x86_64", pci=[]))) == []


@pytest.mark.parametrize(
    ("field", "declared", "cloud", "kind"),
    [
        ("machine", "p4d.24xlarge", "g5.xlarge", "action"),
        ("purchase", "spot", "on_demand", "routine"),
        ("machine", "Standard_ND96amsr_A100_v4", "standard_nd96amsr_a100_v4", None),
    ],
)
def test_cloud_and_state_are_compared(field, declared, cloud, kind):
    values = make_values("pulumi:dev", **{field: declared}) + make_values(
        "aws:dev:us-east-1", **{field: cloud}
    )
    report = find(make_node(cloud="aws", pool="train"), values)
    assert [entry.kind for entry in report.entries] == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("state", "lost", "kind"),
    [("ready", True, "action"), ("quarantined", True, "routine"), ("quarantined", False, "action")],
)
def test_lost_instance_is_routine_only_if_nobody_counts_on_it(state, lost, kind):
    sources = (
        SourcePresence("aws:dev:us-east-1", AT, AT),
        SourcePresence("pulumi:dev", AT, AT if lost else None),
    )
    report = find(make_node(cloud="aws", state=state, sources=sources))
    assert [(entry.what, entry.kind) for entry in report.entries] == [("presence", kind)]


def test_unreachable_node_in_use_and_conflicts_are_actions():
    conflict = SourceConflict("serial", "SN1", "serial SN1 is in two slots", "rack:r1", ("n-1",), AT)
    report = find(make_node(reachable=False, reachable_detail="timeout: no answer"), (), [conflict])
    assert summary(report) == [
        ("identity", "action", "serial SN1 is in two slots"),
        ("reachable", "action", "timeout: no answer"),
    ]
    assert report.as_json()["needs_action"] is True


def test_hostile_values_of_a_node_are_no_drift():
    values = make_values(arch="x86_64", pci="8 cards", memory_gib="much", drives=None, nvidia_cards=7)
    assert [entry.what for entry in find(make_node(accelerators=CARDS), values).entries] == ["accelerators"]

"""Test the comparison of nodes with each other and with their past."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gpufleet.errors import InputError
from gpufleet.nodes import NodeIdentity, NodeObservation
from gpufleet.operations import node_comparison
from gpufleet.operations.moment import parse_since
from gpufleet.operations.node_view import NodeFilter

from .conftest import START

CARD = {"name": "NVIDIA H100 80GB HBM3", "memory_mib": 81559}


def answer(**values):
    return "".join(f"=== gpufleet {name}\n{value}\n" for name, value in values.items())


def observe(registry, name, slot, **observed):
    identity = NodeIdentity(rack="r1", slot=slot, serial=f"SN{name}X1")
    registry.apply_observation(NodeObservation("ssh", name, identity, observed=observed))


def test_equal_nodes_differ_in_nothing_but_their_identity(registry):
    for name, slot in (("blade01", "1"), ("blade02", "2")):
        cards = [{**CARD, "uuid": f"GPU-{name}-{i}", "bus": f"{i}"} for i in range(8)]
        observe(registry, name, slot, kernel="6.1.0-28", mac=f"02:00:00:00:00:0{slot}", nvidia_cards=cards)
    assert node_comparison.compare_nodes(registry, "blade01", "blade02") == []
    assert {item.key for item in node_comparison.compare_nodes(registry, "blade01", "blade02", every_value=True)} == {
        "declared.name", "declared.slot", "observed.mac", "observed.nvidia_cards", "observed.serial",
    }  # fmt: skip


def test_missing_card_and_other_kernel_are_shown(registry):
    observe(
        registry, "blade01", "1", kernel="6.1.0-28", nvidia_cards=[{**CARD, "uuid": str(i)} for i in range(8)]
    )
    observe(
        registry, "blade02", "2", kernel="6.1.0-25", nvidia_cards=[{**CARD, "uuid": str(i)} for i in range(7)]
    )
    found = node_comparison.compare_nodes(registry, "blade01", "blade02")
    assert node_comparison.format_difference_lines(found, "blade01", "blade02") == [
        "VALUE                  BLADE01                          BLADE02",
        "observed.kernel        6.1.0-28                         6.1.0-25",
        "observed.nvidia_cards  8 x NVIDIA H100 80GB HBM3 81559  7 x NVIDIA H100 80GB HBM3 81559",
    ]


def test_node_is_compared_with_its_answer_of_then(registry):
    for hour, kernel in enumerate(("6.1.0-20", "6.1.0-25", "6.1.0-28")):
        registry.record_facts("blade01", answer(arch="aarch64", kernel=kernel), START + timedelta(hours=hour))
    (changed,) = node_comparison.compare_with_past(registry, "blade01", START + timedelta(minutes=90))
    assert changed == ("kernel", "6.1.0-25", "6.1.0-28")
    assert node_comparison.compare_with_past(registry, "blade02", START) == []


def test_changes_hold_history_and_answers_in_order(registry):
    registry.record_facts("blade01", answer(arch="aarch64", kernel="6.1.0-25", cpus=4), START)
    registry.record_facts(
        "blade01", answer(arch="aarch64", kernel="6.1.0-28", cpus=3), START + timedelta(hours=2)
    )
    registry.set_node_hold("blade02", "operator", "fan")
    events = node_comparison.list_changes(registry, START + timedelta(hours=1), NodeFilter())
    assert [(event.node, event.event, event.detail, event.kind) for event in events] == [
        ("blade01", "facts", "cpus: 4 -> 3", "action"),
        ("blade01", "facts", "kernel: 6.1.0-25 -> 6.1.0-28", "routine"),
        ("blade02", "hold", "operator: fan", "action"),
    ]
    lines = node_comparison.format_event_lines(events, with_routine=False)
    assert "6.1.0-28" not in "".join(lines)
    assert lines[-1] == "and 1 routine changes: --all"


def test_quiet_time_has_no_changes(registry):
    assert node_comparison.format_event_lines(
        node_comparison.list_changes(registry, parse_since("1h"), NodeFilter()), with_routine=False
    ) == ["nothing changed"]


def test_every_rule_has_a_class_and_a_reason():
    rules = node_comparison.load_value_rules()
    assert all(rule.reason for rule in rules.values())
    assert {rule.kind for rule in rules.values()} == {"identity", "routine"}


@pytest.mark.parametrize("text", ["", "soon", "5y", "999999d", "-1h"])
def test_malformed_moment_is_refused(text):
    with pytest.raises(InputError, match="is not a time"):
        parse_since(text)

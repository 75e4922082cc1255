from __future__ import annotations

import pytest

from gpufleet.nodes import NodeIdentity, NodeObservation, SourceReport, normalize_serial

PLACEHOLDERS = [
    "To be filled by O.E.M.", "to be filled by oem", "0123456789", "Not Specified", "None", "N/A", "Default string",
    "System Serial Number", "0000000000000000", "XXXXXXXXXX", "........", "", "   ", "123", "\x00\x00\x00", None,
]  # fmt: skip
REAL = ["10000000a1b2c3d4", "CZJ01234AB", "VMware-56 4d 1c", "5CD9381R7X", "100000004f9e0b1c"]


@pytest.mark.parametrize("serial", PLACEHOLDERS)
def test_placeholder_identifies_no_node(serial):
    assert normalize_serial(serial) is None


@pytest.mark.parametrize("serial", REAL)
def test_real_serial_is_stored_as_written(serial):
    assert normalize_serial(f" {serial}\x00") == serial


def test_slot_needs_a_rack_to_be_a_place():
    assert NodeIdentity(slot="3").rack_slot is None
    assert NodeIdentity(rack="r1", slot="3").rack_slot == ("r1", "3")


def test_same_instance_id_in_two_accounts_is_two_nodes(registry, lab):
    for account in ("", "research"):
        identity = NodeIdentity(instance_id="i-0123456789abcdef0", account=account)
        declared = {"cloud": "aws", **({"account": account} if account else {})}
        node = NodeObservation(
            f"pulumi:{account or 'dev'}", f"n-{account}x", identity, declared, {}, lab.minutes(0)
        )
        registry.apply_source_report(SourceReport(node.source, lab.minutes(0), [node]))
    assert {(node.account, node.instance_id) for node in registry.list_nodes()} == {
        ("", "i-0123456789abcdef0"),
        ("research", "i-0123456789abcdef0"),
    }
    again = NodeObservation(
        "ssh", "n-researchx", registry.get_node("n-researchx").place, observed={"kernel": "6"}
    )
    assert registry.apply_observation(again).created == []
    assert len(registry.list_nodes()) == 2

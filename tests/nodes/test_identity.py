from __future__ import annotations

import pytest

from gpufleet.nodes import NodeIdentity, NodeObservation, SourceReport, normalize_serial
from gpufleet.nodes.identity import normalize_mac, normalize_uuid

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


@pytest.mark.parametrize(
    "uuid",
    [
        "03000200-0400-0500-0006-000700080009",  # oshi/oshi#2417
        "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",  # FOGProject/fogproject#196, siderolabs/talos#8804
        "00000000-0000-0000-0000-000000000000",
        "fefefefe-fefe-fefe-fefe-fefefefefefe",
        "8a95d198-7f46-11e5-bf8b-08002704d48e",  # SolidRun/lx2160a_uefi#4
        "not a uuid", "", None,
    ],
)  # fmt: skip
def test_placeholder_uuid_identifies_no_node(uuid):
    assert normalize_uuid(uuid) is None


def test_uuid_and_mac_are_compared_without_case():
    assert normalize_uuid("4C4C4544-0042-3510-8052-B3C04F4B4E32\n") == "4c4c4544-0042-3510-8052-b3c04f4b4e32"
    assert normalize_mac("B4-96-91-00-AA-01") == "b4:96:91:00:aa:01"
    assert (
        normalize_mac("00:00:00:00:00:00") is normalize_mac("ff:ff:ff:ff:ff:ff") is normalize_mac("x") is None
    )


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

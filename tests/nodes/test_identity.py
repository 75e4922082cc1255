from __future__ import annotations

import pytest

from gpufleet.nodes import NodeIdentity, normalize_serial

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

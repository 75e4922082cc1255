from __future__ import annotations

import pytest

from gpufleet.nodes import Identity, usable_serial

PLACEHOLDERS = [
    "To be filled by O.E.M.", "to be filled by oem", "0123456789", "Not Specified", "None", "N/A", "Default string",
    "System Serial Number", "0000000000000000", "XXXXXXXXXX", "........", "", "   ", "123", "\x00\x00\x00", None,
]  # fmt: skip
REAL = ["10000000a1b2c3d4", "CZJ01234AB", "VMware-56 4d 1c", "5CD9381R7X", "100000004f9e0b1c"]


@pytest.mark.parametrize("serial", PLACEHOLDERS)
def test_a_placeholder_identifies_nothing(serial):
    assert usable_serial(serial) is None


@pytest.mark.parametrize("serial", REAL)
def test_a_real_serial_is_kept_as_written(serial):
    assert usable_serial(f" {serial}\x00") == serial


def test_a_slot_alone_is_no_place():
    assert Identity(slot="3").place is None
    assert Identity(rack="r1", slot="3").place == ("r1", "3")

"""Test the module that reads the tools of a Pi or blade, with documented tool output."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils import pi

# vcgencmd pmic_read_adc of a Raspberry Pi 5, as a public repository recorded it (2026-09-27), shortened.
PMIC = """\
 3V7_WL_SW_A current(0)=0.07709848A
   3V3_SYS_V volt(9)=3.29982600V
     EXT5V_V volt(24)=5.11478000V
"""
STATUS = """\
┌───────┬─────────────────┬──────────────┐
│ Blade │ SoC Temperature │ Power Status │
├───────┼─────────────────┼──────────────┤
│ pi1   │ \x1b[32m48°C\x1b[0m │ poe+ │
└───────┴─────────────────┴──────────────┘
"""
# A CM4's configuration as a public repository recorded rpi-eeprom-config's answer.
CM4 = """\
[all]
BOOT_UART=0
WAKE_ON_GPIO=1
POWER_OFF_ON_HALT=0

# Try SD first
BOOT_ORDER=0xf25641
[none]
FREEZE_VERSION=0
"""


@pytest.mark.parametrize(
    ("text", "bits"), [("throttled=0x50005\n", 0x50005), ("throttled=0x0", 0), ("error=1", None), ("", None)]
)
def test_throttling_bits_are_decoded(text, bits):
    assert pi.parse_throttling_bits(text) == bits


def test_current_throttling_is_distinguished_from_past_throttling():
    assert pi.decode_throttling_flags(0x50005) == {"undervoltage": "now", "throttled": "now"}
    assert pi.decode_throttling_flags(0x80000) == {"soft temperature limit": "since boot"}


def test_voltages_and_temperature_are_read():
    assert pi.parse_power_rails(PMIC)["EXT5V_V"] == 5.11478
    assert pi.parse_power_rails('error=1 error_msg="Command not registered"') == {}
    assert pi.parse_temperature_celsius("temp=48.3'C\n") == 48.3


def test_bladectl_table_is_read_with_and_without_colours_and_lines():
    assert pi.parse_bladectl_status(STATUS) == {
        "Blade": "pi1",
        "SoC Temperature": "48°C",
        "Power Status": "poe+",
    }
    assert pi.parse_bladectl_status(STATUS.replace("│", "|"))["Power Status"] == "poe+"
    assert pi.parse_bladectl_status("connection refused") == {}


@pytest.mark.parametrize(
    ("bits", "supply", "watts", "codes"),
    [
        (0, "poe+", 17, []),
        (0, "poeOrUsbC", 7, []),
        (0, "poeOrUsbC", 17, [("supply_too_small", "fault")]),
        (0x50000, "poe+", 7, [("undervoltage_since_boot", "warning"), ("throttled_since_boot", "warning")]),
        (0x1, "poe+", 7, [("undervoltage_now", "fault")]),
        (None, None, 7, [("throttling_unknown", "unknown"), ("supply_unknown", "unknown")]),
        (0, "undefined", 7, [("supply_unknown", "unknown")]),
    ],
)
def test_low_power_is_reported_with_reasons(bits, supply, watts, codes):
    assert [(reason["code"], reason["level"]) for reason in pi.power_findings(bits, supply, watts)] == codes


def test_pcie_links_are_compared_with_the_capability_of_the_board():
    good = {"name": "nvme0", "width": 1, "gigatransfers": 5.0}
    assert pi.nvme_link_findings([good], 1, 5.0) == []
    slow = pi.nvme_link_findings([{**good, "gigatransfers": 2.5}, {**good, "width": None}, good], 1, 5.0)
    assert [reason["code"] for reason in slow] == ["nvme_link_slow", "nvme_link_unknown"]
    assert pi.nvme_link_findings([good], 4, 5.0)[0]["message"] == "nvme0: the PCIe link is x1, expected x4"


@pytest.mark.parametrize(
    ("source", "medium", "code"),
    [
        ("/dev/nvme0n1p2", "nvme", None),
        ("/dev/mmcblk0p2", "nvme", "boot_elsewhere"),
        ("10.9.0.2:/srv/nfs/b", "netboot", None),
        ("/dev/nvme0n1p2", "netboot", "boot_elsewhere"),
        ("overlay", "nvme", "boot_unknown"),
        ("overlay", "", None),
    ],
)
def test_boot_device_is_compared_with_the_requested_one(source, medium, code):
    codes = [reason["code"] for reason in pi.boot_medium_findings(source, medium)]
    assert codes == ([code] if code else [])


def test_only_settings_for_all_boards_are_compared():
    assert pi.parse_bootloader_settings(CM4)["BOOT_ORDER"] == "0xf25641"
    assert "FREEZE_VERSION" not in pi.parse_bootloader_settings(CM4)


def test_new_settings_replace_old_ones_and_keep_the_others():
    text = pi.replace_bootloader_settings(CM4, {"BOOT_ORDER": "0xf416", "NET_INSTALL_ENABLED": "0"})
    settings = pi.parse_bootloader_settings(text)
    assert (settings["BOOT_ORDER"], settings["NET_INSTALL_ENABLED"], settings["WAKE_ON_GPIO"]) == (
        "0xf416",
        "0",
        "1",
    )
    assert "[none]\nFREEZE_VERSION=0\n" in text
    assert text.count("BOOT_ORDER") == 1
    assert (
        pi.replace_bootloader_settings(text, {"BOOT_ORDER": "0xf416", "NET_INSTALL_ENABLED": "0"}).count(
            "BOOT_ORDER"
        )
        == 1
    )


def test_numeric_settings_are_compared_as_numbers():
    assert pi.find_differing_settings({"BOOT_ORDER": "0xF416", "X": "01"}, {"BOOT_ORDER": "0xf416"}) == {}
    assert pi.find_differing_settings({}, {"BOOT_ORDER": "0xf416"}) == {"BOOT_ORDER": [None, "0xf416"]}

"""A rehearsed host's accelerators as files in the shape of sysfs: what tells which driver a machine needs.

Ids come from the drivers' own table of cards. Classes are those that ``lspci -nn`` shows of such cards: 0302 for
NVIDIA's of data centres ("3D controller [0302]"), 1200 for AMD's ("Processing accelerators [1200]"), 0300 for those
with a screen (public listings of lspci, read 2026-11-21).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from gpufleet.boundary import packaged_rows

SCREENLESS = {"10de": "0x030200", "1002": "0x120000"}
WITH_SCREEN = "0x030000"
FIRST_BUS = 0x11


def devices(accelerators: Sequence[tuple[str, int]]) -> dict[str, str]:
    """Return path below ``sys/bus/pci/devices`` -> text, one device for each card; unknown models have none."""
    found: dict[str, str] = {}
    for bus, card in enumerate(_cards(accelerators), start=FIRST_BUS):
        vendor, device = card["pci"].split(":")
        subsystem = (card["subsystem"] or card["pci"]).split(":")
        screenless = card["market"] == "datacenter"
        facts = {
            "vendor": f"0x{vendor}",
            "device": f"0x{device}",
            "class": SCREENLESS.get(vendor, WITH_SCREEN) if screenless else WITH_SCREEN,
            "subsystem_vendor": f"0x{subsystem[0]}",
            "subsystem_device": f"0x{subsystem[1]}",
        }
        found |= {f"0000:{bus:02x}:00.0/{name}": f"{value}\n" for name, value in facts.items()}
    return found


def unknown(accelerators: Sequence[tuple[str, int]]) -> list[str]:
    """Return the models that no PCI id is known of."""
    return [model for model, _ in accelerators if model not in _table()]


def _cards(accelerators: Sequence[tuple[str, int]]) -> Iterator[dict[str, str]]:
    for model, count in accelerators:
        if model in _table():
            yield from [_table()[model]] * count


@cache
def _table() -> dict[str, dict[str, str]]:
    """Return catalogue model -> its first row among the drivers' cards."""
    table: dict[str, dict[str, str]] = {}
    for row in packaged_rows("gpufleet.drivers", "data/cards.csv"):
        if row["catalogue"]:
            table.setdefault(row["catalogue"], row)
    return table

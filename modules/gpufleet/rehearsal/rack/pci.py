"""A rehearsed host's accelerators as PCI devices in the format of sysfs, from which drivers are planned.

Ids come from the drivers room's table of cards. Classes as in ``lspci -nn``: 0302 for
NVIDIA's of data centres ("3D controller [0302]"), 1200 for AMD's ("Processing accelerators [1200]"), 0300 for those
with a screen (public listings of lspci, read 2026-11-21).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from gpufleet.boundary import CsvRow, read_packaged_rows

SCREENLESS = {"10de": "0x030200", "1002": "0x120000"}
WITH_SCREEN = "0x030000"
FIRST_BUS = 0x11


def build_pci_sysfs_files(accelerators: Sequence[tuple[str, int]]) -> dict[str, str]:
    """Return path below ``sys/bus/pci/devices`` -> text, one device for each card; unknown models have no device."""
    files: dict[str, str] = {}
    for bus, card in enumerate(_card_rows(accelerators), start=FIRST_BUS):
        vendor, device = card["pci"].split(":")
        subsystem = (card["subsystem"] or card["pci"]).split(":")
        screenless = card["market"] == "datacenter"
        attributes = {
            "vendor": f"0x{vendor}",
            "device": f"0x{device}",
            "class": SCREENLESS.get(vendor, WITH_SCREEN) if screenless else WITH_SCREEN,
            "subsystem_vendor": f"0x{subsystem[0]}",
            "subsystem_device": f"0x{subsystem[1]}",
        }
        files |= {f"0000:{bus:02x}:00.0/{name}": f"{value}\n" for name, value in attributes.items()}
    return files


def list_models_without_pci_id(accelerators: Sequence[tuple[str, int]]) -> list[str]:
    """Return the models without a known PCI id."""
    return [model for model, _ in accelerators if model not in _rows_by_model()]


def _card_rows(accelerators: Sequence[tuple[str, int]]) -> Iterator[dict[str, str]]:
    for model, count in accelerators:
        if model in _rows_by_model():
            yield from [_rows_by_model()[model]] * count


@cache
def _rows_by_model() -> dict[str, CsvRow]:
    """Return catalogue model -> its first row in the drivers room's table of cards."""
    table: dict[str, CsvRow] = {}
    for row in read_packaged_rows("gpufleet.drivers", "data/cards.csv"):
        for model in filter(None, row["catalogue"].split("; ")):  # one id may be of several models
            table.setdefault(model, row)
    return table

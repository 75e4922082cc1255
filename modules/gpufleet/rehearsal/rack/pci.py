"""A rehearsed host's accelerators as PCI devices in the format of sysfs, from which drivers are planned.

Ids come from the drivers room's table of cards. Classes as in ``lspci -nn``: 0302 for
NVIDIA's of data centres ("3D controller [0302]"), 1200 for AMD's ("Processing accelerators [1200]"), 0300 for those
with a screen (public listings of lspci, read 2026-11-21).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from gpufleet.drivers.data_file import GpuCard, load_gpu_cards

SCREENLESS = {"10de": "0x030200", "1002": "0x120000"}
WITH_SCREEN = "0x030000"
FIRST_BUS = 0x11


def build_pci_sysfs_files(accelerators: Sequence[tuple[str, int]]) -> dict[str, str]:
    """Return path below ``sys/bus/pci/devices`` -> text, one device for each card; unknown models have no device."""
    files: dict[str, str] = {}
    for bus, card in enumerate(_list_cards(accelerators), start=FIRST_BUS):
        vendor, device = card.pci.split(":")
        subsystem = (card.subsystem or card.pci).split(":")
        screenless = card.market == "datacenter"
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
    return [model for model, _ in accelerators if model not in _find_cards_by_model()]


def _list_cards(accelerators: Sequence[tuple[str, int]]) -> Iterator[GpuCard]:
    for model, count in accelerators:
        if card := _find_cards_by_model().get(model):
            yield from [card] * count


@cache
def _find_cards_by_model() -> dict[str, GpuCard]:
    """Return the first card of each model of the catalogue; one PCI id may be of several models."""
    cards: dict[str, GpuCard] = {}
    for card in load_gpu_cards().values():
        for model in card.catalogue:
            cards.setdefault(model, card)
    return cards

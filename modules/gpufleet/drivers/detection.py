"""Detect cards from PCI functions; other functions (a server's VGA, a Pi's host bridge) are ignored."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpufleet.drivers.data_file import GpuArchitecture, GpuCard, load_gpu_architectures, load_gpu_cards
from gpufleet.drivers.driver_plan import CardCount, HostFacts, PciDevice
from gpufleet.drivers.rule import build_refusal_error

NVIDIA, AMD = "10de", "1002"
DISPLAY_CLASS, PROCESSING_CLASS = (
    "03",
    "12",
)  # PCI base classes; Instinct cards and Gaudi are processing accelerators
PCI_ID = re.compile(r"[0-9a-fA-F]{1,4}")
FIRST_MAXWELL = 0x1340  # NVIDIA numbers its cards upwards: smaller ids are Kepler, Fermi and older
IGNORED_MARKETS = ("integrated", "switch")


@dataclass(frozen=True)
class DetectedCards:
    """The devices on the bus: cards by vendor, NVSwitches, and display devices that are not in the table."""

    nvidia: tuple[GpuCard, ...] = ()
    amd: tuple[GpuCard, ...] = ()
    other: tuple[GpuCard, ...] = ()
    switches: int = 0
    unknown: tuple[PciDevice, ...] = ()


def detect_gpu_cards(facts: HostFacts, site_cards: Iterable[GpuCard] = ()) -> DetectedCards:
    """Return the cards and switches on the bus; a site's own cards come before those of the shipped table."""
    site_rows = {(card.pci, card.subsystem): card for card in site_cards}
    devices_with_cards = [(device, find_card_of_device(device, site_rows)) for device in facts.pci]
    cards = [card for _, card in devices_with_cards if card is not None]
    vendors = {name: _select_vendor(cards, name) for name in ("nvidia", "amd", "other")}
    return DetectedCards(
        **vendors,
        switches=sum(card.market == "switch" for card in cards),
        unknown=tuple(
            device for device, card in devices_with_cards if card is None and is_possible_gpu(device)
        ),
    )


def find_card_of_device(
    device: PciDevice, site_cards: Mapping[tuple[str, str], GpuCard] | None = None
) -> GpuCard | None:
    """Return the card for a PCI function, preferring the row of its subsystem; None if unknown."""
    table = {**load_gpu_cards(), **site_cards} if site_cards else load_gpu_cards()
    return table.get((device.pci_id, device.subsystem)) or table.get((device.pci_id, ""))


def is_possible_gpu(device: PciDevice) -> bool:
    """Return whether a function may be a card: a display or accelerator function of NVIDIA or AMD."""
    return device.vendor in (NVIDIA, AMD) and device.device_class[:2] in (DISPLAY_CLASS, PROCESSING_CLASS)


def count_cards_by_kind(cards: Iterable[GpuCard]) -> tuple[CardCount, ...]:
    """Return the number of cards of each kind, in the order of the bus."""
    counts = Counter(cards)
    return tuple(
        CardCount(card.pci, card.display_name, card.architecture, count) for card, count in counts.items()
    )


def format_card_names(cards: Iterable[GpuCard]) -> str:
    """Return the name of each kind once, joined with commas."""
    return ", ".join(dict.fromkeys(card.display_name for card in cards))


def get_gpu_architecture(card: GpuCard) -> GpuArchitecture:
    """Return the architecture of a card."""
    return load_gpu_architectures()[card.architecture]


def refuse_unknown_cards(detected_cards: DetectedCards) -> None:
    """Raise PlanRefusedError if the host has unknown cards."""
    if not detected_cards.unknown:
        return
    device = detected_cards.unknown[0]
    is_id = PCI_ID.fullmatch(device.device)  # the host may have sent anything
    if device.vendor == NVIDIA and is_id and int(device.device, 16) < FIRST_MAXWELL:
        raise build_refusal_error("cards.too_old", pci=device.pci_id, address=device.address or "?")
    subsystem = f" (subsystem {device.subsystem})" if device.subsystem else ""
    raise build_refusal_error(
        "cards.unknown", pci=device.pci_id, address=device.address or "?", subsystem=subsystem
    )


def _select_vendor(cards: Iterable[GpuCard], vendor: str) -> tuple[GpuCard, ...]:
    return tuple(
        card
        for card in cards
        if card.market not in IGNORED_MARKETS and load_gpu_architectures()[card.architecture].vendor == vendor
    )

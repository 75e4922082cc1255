"""From PCI functions to cards. What is no accelerator (a server's VGA, a Pi's host bridge) is no card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gpufleet.drivers.model import CardCount, Facts, PciDevice
from gpufleet.drivers.rule import refuse
from gpufleet.drivers.tables import Architecture, Card, architectures, cards

NVIDIA, AMD = "10de", "1002"
DISPLAY, PROCESSING = (
    "03",
    "12",
)  # PCI base classes; Instinct cards and Gaudi call themselves processing accelerators
NO_CARD_MARKETS = ("integrated", "switch")


@dataclass(frozen=True)
class Found:
    """What is on the bus: the cards by maker, NVSwitches, and display devices that no table knows."""

    nvidia: tuple[Card, ...] = ()
    amd: tuple[Card, ...] = ()
    other: tuple[Card, ...] = ()
    switches: int = 0
    unknown: tuple[PciDevice, ...] = ()


def find(facts: Facts) -> Found:
    """Sort what is on the bus."""
    known = [(device, lookup(device)) for device in facts.pci]
    found = [card for _, card in known if card is not None]
    vendors = {name: _of(found, name) for name in ("nvidia", "amd", "other")}
    return Found(
        **vendors,
        switches=sum(card.market == "switch" for card in found),
        unknown=tuple(device for device, card in known if card is None and is_accelerator(device)),
    )


def lookup(device: PciDevice) -> Card | None:
    """Return the table's card for a PCI function: the board's own row first."""
    table = cards()
    return table.get((device.id, device.subsystem)) or table.get((device.id, ""))


def is_accelerator(device: PciDevice) -> bool:
    """Tell whether a function could be a card: a display or accelerator function of a maker of such cards."""
    return device.vendor in (NVIDIA, AMD) and device.device_class[:2] in (DISPLAY, PROCESSING)


def counted(found: Iterable[Card]) -> tuple[CardCount, ...]:
    """Return cards of one kind together, in the order of the bus."""
    counts = Counter(found)
    return tuple(CardCount(card.pci, card.label, card.architecture, count) for card, count in counts.items())


def names(found: Iterable[Card]) -> str:
    """Name every kind once."""
    return ", ".join(dict.fromkeys(card.label for card in found))


def architecture(card: Card) -> Architecture:
    """Return the card's generation."""
    return architectures()[card.architecture]


def refuse_unknown(found: Found) -> None:
    """Refuse a host on which nothing but unknown cards is found."""
    if not found.unknown:
        return
    device = found.unknown[0]
    subsystem = f" (subsystem {device.subsystem})" if device.subsystem else ""
    raise refuse("cards.unknown", pci=device.id, address=device.address or "?", subsystem=subsystem)


def _of(found: Iterable[Card], vendor: str) -> tuple[Card, ...]:
    return tuple(
        card
        for card in found
        if card.market not in NO_CARD_MARKETS and architectures()[card.architecture].vendor == vendor
    )

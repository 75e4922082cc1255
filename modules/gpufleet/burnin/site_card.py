"""A site's own cards (`gpu-cards.yaml`) for the readers of records; the shipped table counts without them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gpufleet.burnin.evidence import Raw
from gpufleet.drivers import GpuCard, PciDevice, find_card_of_device

SITE_CARDS = "site_cards"
"""Where a record holds the site's cards; a node can put only plain values there."""
CARD_CHECKS = frozenset({"gpu_amd", "gpu_nvidia", "hardware"})
"""The checks that look up a card's name or market."""


@dataclass(frozen=True)
class SiteCards:
    """The cards of a site, which come before those of the shipped table."""

    cards: tuple[GpuCard, ...] = ()

    @cached_property
    def _rows(self) -> dict[tuple[str, str], GpuCard]:
        return {(card.pci, card.subsystem): card for card in self.cards}

    def find(self, device: PciDevice) -> GpuCard | None:
        """Return the card of a PCI device, or None."""
        return find_card_of_device(device, self._rows)


NO_CARDS = SiteCards()


def get_site_cards(raw: Raw) -> SiteCards:
    """Return the cards that are attached to a record; none for one that is read by itself."""
    cards = raw.get(SITE_CARDS)
    return cards if isinstance(cards, SiteCards) else NO_CARDS

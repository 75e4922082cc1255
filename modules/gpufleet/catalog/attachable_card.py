"""Google's names of the cards that n1 machines take; other machines have built-in ones."""

from __future__ import annotations

CARD_PREFIX = "accelerator:"
"""Begins the item of a card that is attached to a machine at a price of its own."""
CARD_TYPES = {
    "T4": "nvidia-tesla-t4",
    "V100": "nvidia-tesla-v100",
    "P100": "nvidia-tesla-p100",
    "P4": "nvidia-tesla-p4",
}
"""The type of an accelerator by the catalogue's name (docs.cloud.google.com/compute/docs/gpus)."""

CARD_ACCELERATORS = {"T4": "T4", "V100": "Tesla V100 SXM2 16GB", "P100": "Tesla P100 PCIe 16GB"}
"""The accelerator of the catalogue that each card is; Google's V100 have 16 GB."""


def get_card_part(model: str) -> str:
    """Return the name under which the price list has a card; empty for one that no machine takes."""
    return f"{CARD_PREFIX}{CARD_TYPES[model]}" if model in CARD_TYPES else ""

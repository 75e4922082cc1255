"""Licences of systems that clouds bill by the hour on top of a machine."""

from __future__ import annotations

from gpufleet.cost.pricing.component import UnpricedComponent

# Parts of the names of images and platforms of systems that are licensed by the hour.
LICENCES = {"windows": "Windows", "rhel": "Red Hat", "red hat": "Red Hat", "suse": "SUSE", "sles": "SUSE"}
FREE_SYSTEMS = ("opensuse",)


def system_licence_components(system: str) -> list[UnpricedComponent]:
    """Return the licence of a system, by its platform's or image's name; empty for plain Linux."""
    name = system.lower()
    brand = next((brand for part, brand in LICENCES.items() if part in name), None)
    if brand is None or any(free in name for free in FREE_SYSTEMS):
        return []
    return [
        UnpricedComponent(
            f"its {brand} licence is not included: these prices are for Linux machines", "licence"
        )
    ]

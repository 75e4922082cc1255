"""The fabric of a pool's nodes: adapters, their place on the machine, and the rate to expect. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from gpufleet.catalog import MachineFacts

InterfaceKind = Literal["interface", "efa", "efa-only"]


@dataclass(frozen=True)
class NetworkInterface:
    """One network interface of an AWS node. ``interface`` carries IP alone, ``efa-only`` the fabric alone."""

    card: int
    device: int
    kind: InterfaceKind


@dataclass(frozen=True)
class FabricPlan:
    """What burn-in should find on a node. Unknown figures are None.

    ``expected_gbit_per_s`` is the rate of all adapters of one node together, in one direction.
    """

    kind: str
    adapters: int | None
    expected_gbit_per_s: float | None
    interfaces: tuple[NetworkInterface, ...] = ()  # AWS only: other clouds place them by themselves

    def as_output(self, pool: str) -> dict[str, Any]:
        """Return one entry of the stack output ``fabric``."""
        return {"pool": pool, **asdict(self)}


def plan_fabric(kind: str, facts: MachineFacts) -> FabricPlan:
    """Return the fabric of one node of a machine."""
    interfaces = _lay_out_efa(facts) if kind == "efa" else ()
    return FabricPlan(kind, facts.fabric_interfaces or None, facts.fabric_gbit_per_s, interfaces)


def _lay_out_efa(facts: MachineFacts) -> tuple[NetworkInterface, ...]:
    """Place one EFA per card that has one, and IP traffic on the first interface of card 0.

    Several cards (AWS, efa-acc-inst-types): card 0 has an ENA interface as its first device, and an EFA as its
    second if it can have one (p6-b300's cannot); every other card has an EFA as its first device. Interfaces of
    kind ``efa-only`` take no address of the subnet. A machine with one card needs one interface for both, which
    may then have a public address.
    """
    cards = facts.network_cards
    if len(cards) == 1:
        return (NetworkInterface(0, 0, "efa"),)
    fabric = [
        NetworkInterface(card.index, 1 if card.index == 0 else 0, "efa-only")
        for card in cards
        if card.efa_interfaces
    ]
    return (NetworkInterface(0, 0, "interface"), *fabric)

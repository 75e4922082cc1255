"""Cards in a host and slot of one's own: a Raspberry Pi's one lane, a slot of four, a box on Thunderbolt."""

from __future__ import annotations

import re
from dataclasses import replace

from gpufleet.boundary import build_from_row
from gpufleet.errors import InputError
from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.data_file import load_sizing_rows
from gpufleet.sizing.hardware import Hardware
from gpufleet.sizing.host import (
    LANES_OF_A_FULL_SLOT,
    find_device_interconnect,
    load_slot_speeds,
    pcie_slot_gb_s,
)

DEFAULT_HOST = "PC"
SLOT = re.compile(r"(?:pcie)?(?:gen)?(?:(?P<generation>[2-6])(?:\.0)?)?x(?P<lanes>1|2|4|8|16)")


@dataclass(frozen=True)
class HostComputer:
    """A computer that takes cards: its slot, and what a token costs there more than in an ordinary server.

    ``layer_us`` is the time of its CPU for the kernels of one layer. ``reread_share`` is the share of the weights that
    drivers other than NVIDIA's read again over the slot for each token, where the host's PCIe is not cache-coherent.
    """

    name: str
    aliases: tuple[str, ...]
    pcie_gen: int
    lanes: int
    layer_us: float
    reread_share: float
    memory_gib: float
    as_of: str
    source: str


def load_host_computers() -> dict[str, HostComputer]:
    """Return the hosts by name."""
    return {row["name"]: build_from_row(HostComputer, row) for row in load_sizing_rows("host_computers.csv")}


def attach_card(hardware: Hardware, host_name: str, slot_name: str) -> Hardware:
    """Return the card in that host and slot; empty names: in the host's own slot, or in a PC.

    Raise InputError for an unknown host or slot, and for hardware that is not a card.
    """
    if not host_name and not slot_name:
        return hardware
    accelerator, own = hardware.accelerator, pcie_slot_gb_s(hardware.accelerator)
    option = "--host" if host_name else "--slot"
    if hardware.origin != "accelerator" or not own or "PCIe" not in accelerator.form_factor:
        raise InputError(
            f"{hardware.name} is not a card in a PCIe slot", where=option, remedy=f"leave {option} out"
        )
    host = _find_host(host_name) if host_name else load_host_computers()[DEFAULT_HOST]
    gb_s, slot = _find_slot(slot_name, host, accelerator.pcie_gen or host.pcie_gen)
    devices = 1 if host_name and host.name != DEFAULT_HOST else hardware.devices_per_node
    link, link_name = find_device_interconnect(accelerator, devices)
    return replace(
        hardware,
        name=f"{accelerator.name} in {host.name} ({slot})",
        devices_per_node=devices,
        slot_gb_s=min(gb_s, own),
        host=host.name,
        link_gb_s=min(link, gb_s) if link_name.startswith("PCIe") else link,
        link=link_name,
        host_memory_gib=host.memory_gib if host_name else hardware.host_memory_gib,
        host_source=host.source,
    )


def _find_host(name: str) -> HostComputer:
    hosts = load_host_computers()
    spellings = {_squeeze(word): host for host in hosts.values() for word in (host.name, *host.aliases)}
    squeezed = _squeeze(name)
    if squeezed in spellings:
        return spellings[squeezed]
    from difflib import get_close_matches  # only for the message

    close = [spellings[word].name for word in get_close_matches(squeezed, spellings, n=1)]
    known = ", ".join(hosts)
    remedy = f"did you mean {close[0]}? Known are {known}" if close else f"give one of {known}"
    raise InputError(f"{name!r} is not a host with measurements of cards", where="--host", remedy=remedy)


def _find_slot(name: str, host: HostComputer, card_generation: int) -> tuple[float, str]:
    """Return GB/s and direction of a slot, and its description."""
    squeezed = _squeeze(name)
    for row in load_sizing_rows("attachments.csv"):
        if squeezed in map(_squeeze, (row["name"], *row.get_words("aliases"))):
            return row.get_number("gb_s"), row["name"]
    match = SLOT.fullmatch(squeezed)
    if squeezed and match is None:
        names = ", ".join(row["name"] for row in load_sizing_rows("attachments.csv"))
        raise InputError(
            f"{name!r} is not a slot", where="--slot", remedy=f"give x1, x4, x8, 3.0x4 or such, or {names}"
        )
    given = match["generation"] if match else None
    generation = min(int(given or host.pcie_gen), card_generation)
    lanes = min(int(match["lanes"]) if match else host.lanes, host.lanes)
    speed = load_slot_speeds()[generation] * lanes / LANES_OF_A_FULL_SLOT
    return speed, f"PCIe {generation}.0 x{lanes}"


def _squeeze(text: str) -> str:
    return re.sub(r"[\s_()-]+", "", text.lower())

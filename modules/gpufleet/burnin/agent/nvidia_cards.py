"""What NVIDIA's kernel module says of its cards in /proc."""

from __future__ import annotations

import re

from .host import HostAccess

CARDS = "/proc/driver/nvidia/gpus"
# Until a program opens a card, and again after the last one has closed it, the module writes question marks in place of
# these (nv-procfs.c of NVIDIA's open kernel modules 580; seen in the field as GPU-????????-????-… and ??.??.??.??.??).
# The names are those of nvidia-smi.
NAMES_WHERE_CLOSED = {"GPU UUID": "uuid", "Video BIOS": "vbios_version"}
OPEN_SECONDS = 20.0  # opening eight sleeping cards takes seconds; less than the check of versions has


def read_nvidia_cards(host: HostAccess) -> list[dict[str, str]]:
    """Return what the driver says of each card, by the driver's names; what it does not know is left out."""
    cards = {
        slot: dict(
            re.findall(
                r"^([A-Za-z ]+):[ \t]+(.+)$",
                host.read_text_file(f"{CARDS}/{slot}/information") or "",
                re.MULTILINE,
            )
        )
        for slot in host.list_folder(CARDS)
    }
    if any("?" in value for card in cards.values() for value in card.values()):
        answers = query_closed_cards(host)
        cards = {slot: card | answers.get(slot, {}) for slot, card in cards.items()}
    return [
        {name: value for name, value in card.items() if "?" not in value} for card in cards.values() if card
    ]


def query_closed_cards(host: HostAccess) -> dict[str, dict[str, str]]:
    """Return slot -> what is unknown of closed cards: nvidia-smi opens them."""
    if host.which("nvidia-smi") is None or host.is_fake_tool("nvidia-smi"):
        return {}
    query = f"--query-gpu=pci.bus_id,{','.join(NAMES_WHERE_CLOSED.values())}"
    output = host.run(["nvidia-smi", query, "--format=csv,noheader"], OPEN_SECONDS).out
    rows = [[cell.strip() for cell in line.split(",")] for line in output.splitlines()]
    # Its slots have eight digits of the domain: 00000000:18:00.0.
    return {
        row[0].lower()[4:]: dict(zip(NAMES_WHERE_CLOSED, row[1:]))  # noqa: B905 - Python 3.9 has no strict
        for row in rows
        if len(row) == 1 + len(NAMES_WHERE_CLOSED)
    }

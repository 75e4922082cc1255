"""Read `nvidia-smi nvlink -s`: how many links of each GPU are active and how fast, against what the GPU should have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache

from gpufleet.boundary import read_table
from gpufleet.burnin.evidence import NOT_APPLICABLE, Reading

GPU_LINE = re.compile(r"GPU (\d{1,3}): (.{0,120}?) \(UUID: (GPU-[0-9a-fA-F-]{1,40})\)(.*)")
LINK_LINE = re.compile(r"\s*Link (\d{1,2}): (?:(\d{1,4}(?:\.\d{1,6})?) GB/s|<inactive>)\s*")
ALL_INACTIVE = "all links are inactive"
MAX_LINES = 4096
# From this number of GPUs on, a few without links among others are a fault: a bridge joins two cards or four.
LARGE_GROUP = 8
SLOW_SHARE = 0.9
METRICS = ("nvlinks_inactive", "nvlinks_absent", "nvlinks_uneven", "nvlinks_slow")


@dataclass(frozen=True)
class NvlinkCard:
    """A model whose links are all active where at least two GPUs are in one node; ``gb_per_s`` is one link's rate."""

    name: str
    links: int
    gb_per_s: float
    source: str
    date: date


@dataclass
class GpuLinks:
    """The links of one GPU as nvidia-smi prints them: active ones with their rate, by number."""

    name: str
    uuid: str
    rates: dict[int, float] = field(default_factory=dict)
    is_known: bool = False


@cache
def load_nvlink_cards() -> dict[str, NvlinkCard]:
    """Return the models with a known number of links."""
    cards = read_table(NvlinkCard, "gpufleet.burnin", "data/nvlink_cards.csv")
    return {card.name: card for card in cards}


def parse_nvlink_status(text: str) -> list[GpuLinks]:
    """Return the links of each GPU; one without a line about links is not known."""
    gpus: list[GpuLinks] = []
    for line in text.splitlines()[:MAX_LINES]:
        head = GPU_LINE.match(line)
        if head:
            gpus.append(GpuLinks(head[2], head[3]))
        if not gpus:
            continue
        link = LINK_LINE.fullmatch(line)
        if link:
            gpus[-1].is_known = True
            if link[2]:
                gpus[-1].rates[int(link[1])] = float(link[2])
        elif ALL_INACTIVE in line.lower():
            gpus[-1].is_known = True
    return gpus


def match_links(gpus: Sequence[GpuLinks], uuids: Sequence[str]) -> list[GpuLinks | None]:
    """Return the links of each GPU of the report: by UUID, else by place in the order of the bus."""
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    is_same_length = len(gpus) == len(uuids)
    return [
        by_uuid.get(uuid) or (gpus[place] if is_same_length else None) for place, uuid in enumerate(uuids)
    ]


@dataclass(frozen=True)
class LinkedModel:
    """A GPU's model, and whether its boards have NVSwitches: all GPUs of one board then have equally many links."""

    name: str
    is_switched: bool


def judge_links(
    links: Sequence[GpuLinks | None], models: Sequence[LinkedModel], declared: float | None
) -> list[dict[str, Reading]]:
    """Return the readings of each GPU: too few active links, fewer than its equals, slow links.

    One GPU alone has nothing to link to, so only a declaration says that links must be active.
    """
    groups: dict[str, list[int]] = {}
    for gpu, model in zip(links, models, strict=True):
        if gpu is not None and gpu.is_known:
            groups.setdefault(model.name, []).append(len(gpu.rates))
    return [
        _judge_gpu(gpu, model, groups.get(model.name, []), declared)
        for gpu, model in zip(links, models, strict=True)
    ]


def _judge_gpu(
    gpu: GpuLinks | None, model: LinkedModel, group: list[int], declared: float | None
) -> dict[str, Reading]:
    readings: dict[str, Reading] = dict.fromkeys(METRICS, NOT_APPLICABLE)
    if gpu is None or not gpu.is_known:
        if declared:
            readings["nvlinks_inactive"] = "nvidia-smi nvlink -s does not show the links"
        return readings
    active, card = len(gpu.rates), load_nvlink_cards().get(model.name)
    required = declared or (card.links if card else max(group) if model.is_switched else None)
    if declared or (required and len(group) > 1 and any(group)):
        readings["nvlinks_inactive"] = float(active < required) if required else NOT_APPLICABLE
    elif len(group) > 1 and (card or model.is_switched):
        # Guests of a divided NVSwitch may have none, and nothing on the node tells: a warning, until it is declared.
        readings["nvlinks_absent"] = 1.0
    elif len(group) > 1:
        readings["nvlinks_uneven"] = float(is_uneven(active, group))
    if active:
        floor = card.gb_per_s if card else max(gpu.rates.values()) * SLOW_SHARE
        readings["nvlinks_slow"] = float(min(gpu.rates.values()) < floor)
    return readings


def is_uneven(active: int, group: Sequence[int]) -> bool:
    """Return whether a GPU has fewer active links than equal GPUs of its node that have any.

    GPUs without any link may be cards without a bridge. A bridge joins an even number of cards, so an odd number of
    linked ones, or few unlinked ones among many, shows that a link went down.
    """
    linked = [count for count in group if count]
    if not linked:
        return False
    usual = Counter(linked).most_common(1)[0][0]
    if active:
        return active < usual
    return len(linked) % 2 == 1 or (
        len(group) >= LARGE_GROUP and 4 * (len(group) - len(linked)) <= len(group)
    )

"""The values of ``machine_facts.csv``: one parser per field; catalog/data/README.md shows the notation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import lru_cache
from typing import Any, Literal, get_args

from gpufleet.quick_dataclass import dataclass

Fabric = Literal["efa", "infiniband", "gpudirect_tcpx", "gpudirect_tcpxo", "gpudirect_rdma"]
DiskKind = Literal["nvme", "scsi"]
QuotaUnit = Literal["vcpus", "gpus"]
PurchaseKind = Literal["on_demand", "spot", "reserved", "committed", "capacity_block", "flex_start"]
PURCHASE_KINDS: tuple[PurchaseKind, ...] = get_args(PurchaseKind)
UNKNOWN = "unknown"  # looked for, and no source found; the row's note says where
NONE = "none"  # a source says that there is none
GIB_PER_UNIT = {"GiB": 1.0, "TiB": 1024.0, "GB": 1e9 / 2**30}
DISKS = re.compile(r"(\d+)x(\d+(?:\.\d+)?)(GiB|TiB|GB)(?: (nvme|scsi))?")
CARDS = re.compile(r"(\d+)(?:-(\d+))?:(\d+)/(\d+)/(\d+(?:\.\d+)?|\?)")


@dataclass(frozen=True)
class NetworkCard:
    """One network card: the interfaces it takes, how many of them may be EFA, and its rate in one direction."""

    index: int
    interfaces: int
    efa_interfaces: int
    gbit_per_s: float | None


@lru_cache(maxsize=1024)
def parse_fact(field: str, text: str) -> Mapping[str, Any]:
    """Return the attributes that a cell gives, by name; raise ValueError if it is malformed."""
    parser = PARSERS.get(field)
    if parser is None:
        raise ValueError(f"{field!r} is not one of {', '.join(PARSERS)}")
    return parser(text)


def _read_cards(text: str) -> dict[str, Any]:
    cards: list[NetworkCard] = []
    for word in text.split():
        match = CARDS.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} is not written as INDEX[-LAST]:INTERFACES/EFA/GBIT")
        first, last, interfaces, efa, rate = match.groups()
        speed = None if rate == "?" else float(rate)
        cards += [
            NetworkCard(index, int(interfaces), int(efa), speed)
            for index in range(int(first), int(last or first) + 1)
        ]
    if [card.index for card in cards] != list(range(len(cards))):
        raise ValueError("the cards are not numbered from 0 without gaps")
    return {"network_cards": tuple(cards)}


def _read_disks(text: str) -> dict[str, Any]:
    if text == NONE:
        return {"local_disk_count": 0}
    match = DISKS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not written as COUNTxSIZE [nvme|scsi], such as 8x3800GB nvme")
    count, size, unit, kind = match.groups()
    return {
        "local_disk_count": int(count),
        "local_disk_gib": round(float(size) * GIB_PER_UNIT[unit], 1),
        "local_disk_kind": kind,
    }


def _read_purchases(text: str) -> dict[str, Any]:
    return {"purchases": frozenset(_read_purchase(word) for word in text.split())}


def _read_purchase(word: str) -> str:
    if word not in PURCHASE_KINDS:
        raise ValueError(f"{word!r} is not one of {', '.join(PURCHASE_KINDS)}")
    return word


def _read_quota_buckets(text: str) -> dict[str, Any]:
    pairs = [
        entry.partition(":")[::2] for entry in text.split(";")
    ]  # Azure's names have spaces, Google's colons
    return {"quota_buckets": {_read_purchase(kind): bucket for kind, bucket in pairs}}


def _read_zones(text: str) -> dict[str, Any]:
    """Read zones: ``us-central1:a,b`` is Google's us-central1-a and -b, ``ca-central-1:d`` AWS's ca-central-1d."""
    zones_by_region: dict[str, tuple[str, ...]] = {}
    for word in text.split():
        region, letters = word.split(":")
        prefix = region if re.search(r"-\d+$", region) else f"{region}-"
        zones_by_region[region] = tuple(f"{prefix}{letter}" for letter in letters.split(","))
    return {"zones": zones_by_region}


def _read_accelerator_vcpus(text: str) -> dict[str, Any]:
    pairs = [word.split(":") for word in text.split()]
    return {"accelerator_vcpus": {int(count): int(vcpus) for count, vcpus in pairs}}


def _choice(name: str, *choices: str) -> Callable[[str], dict[str, Any]]:
    def read(text: str) -> dict[str, Any]:
        if text not in (NONE, *choices):
            raise ValueError(f"{text!r} is not one of {', '.join((NONE, *choices))}")
        return {name: None if text == NONE else text}

    return read


def _value(name: str, read: Callable[[str], Any]) -> Callable[[str], dict[str, Any]]:
    return lambda text: {name: None if text == NONE else read(text)}


def _read_yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"{text!r} is neither yes nor no")
    return text == "yes"


PARSERS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "network_cards": _read_cards,
    "fabric": _choice("fabric", *get_args(Fabric)),
    "fabric_interfaces": _value("fabric_interfaces", int),
    "fabric_gbit_per_s": _value("fabric_gbit_per_s", float),
    "fabric_networks": _value("fabric_networks", int),
    "max_fabric_nodes": _value("max_fabric_nodes", int),
    "local_disks": _read_disks,
    "accelerator_vcpus": _read_accelerator_vcpus,
    "local_disk_counts": _value("local_disk_counts", lambda text: tuple(int(word) for word in text.split())),
    "temp_disk_gib": _value("temp_disk_gib", float),
    "max_data_disks": _value("max_data_disks", int),
    "boot_disk_kinds": _value("boot_disk_kinds", lambda text: tuple(text.split())),
    "purchases": _read_purchases,
    "creatable_reservation": _value("creatable_reservation", _read_yes_or_no),
    "trusted_launch": _value("trusted_launch", _read_yes_or_no),
    "image": _value("image", str),
    "image_generations": _value("image_generations", lambda text: tuple(text.split())),
    "gpu_module": _choice("gpu_module", "open", "proprietary"),
    "quota_buckets": _read_quota_buckets,
    "quota_units": _choice("quota_units", *get_args(QuotaUnit)),
    "zones": _read_zones,
    "retires": _value("retires", date.fromisoformat),
}
FIELD_OF_ATTRIBUTE = {  # attributes that a field of another name gives
    "local_disk_count": "local_disks",
    "local_disk_gib": "local_disks",
    "local_disk_kind": "local_disks",
}

"""The embedded prices of ordinary machines and of database, cache and search nodes: one zip of sorted lines.

A member is one cloud, region and kind of item: ``aws/us-east-1/machine`` for Linux, ``licensed`` for machines with
Windows, Red Hat or SUSE, ``part`` for nodes. A line of it is
``item,origin,on_demand,spot,reserved_1y,reserved_3y``; an empty cell is an unknown price. ``origins.csv`` has the
source and date of each origin and purchase. A look-up decompresses its member once and searches the bytes.
``snapshot_build`` writes the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from gpufleet.boundary import CsvRow, decode_csv, read_packaged_bytes
from gpufleet.catalog.entry import Machine, Price
from gpufleet.catalog.prices.row import Kind, default_price_confidence
from gpufleet.quick_dataclass import dataclass

if TYPE_CHECKING:
    import zipfile

DATA_FOLDER = "data"
SNAPSHOT_FILE = "price_snapshot.zip"
ORIGINS = "origins.csv"
FINDINGS = "findings.csv"
SUMMARY = "summary.csv"
SUMMARY_COLUMNS = ("cloud", "kind", "purchase", "prices", "items", "oldest", "newest")
LICENSED = "licensed"  # machines with a licensed system
MACHINE_SIZES = "sizes"
LICENCES = "licence"
PURCHASES = ("on_demand", "spot", "reserved_1y", "reserved_3y")  # the order of the columns
SYSTEMS = ("windows", "rhel", "rhel-sap", "sles", "sles-sap")  # licensed by the hour; Linux has no suffix
CACHED_MEMBERS = 64  # a program has resources in few regions; one member takes about 100 KB


@dataclass(frozen=True)
class PriceOrigin:
    """Where the price of one purchase comes from, and its date."""

    source: str
    as_of: str


def find_snapshot_price(kind: Kind, cloud: str, region: str, item: str, purchase: str) -> Price | None:
    """Return an embedded price; None if the snapshot has none."""
    if purchase not in PURCHASES:
        return None
    cells = _find_line(name_member(kind, cloud, region, item), item)
    if cells is None:
        return _find_price_with_licence(cloud, region, item, purchase) if kind == "machine" else None
    return _build_price(kind, region, item, purchase, cells[1:])


def name_member(kind: Kind, cloud: str, region: str, item: str) -> str:
    """Return the member that has an item."""
    return f"{cloud}/{region}/{LICENSED if kind == 'machine' and split_system(item)[1] else kind}"


def list_snapshot_regions(cloud: str, item: str, kind: Kind = "machine") -> tuple[str, ...]:
    """Return the regions in which the snapshot has a price of an item."""
    return tuple(
        region
        for each_cloud, region, each_kind in list_region_members()
        if (each_cloud, each_kind) == (cloud, kind)
        and _find_line(name_member(kind, cloud, region, item), item)
    )


@cache
def list_region_members() -> tuple[tuple[str, str, Kind], ...]:
    """Return cloud, region and kind of every member with prices."""
    names = [tuple(name.split("/")) for name in _open_archive().namelist()]
    kinds: dict[str, Kind] = {"machine": "machine", "part": "part"}
    return tuple((name[0], name[1], kinds[name[2]]) for name in names if name[-1] in kinds)


def iterate_snapshot_prices(kind: Kind, cloud: str, region: str) -> Iterator[tuple[str, Price]]:
    """Yield every item of a region with each of its prices."""
    lines = _read_lines(f"{cloud}/{region}/{kind}")
    if kind == "machine":
        lines += _read_lines(f"{cloud}/{region}/{LICENSED}")
    for line in lines:
        item, *cells = line.split(",")
        for purchase in PURCHASES:
            if price := _build_price(kind, region, item, purchase, cells):
                yield item, price


def find_sized_machine(cloud: str, name: str) -> Machine | None:
    """Return a machine without accelerators, with its vCPUs and memory; None if the snapshot does not have it."""
    cells = _find_line(f"{cloud}/{MACHINE_SIZES}", name)
    if cells is None:
        return None
    origin = _load_origins()[int(cells[1]), "on_demand"]
    return Machine(
        name=name,
        cloud=cloud,
        vcpus=int(cells[2]),
        memory_gib=float(cells[3]),
        arch=cells[4],
        accelerators=(),
        attachable=(),
        source=origin.source,
        as_of=origin.as_of,
    )


def iterate_machine_sizes(cloud: str) -> Iterator[tuple[str, tuple[int, float]]]:
    """Yield machines without accelerators with their vCPUs and GiB of memory."""
    for line in _read_lines(f"{cloud}/{MACHINE_SIZES}"):
        name, _, vcpus, memory_gib, _ = line.split(",")
        yield name, (int(vcpus), float(memory_gib))


def select_sized_machines(cloud: str, min_vcpus: int, min_memory_gib: float) -> frozenset[str]:
    """Return the names of machines without accelerators that have at least so many vCPUs and GiB."""
    return frozenset(
        name
        for name, (vcpus, memory_gib) in iterate_machine_sizes(cloud)
        if vcpus >= min_vcpus and memory_gib >= min_memory_gib
    )


def read_machine_lines(cloud: str, region: str) -> list[str]:
    """Return a region's lines of machines without keeping them."""
    return _open_archive().read(f"{cloud}/{region}/machine").decode().strip().splitlines()


@cache
def list_sized_machines(cloud: str) -> frozenset[str]:
    """Return the names of all machines without accelerators."""
    return select_sized_machines(cloud, 0, 0)


def find_part_unit(item: str) -> str:
    """Return the unit of an embedded part."""
    return "instance" if item.startswith("rds:") else "node"


def list_licensed_machines(cloud: str, system: str) -> frozenset[str]:
    """Return the machines for which a cloud that bills licences apart has a fee of a system."""
    rows = (line.split(",") for line in _read_lines(f"{cloud}/{LICENCES}"))
    return frozenset(row[0] for row in rows if row[2 + SYSTEMS.index(system)])


def load_snapshot_summary() -> list[CsvRow]:
    """Return the numbers of prices and of machines or parts, and their dates, by cloud, kind and purchase."""
    return decode_csv(_read_member(SUMMARY).decode(), f"{SNAPSHOT_FILE}/{SUMMARY}", SUMMARY_COLUMNS)


def load_snapshot_findings() -> list[CsvRow]:
    """Return how many rows of the price lists the checks found, by code and cloud, and whether they were kept."""
    return decode_csv(_read_member(FINDINGS).decode(), f"{SNAPSHOT_FILE}/{FINDINGS}")


def split_system(item: str) -> tuple[str, str]:
    """Return the machine type and the licensed system of an item such as ``m5.large:windows``."""
    machine, _, system = item.partition(":")
    return (machine, system) if system in SYSTEMS else (item, "")


def _find_price_with_licence(cloud: str, region: str, item: str, purchase: str) -> Price | None:
    """Return a Linux machine's price and its system's licence, where the cloud sells these separately.

    A licence costs the same however the machine is bought (Google's page of premium images).
    """
    machine, system = split_system(item)
    licences = _find_line(f"{cloud}/{LICENCES}", machine) if system else None
    base = licences and find_snapshot_price("machine", cloud, region, machine, purchase)
    if not licences or not base:
        return None
    fee = licences[2 + SYSTEMS.index(system)]
    if not fee:
        return None
    origin = _load_origins()[int(licences[1]), "on_demand"]
    return Price(
        usd_per_hour=round(base.usd_per_hour + float(fee), 8),
        unit=base.unit,
        as_of=min(base.as_of or "", origin.as_of) or None,
        source=base.source if origin.source in base.source else f"{base.source};{origin.source}",
        confidence=base.confidence,
        region=region,
        purchase=purchase,
    )


def _build_price(kind: Kind, region: str, item: str, purchase: str, cells: list[str]) -> Price | None:
    usd = cells[1 + PURCHASES.index(purchase)]
    if not usd:
        return None
    origin = _load_origins()[int(cells[0]), purchase]
    unit = "machine" if kind == "machine" else find_part_unit(item)
    confidence = default_price_confidence(purchase, origin.as_of)
    return Price(float(usd), unit, origin.as_of or None, origin.source, confidence, region, purchase)


def _find_line(member: str, item: str) -> list[str] | None:
    """Return the cells of an item's line; names with separators have none."""
    if not item.isascii() or not item.isprintable() or "," in item:
        return None
    content = _read_member(member)
    start = content.find(f"\n{item},".encode())
    if start < 0:
        return None
    return content[start + 1 : content.index(b"\n", start + 1)].decode().split(",")


def _read_lines(member: str) -> list[str]:
    return _read_member(member).decode().strip().splitlines()


@lru_cache(maxsize=CACHED_MEMBERS)
def _read_member(name: str) -> bytes:
    """Return the lines of a member, each between line ends; empty if there is no such member."""
    try:
        return _open_archive().read(name)
    except KeyError:
        return b""


@cache
def _open_archive() -> zipfile.ZipFile:
    import io
    import zipfile

    content = read_packaged_bytes("gpufleet.catalog", f"{DATA_FOLDER}/{SNAPSHOT_FILE}")
    return zipfile.ZipFile(io.BytesIO(content))


@cache
def _load_origins() -> dict[tuple[int, str], PriceOrigin]:
    rows = decode_csv(_read_member(ORIGINS).decode(), f"{SNAPSHOT_FILE}/{ORIGINS}")
    return {
        (row.get_integer("origin"), row["purchase"]): PriceOrigin(row["source"], row["as_of"]) for row in rows
    }

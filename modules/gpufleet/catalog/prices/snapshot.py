"""The embedded prices of ordinary machines and of database, cache and search nodes: tables by cloud.

A member of ``price_snapshot.zip`` is one cloud and kind of item: ``aws/machine`` for Linux, ``aws/licensed`` for those
with Windows, Red Hat or SUSE, ``aws/part`` for nodes. Its first line has the items, the second the regions; then each
region has five lines with a cell for each item: the number of its origin, and the price by purchase. An empty cell is
an unknown price. A price with a licence is what it adds to the machine with Linux, or the whole price after ``=``.
``origins.csv`` has the source and date of each origin and purchase. ``snapshot_build`` writes the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache

from gpufleet.boundary import CsvRow, decode_csv
from gpufleet.catalog.cloud import CLOUDS
from gpufleet.catalog.entry import Machine, Price
from gpufleet.catalog.price_archive import CACHED_MEMBERS, read_price_member
from gpufleet.catalog.prices.row import Kind, default_price_confidence
from gpufleet.quick_dataclass import dataclass

SNAPSHOT_FILE = "price_snapshot.zip"
ORIGINS = "origins.csv"
FINDINGS = "findings.csv"
SUMMARY = "summary.csv"
SUMMARY_COLUMNS = ("cloud", "kind", "purchase", "prices", "items", "oldest", "newest")
LICENSED = "licensed"  # machines with a licensed system
MACHINE_SIZES = "sizes"
LICENCES = "licence"
PURCHASES = ("on_demand", "spot", "reserved_1y", "reserved_3y")  # the order of the columns
COLUMNS = ("origin", *PURCHASES)
SYSTEMS = ("windows", "rhel", "rhel-sap", "sles", "sles-sap")  # licensed by the hour; Linux has no suffix
WHOLE_PRICE = "="  # of a licensed machine whose price with Linux is not known
KINDS: tuple[Kind, ...] = ("machine", "part")
CACHED_COLUMNS = 512  # a program has resources in few regions; a column takes some 50 KB
Cells = tuple[str, ...]  # of an item, in the order of COLUMNS


@dataclass(frozen=True)
class PriceOrigin:
    """Where the price of one purchase comes from, and its date."""

    source: str
    as_of: str


@dataclass(frozen=True)
class PriceTable:
    """The prices of one cloud and kind: the place of each item in a line, and of each region's lines."""

    items: dict[str, int]
    regions: dict[str, int]
    lines: tuple[str, ...]


def find_snapshot_price(kind: Kind, cloud: str, region: str, item: str, purchase: str) -> Price | None:
    """Return an embedded price; None if the snapshot has none."""
    if purchase not in PURCHASES:
        return None
    cells = _find_cells(name_member(kind, cloud, item), region, item)
    if cells is None:
        return _find_price_with_licence(cloud, region, item, purchase) if kind == "machine" else None
    return _build_price(kind, region, item, purchase, cells)


def name_member(kind: Kind, cloud: str, item: str) -> str:
    """Return the member that has an item."""
    return f"{cloud}/{LICENSED if kind == 'machine' and split_system(item)[1] else kind}"


def list_snapshot_regions(cloud: str, item: str, kind: Kind = "machine") -> tuple[str, ...]:
    """Return the regions in which the snapshot has a price of an item."""
    member = name_member(kind, cloud, item)
    table = _load_table(member)
    if item not in table.items:
        return ()
    return tuple(region for region in table.regions if _find_cells(member, region, item))


@cache
def list_region_members() -> tuple[tuple[str, str, Kind], ...]:
    """Return cloud, region and kind of every region with prices."""
    return tuple(
        (cloud, region, kind)
        for cloud in CLOUDS
        for kind in KINDS
        for region in list_table_regions(cloud, kind)
    )


def list_table_regions(cloud: str, kind: Kind) -> tuple[str, ...]:
    """Return the regions of a cloud with prices of a kind; it reads no other table."""
    return tuple(_load_table(f"{cloud}/{kind}").regions)


def iterate_snapshot_prices(kind: Kind, cloud: str, region: str) -> Iterator[tuple[str, Price]]:
    """Yield every item of a region with each of its prices."""
    for member in (f"{cloud}/{kind}", *([f"{cloud}/{LICENSED}"] if kind == "machine" else [])):
        for item, *cells in iterate_region_cells(member, region):
            for purchase in PURCHASES:
                if price := _build_price(kind, region, item, purchase, tuple(cells)):
                    yield item, price


def iterate_region_cells(member: str, region: str) -> Iterator[tuple[str, ...]]:
    """Yield the items that have a price in a region, each with its cells in the order of COLUMNS."""
    table = _load_table(member)
    if region not in table.regions:
        return
    columns = [_load_column(member, region, column) for column in range(len(COLUMNS))]
    is_licensed = member.endswith(LICENSED)
    for item, *cells in zip(table.items, *columns, strict=True):
        if cells[0]:
            yield (
                item,
                *(_complete_licensed_cells(member, region, item, tuple(cells)) if is_licensed else cells),
            )


def sample_machine_prices(cloud: str, region: str, step: int) -> dict[str, float]:
    """Return the on-demand price of every ``step``-th machine with Linux that a region has."""
    member = f"{cloud}/machine"
    table = _load_table(member)
    if region not in table.regions:
        return {}
    column = _load_column(member, region, COLUMNS.index("on_demand"))
    return {item: float(usd) for item, usd in list(zip(table.items, column, strict=True))[::step] if usd}


@cache
def list_snapshot_items(cloud: str, kind: Kind = "machine") -> frozenset[str]:
    """Return the machines, or the nodes, that have a price in some region, without those with a licensed system."""
    return frozenset(_load_table(f"{cloud}/{kind}").items)


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


def find_priced_machine(cloud: str, name: str) -> Machine | None:
    """Return a machine that has a price; its vCPUs and memory are 0 where no price list has its size."""
    machine = find_sized_machine(cloud, name)
    if machine is None and name in list_snapshot_items(cloud):
        return Machine(name, cloud, 0, 0.0, "", (), (), "", "")
    return machine


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
    return decode_csv(
        read_price_member(SNAPSHOT_FILE, SUMMARY), f"{SNAPSHOT_FILE}/{SUMMARY}", SUMMARY_COLUMNS
    )


def load_snapshot_findings() -> list[CsvRow]:
    """Return how many rows of the price lists the checks found, by code and cloud, and whether they were kept."""
    return decode_csv(read_price_member(SNAPSHOT_FILE, FINDINGS), f"{SNAPSHOT_FILE}/{FINDINGS}")


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


def _build_price(kind: Kind, region: str, item: str, purchase: str, cells: Cells) -> Price | None:
    usd = cells[1 + PURCHASES.index(purchase)]
    if not usd:
        return None
    origin = _load_origins()[int(cells[0]), purchase]
    unit = "machine" if kind == "machine" else find_part_unit(item)
    confidence = default_price_confidence(purchase, origin.as_of)
    return Price(float(usd), unit, origin.as_of or None, origin.source, confidence, region, purchase)


def _find_cells(member: str, region: str, item: str) -> Cells | None:
    """Return the cells of an item in a region, None if it has no price there."""
    table = _load_table(member)
    place = table.items.get(item)
    if place is None or region not in table.regions or not _load_column(member, region, 0)[place]:
        return None
    cells = tuple(_load_column(member, region, column)[place] for column in range(len(COLUMNS)))
    return _complete_licensed_cells(member, region, item, cells) if member.endswith(LICENSED) else cells


def _complete_licensed_cells(member: str, region: str, item: str, cells: Cells) -> Cells:
    """Return whole prices of a machine with a licence: those that are a difference are added to Linux."""
    from decimal import Decimal

    linux = _find_cells(f"{member.removesuffix(LICENSED)}machine", region, split_system(item)[0]) or cells
    return tuple(
        cell.removeprefix(WHOLE_PRICE)
        if not column or not cell or cell[0] == WHOLE_PRICE
        else str(Decimal(cell) + Decimal(linux[column]))
        for column, cell in enumerate(cells)
    )


@lru_cache(maxsize=CACHED_MEMBERS)
def _load_table(member: str) -> PriceTable:
    lines = read_price_member(SNAPSHOT_FILE, member).split("\n")
    if len(lines) == 1:
        return PriceTable({}, {}, ())
    items, regions = lines[0].split(","), lines[1].split(",")
    return PriceTable(
        {item: place for place, item in enumerate(items)},
        {region: 2 + len(COLUMNS) * place for place, region in enumerate(regions)},
        tuple(lines),
    )


@lru_cache(maxsize=CACHED_COLUMNS)
def _load_column(member: str, region: str, column: int) -> list[str]:
    """Return the cells of all items in a region, as they are in the file."""
    table = _load_table(member)
    return table.lines[table.regions[region] + column].split(",")


def _find_line(member: str, item: str) -> list[str] | None:
    """Return the cells of an item's line; names with separators have none."""
    if not item.isascii() or not item.isprintable() or "," in item:
        return None
    content = read_price_member(SNAPSHOT_FILE, member)
    start = content.find(f"\n{item},")
    if start < 0:
        return None
    return content[start + 1 : content.index("\n", start + 1)].split(",")


def _read_lines(member: str) -> list[str]:
    return read_price_member(SNAPSHOT_FILE, member).strip().splitlines()


@cache
def _load_origins() -> dict[tuple[int, str], PriceOrigin]:
    rows = decode_csv(read_price_member(SNAPSHOT_FILE, ORIGINS), f"{SNAPSHOT_FILE}/{ORIGINS}")
    return {
        (row.get_integer("origin"), row["purchase"]): PriceOrigin(row["source"], row["as_of"]) for row in rows
    }

"""Write the embedded price snapshot from price lists: ``python -m gpufleet.catalog.prices.snapshot_build``.

Input: gzipped CSV of machines (cloud, region, machine, os, purchase, usd_per_hour, vcpus, memory_gib, source, date)
and of parts (cloud, region, part, unit, usd, source, date), then more lists of machines. The newest price counts.
Output: ``catalog/data/price_snapshot.zip``, the same bytes for the same input. Prices that ``prices.csv`` has and rows
with a finding of ``check_prices`` are left out.
"""

from __future__ import annotations

import gzip
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from pathlib import Path

from gpufleet.catalog import data_file
from gpufleet.catalog.price_archive import DATA_FOLDER, write_price_archive
from gpufleet.catalog.prices import snapshot
from gpufleet.catalog.prices.row import Kind, PriceRow
from gpufleet.catalog.prices.snapshot_check import SnapshotFinding, check_snapshot_rows
from gpufleet.catalog.prices.snapshot_source import (
    describe_source,
    find_architecture,
    has_accelerators,
    normalize_machine_name,
)
from gpufleet.errors import InputError

MACHINE_COLUMNS = [
    "cloud", "region", "machine", "os", "purchase", "usd_per_hour", "vcpus", "memory_gib", "source", "date"
]  # fmt: skip
PART_COLUMNS = ["cloud", "region", "part", "unit", "usd", "source", "date"]
PART_PREFIXES = {"rds.instance.": "rds", "elasticache.node.": "elasticache", "opensearch.node.": "opensearch"}
RDS_TERMS = {".single_az": "on_demand", ".reserved_1y_no_upfront": "reserved_1y"}
LICENCE_PREFIX = "os_license."


@dataclass
class SnapshotContent:
    """What the snapshot holds: prices, sizes of machines, fees of licensed systems; and what was left out."""

    rows: list[PriceRow] = field(default_factory=list)
    sizes: dict[tuple[str, str], tuple[int, float, PriceRow]] = field(default_factory=dict)
    licences: dict[tuple[str, str], dict[str, PriceRow]] = field(default_factory=dict)
    findings: list[SnapshotFinding] = field(default_factory=list)
    unknown_names: set[tuple[str, str]] = field(default_factory=set)


def read_content(machines: Iterable[Path], parts: Path) -> SnapshotContent:
    """Read all lists; rows with a finding that is not accepted are left out."""
    content = SnapshotContent()
    newest: dict[tuple[str, str, str, str], PriceRow] = {}
    for row in _parse_rows(content, machines, parts):
        known = newest.get(row.price_key)
        if known is None or known.as_of < row.as_of:
            newest[row.price_key] = row
    sizes = {key: (vcpus, memory_gib) for key, (vcpus, memory_gib, _) in content.sizes.items()}
    rows = list(newest.values())
    while True:  # without an outlier, other prices may be far from the median
        findings = check_snapshot_rows(rows, sizes)
        set_apart = {each.row.price_key for each in findings if not each.is_accepted}
        content.findings += [each for each in findings if not each.is_accepted]
        if not set_apart:
            break
        rows = [row for row in rows if row.price_key not in set_apart]
    content.findings += findings
    listed = data_file.load_machine_prices()
    content.rows = [row for row in rows if row.price_key not in listed]
    return content


def _parse_rows(content: SnapshotContent, machines: Iterable[Path], parts: Path) -> Iterator[PriceRow]:
    for cells in chain.from_iterable(_read_rows(path, MACHINE_COLUMNS) for path in machines):
        cloud, region, listed_name, system, purchase, usd, vcpus, memory_gib, source, day = cells
        machine = normalize_machine_name(cloud, listed_name)
        if machine is None:
            content.unknown_names.add((cloud, listed_name))
            continue
        item = machine if system == "linux" else f"{machine}:{system}"
        row = PriceRow(
            cloud, region, item, purchase, float(usd), day, describe_source(source, purchase, "machine")
        )
        if not has_accelerators(cloud, machine) and vcpus and memory_gib:
            size = max(1, round(float(vcpus))), float(memory_gib), row  # shared cores count as one
            content.sizes.setdefault((cloud, machine), size)
        yield row
    for cells in _read_rows(parts, PART_COLUMNS):
        if part := _parse_part(content, cells):
            yield part


def _parse_part(content: SnapshotContent, cells: list[str]) -> PriceRow | None:
    cloud, region, part, _, usd, source, day = cells
    if part.startswith(LICENCE_PREFIX):
        system, _, machine = part.removeprefix(LICENCE_PREFIX).partition(".")
        row = PriceRow(
            cloud, region, machine, "on_demand", float(usd), day, describe_source(source, "on_demand", "part")
        )
        content.licences.setdefault((cloud, machine), {})[system] = row
        return None
    prefix = next((each for each in PART_PREFIXES if part.startswith(each)), None)
    if prefix is None:
        return None
    name, purchase = part.removeprefix(prefix), "on_demand"
    for term, term_purchase in RDS_TERMS.items():
        if name.endswith(term):
            name, purchase = name.removesuffix(term), term_purchase
    engine, _, node = name.partition(".")
    item = (
        f"opensearch:{name}" if prefix == "opensearch.node." else f"{PART_PREFIXES[prefix]}:{engine}:{node}"
    )
    unit = snapshot.find_part_unit(item)
    text = describe_source(source, purchase, "part")
    return PriceRow(cloud, region, item, purchase, float(usd), day, text, "part", unit)


def write_snapshot(content: SnapshotContent, path: Path) -> None:
    """Write the zip: a member by cloud and kind, and those that describe them."""
    members, origins = _build_members(content)
    members[snapshot.ORIGINS] = _format_origins(origins)
    members[snapshot.FINDINGS] = _format_findings(content.findings)
    members[snapshot.SUMMARY] = _format_summary(content.rows)
    write_price_archive(path, members)


Origin = tuple[tuple[str, str], ...]  # source and date of each purchase
PricesByPlace = dict[tuple[str, str], dict[str, PriceRow]]  # by region and item, then by purchase


def _build_members(content: SnapshotContent) -> tuple[dict[str, str], dict[Origin, int]]:
    tables: dict[str, PricesByPlace] = defaultdict(lambda: defaultdict(dict))
    for row in content.rows:
        tables[snapshot.name_member(row.kind, row.cloud, row.item)][row.region, row.item][row.purchase] = row
    origins: dict[Origin, int] = {}
    members = {
        member: _format_table(table, tables[f"{member.split('/')[0]}/machine"], origins)
        for member, table in sorted(tables.items())
    }
    for cloud in sorted({cloud for cloud, _ in content.sizes}):
        sized = sorted((name, size) for (of, name), size in content.sizes.items() if of == cloud)
        members[f"{cloud}/{snapshot.MACHINE_SIZES}"] = _join_lines(
            f"{name},{_number_origin({'on_demand': row}, origins)},{vcpus},{memory:g},{find_architecture(cloud, name)}"
            for name, (vcpus, memory, row) in sized
        )
    for cloud in sorted({cloud for cloud, _ in content.licences}):
        fees = sorted((name, by_system) for (of, name), by_system in content.licences.items() if of == cloud)
        members[f"{cloud}/{snapshot.LICENCES}"] = _join_lines(
            _format_licences(name, by_system, origins) for name, by_system in fees
        )
    return members, origins


def _format_table(table: PricesByPlace, linux: PricesByPlace, origins: dict[Origin, int]) -> str:
    """Return items and regions, then the lines of each region: origins, and the prices of each purchase."""
    items = sorted({item for _, item in table})
    regions = sorted({region for region, _ in table})
    lines = [",".join(items), ",".join(regions)]
    for region in regions:
        by_purchase = [table.get((region, item), {}) for item in items]
        lines.append(",".join(str(_number_origin(each, origins)) if each else "" for each in by_purchase))
        lines += [
            ",".join(
                _format_cell(row, linux.get((region, snapshot.split_system(item)[0]), {})) if row else ""
                for item, row in zip(items, (each.get(purchase) for each in by_purchase), strict=True)
            )
            for purchase in snapshot.PURCHASES
        ]
    return "\n".join(lines)


def _format_cell(row: PriceRow, linux: dict[str, PriceRow]) -> str:
    """Return a price; of a licensed machine what it adds to that of Linux, which many regions have in common."""
    usd = _format_usd(row)
    if row.kind == "part" or not snapshot.split_system(row.item)[1]:
        return usd
    base = linux.get(row.purchase)
    return f"{Decimal(usd) - Decimal(_format_usd(base)):f}" if base else f"{snapshot.WHOLE_PRICE}{usd}"


def _format_usd(row: PriceRow) -> str:
    return f"{row.usd_per_hour:.8g}"


def _format_licences(name: str, by_system: dict[str, PriceRow], origins: dict[Origin, int]) -> str:
    row = next(iter(by_system.values()))
    fees = [
        f"{by_system[system].usd_per_hour:.8g}" if system in by_system else "" for system in snapshot.SYSTEMS
    ]
    return f"{name},{_number_origin({'on_demand': row}, origins)},{','.join(fees)}"


def _number_origin(by_purchase: dict[str, PriceRow], origins: dict[Origin, int]) -> int:
    key = tuple(
        (by_purchase[purchase].source, by_purchase[purchase].as_of) if purchase in by_purchase else ("", "")
        for purchase in snapshot.PURCHASES
    )
    return origins.setdefault(key, len(origins))


def _format_origins(origins: dict[Origin, int]) -> str:
    lines = ["origin,purchase,as_of,source"]
    for key, number in origins.items():
        for purchase, (source, as_of) in zip(snapshot.PURCHASES, key, strict=True):
            if source:
                lines.append(f"{number},{purchase},{as_of},{source}")
    return "\n".join(lines) + "\n"


def _format_findings(findings: Iterable[SnapshotFinding]) -> str:
    counts = Counter((each.code, each.row.cloud, "yes" if each.is_accepted else "no") for each in findings)
    lines = [f"{code},{cloud},{kept},{count}" for (code, cloud, kept), count in sorted(counts.items())]
    return "\n".join(["code,cloud,kept,prices", *lines]) + "\n"


def _format_summary(rows: Iterable[PriceRow]) -> str:
    groups: dict[tuple[str, Kind, str], list[PriceRow]] = defaultdict(list)
    for row in rows:
        groups[row.cloud, row.kind, row.purchase].append(row)
    lines = [",".join(snapshot.SUMMARY_COLUMNS)]
    for (cloud, kind, purchase), group in sorted(groups.items()):
        days = sorted({row.as_of for row in group})
        items = len({snapshot.split_system(row.item)[0] for row in group})
        lines.append(f"{cloud},{kind},{purchase},{len(group)},{items},{days[0]},{days[-1]}")
    return "\n".join(lines) + "\n"


def _join_lines(lines: Iterable[str]) -> str:
    return "\n" + "\n".join(lines) + "\n"


def _read_rows(path: Path, columns: list[str]) -> Iterator[list[str]]:
    """Yield the rows of a list; only the last but one cell, a source, may be quoted."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            cells = line.rstrip("\n").split(",")
            if '"' in line:  # a source with a comma
                head, source, day = line.rstrip("\n").split('"')
                cells = [*head.rstrip(",").split(","), source, day.lstrip(",")]
            if len(cells) != len(columns):
                raise InputError(f"{len(cells)} cells, expected {len(columns)}", where=f"{path}:{number}")
            if number == 1 and cells != columns:
                raise InputError(f"the columns must be {', '.join(columns)}", where=str(path))
            if number > 1:
                yield cells


def main(arguments: list[str]) -> None:
    """Build the snapshot and print what is in it, and the findings by cloud and code."""
    paths = [Path(each) for each in arguments]
    machines, parts, *newer = [path for path in paths if path.suffix == ".gz"]
    path = next((path for path in paths if path.suffix == ".zip"), None)
    path = path or Path(data_file.__file__).parent / DATA_FOLDER / snapshot.SNAPSHOT_FILE
    content = read_content([machines, *newer], parts)
    write_snapshot(content, path)
    names = ", ".join(sorted(name for _, name in content.unknown_names))
    print(f"{path}: {len(content.rows)} prices, {path.stat().st_size} bytes")
    if names:
        print(f"left out, not names of machines: {names}")
    print(_format_findings(content.findings), end="")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Write the embedded price snapshot from price lists: ``python -m gpufleet.catalog.prices.snapshot_build``.

Input: gzipped CSV of machines (cloud, region, machine, os, purchase, usd_per_hour, vcpus, memory_gib, source, date)
and of parts (cloud, region, part, unit, usd, source, date), then more lists of machines. The newest price counts.
Output: ``catalog/data/price_snapshot.zip``, the same bytes for the same input. Prices that ``prices.csv`` has and rows
with a finding of ``check_prices`` are left out.
"""

from __future__ import annotations

import gzip
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from gpufleet.catalog import data_file
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
ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold: the same bytes on every day


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
    """Write the zip: a member by cloud, region and kind, of sorted lines."""
    members, origins = _build_members(content)
    members[snapshot.ORIGINS] = _format_origins(origins)
    members[snapshot.FINDINGS] = _format_findings(content.findings)
    members[snapshot.SUMMARY] = _format_summary(content.rows)
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, ZIP_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, members[name], compresslevel=9)


Origin = tuple[tuple[str, str], ...]  # source and date of each purchase


def _build_members(content: SnapshotContent) -> tuple[dict[str, str], dict[Origin, int]]:
    prices: dict[str, dict[str, dict[str, PriceRow]]] = defaultdict(lambda: defaultdict(dict))
    for row in content.rows:
        member = snapshot.name_member(row.kind, row.cloud, row.region, row.item)
        prices[member][row.item][row.purchase] = row
    origins: dict[Origin, int] = {}
    members = {
        member: _join_lines(_format_line(item, items[item], origins) for item in sorted(items))
        for member, items in sorted(prices.items())
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


def _format_line(item: str, by_purchase: dict[str, PriceRow], origins: dict[Origin, int]) -> str:
    cells = [
        f"{by_purchase[purchase].usd_per_hour:.8g}" if purchase in by_purchase else ""
        for purchase in snapshot.PURCHASES
    ]
    return f"{item},{_number_origin(by_purchase, origins)},{','.join(cells)}"


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
    path = path or Path(data_file.__file__).parent / "data" / snapshot.SNAPSHOT_FILE
    content = read_content([machines, *newer], parts)
    write_snapshot(content, path)
    names = ", ".join(sorted(name for _, name in content.unknown_names))
    print(f"{path}: {len(content.rows)} prices, {path.stat().st_size} bytes")
    if names:
        print(f"left out, not names of machines: {names}")
    print(_format_findings(content.findings), end="")


if __name__ == "__main__":
    main(sys.argv[1:])

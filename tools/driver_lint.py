"""Check the data files: every row has source and date, every name in a row is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpufleet.drivers.data_file import (
    Row,
    SigningKey,
    load_amd_drivers,
    load_csv_rows,
    load_driver_branches,
    load_driver_data_sources,
    load_gpu_architectures,
    load_plan_rules,
    load_repository_keys,
    load_system_package_tables,
    load_yaml_document,
)
from gpufleet.drivers.driver_plan import FINGERPRINT_PATTERN
from gpufleet.drivers.version import parse_driver_branch, version_sort_key
from gpufleet.rule import Rule

SOURCED_TABLES = (
    "cards.csv", "architectures.csv", "branches.csv", "cuda.csv", "rocm.csv", "amdgpu.csv", "keys.csv",
    "rocm_support.csv", "nvidia_kernels.csv", "amd_processors.csv", "amd_firmware.csv",
)  # fmt: skip
DAY_PATTERN = re.compile(r"\d{4}-\d{2}-\d{2}$")
KERNEL_SERIES_PATTERN = re.compile(r"\d+\.\d+$")
PCI_ID_PATTERN = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}$")
MARKETS = {"datacenter", "workstation", "consumer", "laptop", "embedded", "apu", "integrated", "switch"}
FABRICS = {"", "nvswitch", "nvlink5", "rack"}
MIN_KEY_SOURCES = 2
BRANCH_KINDS = {"lts", "production", "new_feature", "ended"}


def find_driver_data_problems() -> list[str]:
    """Return all problems of the packaged data, one line each."""
    problems: list[str] = []
    for name in SOURCED_TABLES:
        problems += list(find_source_problems(name, load_csv_rows(name)))
    problems += list(find_card_problems(load_csv_rows("cards.csv")))
    problems += list(find_branch_problems(load_csv_rows("branches.csv")))
    problems += list(find_rocm_release_problems(load_csv_rows("rocm.csv"), load_csv_rows("rocm_support.csv")))
    problems += list(
        find_rocm_support_problems(load_csv_rows("rocm_support.csv"), load_csv_rows("cards.csv"))
    )
    problems += list(find_kernel_break_problems(load_csv_rows("nvidia_kernels.csv")))
    problems += list(
        find_processor_problems(
            load_csv_rows("amd_processors.csv"),
            load_csv_rows("amd_firmware.csv"),
            {row["gfx"] for row in load_csv_rows("cards.csv")},
        )
    )
    problems += list(find_key_problems(load_repository_keys().values(), load_system_package_tables()))
    problems += list(find_rule_problems(load_plan_rules()))
    problems += list(find_system_problems(load_system_package_tables()))
    problems += [
        f"sources.csv: {row['id']}: no day"
        for row in load_csv_rows("sources.csv")
        if not DAY_PATTERN.match(row["as_of"])
    ]
    return problems


def find_source_problems(file_name: str, rows: Iterable[Row]) -> Iterator[str]:
    """Yield rows without a day or with an unknown source."""
    for row in rows:
        first = next(iter(row.values()))
        if not DAY_PATTERN.match(row["as_of"]):
            yield f"{file_name}: {first}: no day"
        for source in row["sources"].split() or [""]:
            if source not in load_driver_data_sources():
                yield f"{file_name}: {first}: unknown source {source!r}"


def find_card_problems(rows: Iterable[Row]) -> Iterator[str]:
    """Yield cards with an invalid or repeated id or an unknown value."""
    seen_keys: set[tuple[str, str]] = set()
    architectures = load_gpu_architectures()
    for row in rows:
        key = (row["pci"], row["subsystem"])
        checks = {
            "not a PCI id": not PCI_ID_PATTERN.match(row["pci"])
            or not (PCI_ID_PATTERN.match(row["subsystem"] or row["pci"])),
            "twice": key in seen_keys,
            "no name": not row["name"],
            "unknown architecture": row["architecture"] not in architectures,
            "unknown market": row["market"] not in MARKETS,
            "unknown fabric": row["fabric"] not in FABRICS,
        }
        seen_keys.add(key)
        yield from (
            f"cards.csv: {row['pci']} {row['subsystem']}: {problem}"
            for problem, is_wrong in checks.items()
            if is_wrong
        )
        if row["architecture"] in architectures:
            yield from _find_vendor_mismatches(row, architectures[row["architecture"]].vendor)


def _find_vendor_mismatches(row: Row, vendor: str) -> Iterator[str]:
    """Yield cards with columns that do not fit their vendor."""
    id_vendor = {"10de": "nvidia", "1002": "amd"}.get(row["pci"][:4], "other")
    if id_vendor != vendor:
        yield f"cards.csv: {row['pci']}: {row['architecture']} is of vendor {vendor}, the id is of vendor {id_vendor}"
    needs_gfx = id_vendor == "amd" and row["market"] != "integrated"
    if needs_gfx != bool(row["gfx"]):
        yield f"cards.csv: {row['pci']}: gfx {row['gfx'] or 'missing'}"
    needs_branch = id_vendor == "nvidia" and row["market"] != "switch"
    if needs_branch and (not row["first_branch"] or int(row["first_branch"]) not in load_driver_branches()):
        yield f"cards.csv: {row['pci']}: first branch {row['first_branch'] or 'missing'}"


def find_branch_problems(rows: Iterable[Row]) -> Iterator[str]:
    """Yield branches with an unknown kind or without an end of life."""
    for row in rows:
        if row["kind"] not in BRANCH_KINDS:
            yield f"branches.csv: {row['number']}: unknown kind {row['kind']!r}"
        if row["kind"] in ("lts", "production", "ended") and not re.match(
            r"\d{4}-\d{2}$", row["end_of_life"]
        ):
            yield f"branches.csv: {row['number']}: no month of end of life"
        if row["default_module"] == "proprietary" and row["proprietary"] != "yes":
            yield f"branches.csv: {row['number']}: its default module does not exist"


def find_kernel_break_problems(rows: Iterable[Row]) -> Iterator[str]:
    """Yield breaks of unknown branches, without a kernel, of another branch's release, or of unknown certainty."""
    for row in rows:
        place = f"nvidia_kernels.csv: {row['branch']} {row['breaks_from']}"
        if int(row["branch"]) not in load_driver_branches():
            yield f"{place}: unknown branch"
        if not KERNEL_SERIES_PATTERN.match(row["breaks_from"]):
            yield f"{place}: not a kernel series"
        if row["fixed_in"] and parse_driver_branch(row["fixed_in"]) != int(row["branch"]):
            yield f"{place}: {row['fixed_in']} is of another branch"
        if row["origin"] not in ("", "debian") or row["certainty"] not in ("confirmed", "reported"):
            yield f"{place}: unknown origin or certainty"


def find_processor_problems(
    processors: Iterable[Row], packages: Iterable[Row], known_gfx: set[str]
) -> Iterator[str]:
    """Yield processors of no card, with versions in the wrong order, or with firmware that no package contains."""
    contained = {name for row in packages for name in row["contains"].split()}
    for row in processors:
        place = f"amd_processors.csv: {row['gfx']}"
        if row["gfx"] not in known_gfx:
            yield f"{place}: no card has it"
        if row["firmware"] not in contained:
            yield f"{place}: no row of amd_firmware.csv contains {row['firmware']}"
        for part in ("kernel", "mesa"):
            before, after = row[f"{part}_without"], row[f"{part}_with"]
            if before and version_sort_key(before) >= version_sort_key(after):
                yield f"{place}: {part} {before} is not older than {after or 'nothing'}"


def find_rocm_release_problems(rows: Iterable[Row], cells: Iterable[Row]) -> Iterator[str]:
    """Yield ROCm releases without cells or with an unknown driver, and cells of unknown releases."""
    releases_with_cells = {cell["release"] for cell in cells}
    releases = set()
    for row in rows:
        releases.add(row["release"])
        if row["release"] not in releases_with_cells:
            yield f"rocm.csv: {row['release']}: no cell in rocm_support.csv"
        if row["stream"] == "distribution":
            continue  # uses the kernel's own driver
        for driver in row["drivers"].split() or [""]:
            if driver not in load_amd_drivers():
                yield f"rocm.csv: {row['release']}: unknown driver {driver!r}"
    for release in sorted(releases_with_cells - releases):
        yield f"rocm_support.csv: {release}: not in rocm.csv"


def find_rocm_support_problems(cells: Iterable[Row], cards: Iterable[Row]) -> Iterator[str]:
    """Yield cells with processors, cards or systems that are not in the tables."""
    processors = {row["pci"]: row["gfx"] for row in cards}
    for cell in cells:
        place = f"rocm_support.csv: {cell['release']} {cell['system']}"
        listed = set(cell["gfx"].split())
        for gfx in sorted(listed - set(processors.values())):
            yield f"{place}: no card has {gfx}"
        for pci in cell["cards"].split():
            if processors.get(pci) not in listed:
                yield f"{place}: {pci} has none of the processors"
        if cell["system"] not in load_system_package_tables():
            yield f"{place}: unknown system"


def find_key_problems(keys: Iterable[SigningKey], systems: Mapping[str, Any]) -> Iterator[str]:
    """Yield keys with an invalid fingerprint, with one source or not over HTTPS, and repositories of unknown keys."""
    names = set()
    for key in keys:
        names.add(key.name)
        if not key.url.startswith(("https://", "{uri}")):
            yield f"keys.csv: {key.name}: not fetched over HTTPS"
        if not all(map(FINGERPRINT_PATTERN.fullmatch, key.fingerprints)):
            yield f"keys.csv: {key.name}: a fingerprint is not 40 hexadecimal digits"
        if key.fingerprints and len(set(key.sources)) < MIN_KEY_SOURCES:
            yield f"keys.csv: {key.name}: fewer than {MIN_KEY_SOURCES} sources confirm its fingerprint"
    for system, repository in _list_repositories(systems):
        if repository["key"] not in names:
            yield f"systems.yaml: {system} {repository['name']}: unknown key {repository['key']!r}"
        if not repository["uri"].startswith("https://"):
            yield f"systems.yaml: {system} {repository['name']}: not over HTTPS"


def _list_repositories(systems: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for system, row in systems.items():
        for entry in (row.get("nvidia") or {}).values():
            yield from ((system, repository) for repository in entry.get("repositories", ()))
        amd = row.get("amd") or {}
        streams = amd.get("rocm", {}).values()
        for repository in (amd.get("driver"), *streams, *(stream.get("graphics") for stream in streams)):
            if repository and "uri" in repository:
                yield system, repository


def find_rule_problems(rules: Mapping[str, Rule]) -> Iterator[str]:
    """Yield rules without a message or with an unknown source."""
    for code, rule in rules.items():
        if not rule.reason:
            yield f"rules.yaml: {code}: no message"
        if rule.source not in load_driver_data_sources():
            yield f"rules.yaml: {code}: unknown source {rule.source!r}"


def find_system_problems(systems: Mapping[str, Any]) -> Iterator[str]:
    """Yield systems without source or day, and origins without packages for both kernel modules."""
    entries = [
        ("families.yaml", load_yaml_document("families.yaml")),
        *((f"systems.yaml: {key}", row) for key, row in systems.items()),
    ]
    for name, row in entries:
        if not DAY_PATTERN.match(str(row.get("as_of", ""))):
            yield f"{name}: no day"
        for source in str(row.get("sources", "")).split() or [""]:
            if source not in load_driver_data_sources():
                yield f"{name}: unknown source {source!r}"
    for key, row in systems.items():
        for origin, entry in (row.get("nvidia") or {}).items():
            if not all(entry["sets"][0].get(kind) for kind in ("open", "proprietary")):
                yield f"systems.yaml: {key} {origin}: no packages for both kinds of module"

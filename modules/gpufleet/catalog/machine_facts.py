"""What is known about a machine beyond its size: network, fabric, disks, purchases, image, quota, zones.

``data/machine_facts.csv`` has one fact per row with its source and date. Rules, components and reports read the
facts from here. A fact that no source states is None or empty; ``is_known`` tells it from a stated "none".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import date
from functools import cache
from typing import Any, Literal

from gpufleet.boundary import CsvRow, read_packaged_columns, read_packaged_rows
from gpufleet.catalog.fact_value import (
    FIELD_OF_ATTRIBUTE,
    UNKNOWN,
    DiskKind,
    Fabric,
    NetworkCard,
    QuotaUnit,
    parse_fact,
)
from gpufleet.errors import InputError
from gpufleet.quick_dataclass import dataclass

COLUMNS = ("cloud", "machine", "field", "value", "source", "as_of", "note")
FABRIC_FIELDS = ("fabric", "fabric_gbit_per_s")


@dataclass(frozen=True)
class FactCell:
    """One fact as the data file has it. ``source`` has ids of ``sources.csv``; empty if the value is unknown."""

    value: str
    source: str
    as_of: str
    note: str


@dataclass(frozen=True)
class MachineFacts:
    """The facts of one machine type. Unknown is None or empty, never a guess.

    Rates are in one direction. ``local_disk_gib`` is the size of one disk. ``quota_buckets`` is keyed by purchase,
    ``zones`` by region.
    """

    cloud: str
    machine: str
    network_cards: tuple[NetworkCard, ...] = ()
    fabric: Fabric | None = None
    fabric_interfaces: int = 0  # adapters of the fabric
    fabric_gbit_per_s: float | None = None  # of the whole machine
    fabric_networks: int | None = None  # GCP: networks that the fabric needs next to the first one
    max_fabric_nodes: int | None = None  # nodes that one group with the fabric can have
    local_disk_count: int | None = None
    local_disk_gib: float | None = None
    local_disk_kind: DiskKind | None = None
    local_disk_counts: tuple[
        int, ...
    ] = ()  # numbers of disks that one may attach; empty: the number is fixed
    temp_disk_gib: float | None = None  # Azure: the temporary disk, next to the local disks
    accelerator_vcpus: Mapping[int, int] = field(
        default_factory=dict, hash=False
    )  # most vCPUs by attached number
    max_data_disks: int | None = None  # disks that can be attached next to the boot disk
    boot_disk_kinds: tuple[str, ...] = ()  # the cloud's own names
    purchases: frozenset[str] = frozenset()
    creatable_reservation: bool | None = None  # may an on-demand capacity reservation be created for it
    trusted_launch: bool | None = None  # Azure: may the machine boot with a virtual TPM
    image: str | None = None  # the vendor's image family that its accelerators and fabric need
    image_generations: tuple[str, ...] = ()  # Azure: hypervisor generations of the images that it boots
    gpu_module: Literal["open", "proprietary"] | None = None
    quota_buckets: Mapping[str, str] = field(default_factory=dict, hash=False)
    quota_units: QuotaUnit | None = None
    zones: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    retires: date | None = None  # announced for later; machines that are retired now are in retired.csv
    cells: Mapping[str, FactCell] = field(default_factory=dict, hash=False)  # by field, as in the data file

    def get_cell(self, attribute: str) -> FactCell | None:
        """Return the cell that states an attribute, or says why it is unknown; None if there is no row."""
        return self.cells.get(FIELD_OF_ATTRIBUTE.get(attribute, attribute))

    def is_known(self, attribute: str) -> bool:
        """Return whether a source states this attribute; the stated value may be "none"."""
        cell = self.get_cell(attribute)
        return cell is not None and cell.value != UNKNOWN

    @property
    def local_disk_total_gib(self) -> float | None:
        """Return the size of all local disks that come with the machine."""
        if self.local_disk_count is None or (self.local_disk_count and self.local_disk_gib is None):
            return None
        return self.local_disk_count * (self.local_disk_gib or 0.0)


def get_machine_facts(machine: str, cloud: str, accelerator: str | None = None) -> MachineFacts | None:
    """Return the facts of a cloud's machine, None if the table has none.

    ``accelerator`` is the model that a pool attaches to a machine without accelerators of its own (GCP n1).
    """
    facts = _load_facts(machine, cloud)
    if facts is None or accelerator is None:
        return facts
    attached = _load_facts(f"{machine}+{accelerator}", cloud)
    return replace(attached, machine=machine) if attached else facts


@cache
def load_fact_rows() -> tuple[CsvRow, ...]:
    """Return the rows of the table."""
    return tuple(read_packaged_rows("gpufleet.catalog", "data/machine_facts.csv"))


@cache
def _load_rows_of_fields(fields: tuple[str, ...]) -> tuple[CsvRow, ...]:
    """Return the rows of some fields: in a third of the time of all."""
    cells = read_packaged_columns("gpufleet.catalog", "data/machine_facts.csv", COLUMNS)
    field = COLUMNS.index("field")
    return tuple(
        CsvRow(zip(COLUMNS, row, strict=True), "machine_facts.csv") for row in cells if row[field] in fields
    )


def is_row_of_machine(pattern: str, machine: str) -> bool:
    """Return whether a row's machine cell (``p5.48xlarge``, ``g5.*``, ``n1-*+T4``) stands for this machine."""
    name = machine if "+" in pattern else machine.partition("+")[0]
    return matches_name_pattern(name, pattern)


def matches_name_pattern(name: str, pattern: str) -> bool:
    """Return whether a name fits a pattern in which ``*`` stands for any text."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, last = rest
    if not (name.startswith(first) and name.endswith(last)):
        return False
    start, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, start, end)
        if found < 0:
            return False
        start = found + len(part)
    return start <= end


@cache
def _load_rows_by_pattern(cloud: str, fields: tuple[str, ...] = ()) -> Mapping[str, list[CsvRow]]:
    """Return a cloud's rows by their machine cell: each pattern is compared once with a machine, not once a row."""
    rows: dict[str, list[CsvRow]] = defaultdict(list)
    for row in _load_rows_of_fields(fields) if fields else load_fact_rows():
        if row["cloud"] == cloud:
            rows[row["machine"]].append(row)
    return rows


def get_fabric_facts(machine: str, cloud: str) -> MachineFacts | None:
    """Return the facts of a cloud's machine with its fabric alone, which sizing asks of all machines."""
    return _load_facts(machine, cloud, FABRIC_FIELDS)


@cache
def _load_facts(machine: str, cloud: str, fields: tuple[str, ...] = ()) -> MachineFacts | None:
    rows_by_pattern = _load_rows_by_pattern(cloud, fields)
    exact = [name for name in dict.fromkeys((machine, machine.partition("+")[0])) if name in rows_by_pattern]
    patterns = exact + [
        pattern for pattern in rows_by_pattern if "*" in pattern and is_row_of_machine(pattern, machine)
    ]
    if not patterns:
        return None
    cell_rows = {
        row["field"]: row
        for pattern in sorted(patterns, key=_specificity)
        for row in rows_by_pattern[pattern]
    }
    values: dict[str, Any] = {}
    for row in cell_rows.values():
        values |= _parse_row(row)
    if "fabric_interfaces" not in values:
        values["fabric_interfaces"] = sum(card.efa_interfaces for card in values.get("network_cards", ()))
    cells = {
        name: FactCell(row["value"], row["source"], row["as_of"], row["note"])
        for name, row in cell_rows.items()
    }
    return MachineFacts(cloud=cloud, machine=machine, cells=cells, **values)


def _parse_row(row: CsvRow) -> Mapping[str, Any]:
    if row["value"] == UNKNOWN:
        return {}
    try:
        return parse_fact(row["field"], row["value"])
    except ValueError as error:
        raise InputError(str(error), where=row.where, key=row["field"]) from None


def _specificity(pattern: str) -> tuple[bool, bool, int]:
    """Return a key that sorts an exact name after a pattern, and a longer pattern after a shorter one."""
    return "+" in pattern, "*" not in pattern, len(pattern)

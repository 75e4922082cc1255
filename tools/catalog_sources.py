"""A report of the accelerators' fields by source and kind of source, with the empty fields and why they are empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from gpufleet.catalog.data_file import Row, load_catalog_rows
from gpufleet.catalog.source import CatalogSource, load_catalog_sources

LABEL_FIELDS = (
    "name",
    "vendor",
    "kind",
    "memory_options",
    "aliases",
    "bin_of",
    "notes",
)  # names and groups of our own, which need no source
UNIT_COLUMNS = (  # a rate, and the column of architectures.csv that is "none" if the architecture has no such unit
    ("bf16_tflops_dense", "bf16"),
    ("fp8_tflops_dense", "fp8_per_16"),
    ("fp4_tflops_dense", "fp4_per_fp8"),
    ("int8_tops_dense", "int8_per_16"),
)
KINDS = {
    "vendor_doc": "the maker's own documentation or result file",
    "datasheet_copy": "the maker's data sheet as printed by others",
    "database": "a database of parts",
    "secondary": "a book, article or table that names its own sources",
    "recorded_api": "answers of the vendor's API, as another project records them",
    "third_party_code": "code of another project, which may be wrong",
    "measurement": "a published measurement",
    "rule": "our own classification by a rule in data/README.md",
}


@dataclass(frozen=True)
class FieldSource:
    """The source of one field of one accelerator; ``how`` is the formula or the place in the source."""

    source: CatalogSource
    how: str


@dataclass(frozen=True)
class FieldSourceReport:
    """Every filled field by kind of source and by source, and every empty one by name and reason."""

    by_kind: dict[str, int]
    by_source: dict[str, int]
    computed: int  # of the filled fields: those whose ``how`` states a formula
    unsourced: tuple[tuple[str, str], ...]
    empty: dict[str, tuple[str, ...]]  # by accelerator: fields that no source states
    absent: dict[str, tuple[str, ...]]  # by accelerator: fields that its kind or architecture does not have
    shared: tuple[str, ...]  # accelerators without measured usable memory: a documented share applies


@cache
def load_field_sources() -> dict[str, dict[str, FieldSource]]:
    """Return the source of each field by accelerator and field."""
    sources_by_id = load_catalog_sources()
    sources_by_field: dict[str, dict[str, FieldSource]] = {}
    for row in load_catalog_rows("accelerator_sources.csv"):
        field_source = FieldSource(sources_by_id[row["source"]], row["how"])
        sources_by_field.setdefault(row["name"], {}).update(
            dict.fromkeys(row["fields"].split(), field_source)
        )
    return sources_by_field


def build_field_source_report() -> FieldSourceReport:
    """Return the shipped catalogue's fields by kind of source, and the empty fields."""
    return count_fields_by_source(
        load_catalog_rows("accelerators.csv"), load_field_sources(), load_catalog_rows("architectures.csv")
    )


def count_fields_by_source(
    parts: Sequence[Row], sources_by_field: dict[str, dict[str, FieldSource]], architectures: Sequence[Row]
) -> FieldSourceReport:
    """Count the fields of these rows by source."""
    kinds: Counter[str] = Counter()
    ids: Counter[str] = Counter()
    computed, unsourced = 0, []
    empty: dict[str, tuple[str, ...]] = {}
    absent: dict[str, tuple[str, ...]] = {}
    for row in parts:
        inapplicable_fields, empty_fields = (
            _absent_fields(row, find_gpu_architecture_row(row, architectures)),
            [field for field in _fact_fields(row) if not row[field]],
        )
        empty[row["name"]] = tuple(
            field for field in empty_fields if field not in {*inapplicable_fields, "usable_gib"}
        )
        absent[row["name"]] = tuple(field for field in empty_fields if field in inapplicable_fields)
        for field in (field for field in _fact_fields(row) if row[field]):
            field_source = sources_by_field.get(row["name"], {}).get(field)
            if field_source is None:
                unsourced.append((row["name"], field))
                continue
            kinds[field_source.source.kind] += 1
            ids[field_source.source.id] += 1
            computed += (
                " x " in field_source.how or " / " in field_source.how or field_source.how.startswith("half")
            )
    shared = tuple(row["name"] for row in parts if not row.get("usable_gib", "-"))
    return FieldSourceReport(dict(kinds), dict(ids), computed, tuple(unsourced), empty, absent, shared)


def find_gpu_architecture_row(row: Row, architectures: Iterable[Row]) -> Row | None:
    """Return the first row of ``architectures.csv`` that describes a part."""
    candidates = (
        architecture
        for architecture in architectures
        if row.get("architecture", "").startswith(architecture["architecture"])
    )
    return next(
        (line for line in candidates if not line["kinds"] or row["kind"] in line["kinds"].split()), None
    )


def _fact_fields(row: Row) -> list[str]:
    return [field for field in row if field not in LABEL_FIELDS]


def _absent_fields(row: Row, architecture: Row | None) -> set[str]:
    """Return the fields that do not apply to a part: no such unit, no link, no slot."""
    missing_units = {
        field for field, column in UNIT_COLUMNS if architecture is not None and architecture[column] == "none"
    }
    link_fields = {"link", "link_gb_s"} if not row.get("link") else set()
    return missing_units | link_fields | ({"pcie_gen"} if row.get("kind") == "apple" else set())

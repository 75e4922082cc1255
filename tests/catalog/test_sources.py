"""Test that every accelerator figure has a source that is not recalled from memory."""

import re

import pytest

from gpufleet import catalog
from gpufleet.catalog.data_file import load_catalog_rows
from tools.catalog_sources import (
    KINDS,
    LABEL_FIELDS,
    build_field_source_report,
    count_fields_by_source,
    load_field_sources,
)

ADDRESS = re.compile(r"https?://\S+\.\S+|pip package \S+==\S+|GitHub text search( for|:) .+|README\.md")


def test_every_filled_field_has_a_source_that_is_not_recalled():
    report = build_field_source_report()
    assert report.unsourced == ()
    assert set(report.by_kind) <= set(KINDS)
    assert not [kind for kind in KINDS if "recall" in kind]
    filled = sum(
        bool(row[field])
        for row in load_catalog_rows("accelerators.csv")
        for field in row
        if field not in LABEL_FIELDS
    )
    assert sum(report.by_kind.values()) == sum(report.by_source.values()) == filled


def test_every_empty_field_is_listed_with_its_reason():
    report = build_field_source_report()
    for row in load_catalog_rows("accelerators.csv"):
        lacking, absent = set(report.empty[row["name"]]), set(report.absent[row["name"]])
        measured = set() if row["name"] not in report.shared else {"usable_gib"}
        empty = {field for field in row if field not in LABEL_FIELDS and not row[field]}
        assert lacking | absent | measured == empty
        assert not lacking & absent


def test_absent_feature_does_not_count_as_a_missing_source():
    report = build_field_source_report()
    assert "bandwidth_gb_s" in report.empty["H100 96GB HBM2e"]
    assert "int8_tops_dense" in report.empty["B300"]  # sources disagree
    assert "fp4_tflops_dense" in report.absent["H100 SXM5 80GB"]
    assert "link" in report.absent["GeForce RTX 4090"]
    assert "pcie_gen" in report.absent["M3 Ultra (80)"]
    assert "M3 Ultra (80)" in report.shared
    assert "L4" not in report.shared


def test_field_without_a_source_is_reported():
    part = {"name": "Nova 1", "vendor": "Nova", "kind": "gpu_datacenter", "tdp_w": "75", "pcie_gen": ""}
    report = count_fields_by_source([part], {}, [])
    assert report.unsourced == (("Nova 1", "tdp_w"),)
    assert report.empty == {"Nova 1": ("pcie_gen",)}
    assert report.absent == {"Nova 1": ()}


@pytest.mark.parametrize("source", catalog.load_catalog_sources().values(), ids=lambda source: source.id)
def test_source_has_title_address_and_date(source):
    assert source.kind in KINDS
    assert source.title
    assert ADDRESS.fullmatch(source.address)
    assert re.fullmatch(r"20\d\d(-\d\d){0,2}", source.as_of)


def test_every_source_is_used():
    used = {
        row["source"]
        for name in ("accelerator_sources.csv", "usable_shares.csv")
        for row in load_catalog_rows(name)
    }
    for name in ("hosts.csv", "machine_facts.csv"):
        used |= {source for row in load_catalog_rows(name) for source in row["source"].split()}
    assert used == set(catalog.load_catalog_sources())


def test_computed_field_states_its_formula():
    """A multiple names its factor and what is multiplied; a classification names its rule's place."""
    computed = [
        field.how
        for fields in load_field_sources().values()
        for field in fields.values()
        if " x " in field.how or " / " in field.how
    ]
    assert len(computed) > 200
    assert all(re.search(r"\d", how) for how in computed)


def test_accelerator_names_its_sources():
    part = catalog.get_accelerator("L4")
    assert "nvidia-smi" in part.source
    assert part.as_of >= "2025"
    assert load_field_sources()["L4"]["usable_gib"].source.kind == "measurement"


def test_usable_memory_shares_have_source_and_method():
    for row in load_catalog_rows("usable_shares.csv"):
        assert row["source"] in catalog.load_catalog_sources()
        assert row["how"]
        assert 0.5 < float(row["share"]) <= 1

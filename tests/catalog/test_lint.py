"""Test the linter of the catalogue: no finding in shipped data, one for every known mistake."""

import csv
from pathlib import Path

import pytest

from gpufleet.catalog.data_file import load_catalog_rows
from tools import catalog_lint as lint

CASES = Path(__file__).parents[1] / "cases" / "catalog" / "bad_rows.csv"
BAD = list(csv.DictReader(CASES.read_text(encoding="utf-8").splitlines()))
PARTS = load_catalog_rows("accelerators.csv")
ARCHITECTURES, MISTAKES = load_catalog_rows("architectures.csv"), load_catalog_rows("mistakes.csv")
SOURCES, FIELD_SOURCES, HOSTS = (
    load_catalog_rows("sources.csv"),
    load_catalog_rows("accelerator_sources.csv"),
    load_catalog_rows("hosts.csv"),
)
RATES = (
    "fp16_tflops_dense",
    "bf16_tflops_dense",
    "fp8_tflops_dense",
    "fp4_tflops_dense",
    "int8_tops_dense",
)


def replace_fields(name, fields):
    """The shipped rows with one changed."""
    return [row | fields if row["name"] == name else row for row in PARTS]


def expected_matrix_ratio(row):
    """What the linter compares a part's rates with."""
    lines = (line for line in ARCHITECTURES if row["architecture"].startswith(line["architecture"]))
    return next((line["matrix_per_fp32"].replace("none", "") for line in lines), "")


def find_rules(parts):
    return {
        (finding.rule, finding.field) for finding in lint.lint_accelerators(parts, ARCHITECTURES, MISTAKES)
    }


def parse_assignments(text):
    """What a case changes: `field=value`, several apart by a blank before the next field's name."""
    fields = {}
    for token in text.split(" "):
        if "=" in token:
            field, value = token.split("=", 1)
            fields[field] = value
        else:
            fields[field] += f" {token}"
    return fields


WITH_MATRIX_UNITS = [
    row for row in PARTS if expected_matrix_ratio(row) and row["fp32_tflops"] and row["fp16_tflops_dense"]
]
WITH_DRAM = [
    row for row in PARTS if not row["bandwidth_gb_s"] or float(row["bandwidth_gb_s"]) < lint.SRAM_MIN_GB_S
]


def test_shipped_catalogue_has_no_finding():
    assert lint.lint_accelerators(PARTS, ARCHITECTURES, MISTAKES) == []
    assert lint.lint_field_sources(PARTS, FIELD_SOURCES, SOURCES) == []
    assert lint.lint_default_hosts(HOSTS, PARTS, SOURCES) == []


@pytest.mark.parametrize(
    "case", BAD, ids=[f"{case['row']}: {case['changed']} {case['rule']}" for case in BAD]
)
def test_common_mistake_is_detected(case):
    fields = parse_assignments(case["changed"])
    row = next(row for row in PARTS if row["name"] == case["row"])
    alone = case["rule"] != "ambiguous"  # a name is ambiguous next to others
    assert (case["rule"], case["field"]) in find_rules(
        [row | fields] if alone else replace_fields(case["row"], fields)
    )
    assert (case["rule"], case["field"]) not in find_rules([row])


def test_every_lint_rule_has_a_case():
    """Every rule that the linter can name has a case, here or below."""
    text = Path(lint.__file__).read_text(encoding="utf-8")
    rules = {part.split('"')[1] for part in text.split("Finding(")[1:] if part.strip().startswith('"')}
    rules |= {row["rule"] for row in MISTAKES}
    assert rules == {case["rule"] for case in BAD} | {"source", "host"}


@pytest.mark.parametrize("row", WITH_MATRIX_UNITS, ids=lambda row: row["name"])
def test_doubled_matrix_rates_are_detected(row):
    """As sparse figures are: the ratios between precisions stay, only fp32 tells."""
    doubled = {rate: str(float(row[rate]) * 2) for rate in RATES if row[rate]}
    at_half_rate = row["name"] in ("A10G", "L40")  # doubled, they look like their sister cards
    assert ("sparse" in {rule for rule, _ in find_rules([row | doubled])}) != at_half_rate


@pytest.mark.parametrize("row", WITH_DRAM, ids=lambda row: row["name"])
def test_figure_in_a_wrong_unit_is_detected(row):
    """TB/s for GB/s, MiB for GiB."""
    mib = row | {"memory_gib": str(float(row["memory_gib"]) * 1024), "memory_options": ""}
    assert ("unit", "memory_gib") in find_rules([mib])
    if row["bandwidth_gb_s"]:
        tb_s = row | {"bandwidth_gb_s": str(float(row["bandwidth_gb_s"]) / 1000)}
        assert ("unit", "bandwidth_gb_s") in find_rules([tb_s])


def test_field_without_a_source_is_detected():
    lacking = [row for row in FIELD_SOURCES if not (row["name"] == "T4" and "memory_gib" in row["fields"])]
    messages = [str(finding) for finding in lint.lint_field_sources(PARTS, lacking, SOURCES)]
    assert "T4: memory_gib: no source [source]" in messages


def test_unlisted_source_is_detected():
    field_sources = [row | {"source": "hearsay"} if row["name"] == "T4" else row for row in FIELD_SOURCES]
    messages = [str(finding) for finding in lint.lint_field_sources(PARTS, field_sources, SOURCES)]
    assert any("'hearsay' is not in sources.csv" in message for message in messages)
    assert "T4: memory_gib: no source [source]" in messages


def test_source_for_an_empty_field_is_detected():
    messages = [
        str(finding)
        for finding in lint.lint_field_sources(replace_fields("T4", {"tdp_w": ""}), FIELD_SOURCES, SOURCES)
    ]
    assert messages == ["T4: tdp_w: has a source but is empty [source]"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "recalled"}, "'recalled' is not one of"),
        ({"address": ""}, "needs a title, an address and a date"),
        ({"title": "recalled from a talk"}, "a recollection is not a source"),
    ],
)
def test_invalid_source_is_detected(fields, message):
    spoilt = [SOURCES[0] | fields, *SOURCES[1:]]
    assert [message in str(finding) for finding in lint.lint_field_sources(PARTS, FIELD_SOURCES, spoilt)] == [
        True
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"accelerator": "RTX 6000"}, "'RTX 6000' is not in accelerators.csv"),
        ({"accelerator_memory_gib": "160"}, "M2 (10) is not sold with 160 GiB"),
        ({"source": ""}, "'' is not in sources.csv"),
    ],
)
def test_invalid_host_is_detected(fields, message):
    host = next(row for row in HOSTS if row["name"] == "MacBook Pro M2 16GB")
    assert [
        message in str(finding) for finding in lint.lint_default_hosts([host | fields], PARTS, SOURCES)
    ] == [True]


def test_known_mistakes_concern_existing_parts_and_differ_from_shipped_values():
    shipped = {row["name"]: row for row in PARTS}
    for row in MISTAKES:
        assert shipped[row["name"]][row["field"]] != row["value"]
        assert row["source"]
        assert row["as_of"]

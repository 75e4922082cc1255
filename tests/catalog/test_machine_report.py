"""Test ``gpufleet machine``: every fact with its source, the unknown ones with their reason."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from gpufleet import catalog
from gpufleet.catalog.machine_report import build_machine_report
from gpufleet.cli import gpufleet
from gpufleet.errors import InputError


def run(*arguments):
    result = CliRunner().invoke(gpufleet, ["machine", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_text_names_each_fact_with_source_and_date():
    printed = run("Standard_ND96isr_H200_v5")
    assert "Standard_ND96isr_H200_v5 (azure): 96 vCPUs, 1850 GiB, 8x H200 SXM 141GB\n" in printed
    assert "fabric                 infiniband  (azure-sizes-ndh200v5, 2025-09-02" in printed
    assert "creatable_reservation  no  (azure-capacity-reservations, 2026-02-17; ND-series)\n" in printed
    assert "unknown: zones: zone numbers differ by subscription" in printed
    assert "https://learn.microsoft.com/azure/virtual-machines/capacity-reservation-overview\n" in printed


def test_json_has_every_cell_and_every_source():
    report = json.loads(run("p5.48xlarge", "--cloud", "aws", "--json"))
    cells = catalog.get_machine_facts("p5.48xlarge", "aws").cells
    assert {fact["field"] for fact in report["facts"]} == set(cells)
    assert {source for fact in report["facts"] for source in fact["sources"]} == set(report["sources"])
    assert all(fact["note"] for fact in report["facts"] if fact["value"] is None)


def test_attached_accelerator_selects_its_facts():
    facts = {
        fact["field"]: fact["value"] for fact in build_machine_report("n1-standard-4", None, "T4")["facts"]
    }
    assert facts["quota_buckets"].startswith("on_demand:NVIDIA_T4_GPUS;")


@pytest.mark.parametrize(
    ("name", "accelerator", "message"),
    [
        ("p5.48xlarg", None, "did you mean p5.48xlarge"),
        ("p5.48xlarge", "T4", "its accelerators are fixed"),
        ("n1-standard-4", "H100", "give one of T4"),
    ],
)
def test_unknown_machine_or_accelerator_is_refused_with_a_remedy(name, accelerator, message):
    with pytest.raises(InputError, match=message):
        build_machine_report(name, None, accelerator)


def test_owned_machine_has_a_size_and_no_facts():
    report = build_machine_report("DGX H100")
    assert (report["vcpus"], report["facts"], report["sources"]) == (112, [], {})

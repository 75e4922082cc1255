"""Test that a run is committed in groups of bounded size that never divide a family of machines."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.catalog.prices import MachineFacts

from .conftest import build_row


def test_families_are_checked_undivided_in_small_groups(store, monkeypatch):
    monkeypatch.setattr("gpufleet.catalog.prices.store.GROUP_ROWS", 1)
    sizes = {"Standard_ZZ2s_v9": (2, 0.1), "Standard_ZZ4s_v9": (4, 0.2), "Standard_ZZ32s_v9": (32, 0.16)}
    others = {"Standard_ZZ2s_v8": (2, 0.1), "Standard_ZZ16_v9": (16, 0.8)}
    rows = [
        build_row(usd, key=("azure", "eastus", name, "on_demand"), facts=MachineFacts(vcpus, vcpus * 4.0))
        for name, (vcpus, usd) in (sizes | others).items()
    ]
    disk = build_row(0.1, key=("azure", "eastus", "premium-ssd-p10", "on_demand"), kind="part", unit="disk")
    groups = []
    run = store.begin_or_resume_run("test", "1")
    summary = store.commit_run(
        store.stage_batch("all", [*rows, replace(disk, usd_per_hour=19.71 / 730)], run),
        observe=lambda accepted, context: groups.append({row.item for row in accepted}),
    )
    assert [(finding.code, finding.row.item) for finding in summary.findings] == [
        ("family-outlier", "Standard_ZZ32s_v9")
    ]
    assert sorted(map(sorted, groups)) == [
        ["Standard_ZZ16_v9"],
        ["Standard_ZZ2s_v8"],
        ["Standard_ZZ2s_v9", "Standard_ZZ4s_v9"],
        ["premium-ssd-p10"],
    ]
    assert (summary.imported, summary.set_apart) == (5, 1)

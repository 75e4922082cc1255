"""Test that a plan follows from each cell of AMD's support grid, and none from outside it."""

from __future__ import annotations

import pytest

from gpufleet.drivers import HostFacts, RequestedSoftware, data_file, plan_drivers

CELLS = data_file.load_rocm_support()
CARDS = [card for card in data_file.load_gpu_cards().values() if card.gfx]


def plan_for(card, system, version, kernel, rocm):
    device = {"vendor": card.pci[:4], "device": card.pci[5:], "class": "030000"}
    os_id, _, os_version = system.rpartition("-")
    facts = {
        "pci": [device],
        "os": {"id": os_id, "version_id": version or os_version},
        "kernel": f"{kernel}.0-1-generic",
        "arch": "x86_64",
        "date": "2026-11-22",
    }
    return plan_drivers(HostFacts.from_json(facts), RequestedSoftware(rocm=rocm))


def list_machines():
    """Return each cell with its cards, minor releases and kernels."""
    return [
        (cell, card, version, kernel)
        for cell in CELLS
        for card in CARDS
        if cell.includes_card(card)
        for version in cell.versions or ("",)
        for kernel in cell.kernels
    ]


def test_each_cell_of_the_grid_gets_its_rocm_without_a_remark_on_the_kernel():
    machines = list_machines()
    assert len(machines) > 400
    refused = set()
    for cell, card, version, kernel in machines:
        plan = plan_for(card, cell.system, version, kernel, cell.release)
        place = (cell.release, cell.system, version, card.display_name, kernel)
        if plan.refusal:
            refused.add((cell.release, cell.system, version, plan.refusal.code))
            continue
        assert plan.rocm.version == cell.release, place
        assert "rocm.kernel" not in {reason.code for reason in plan.reasons}, place
        assert plan.origin == ("distribution" if cell.release == "5.7" else "vendor"), place
    assert refused == {  # the user space is published for 9.3, no compatible driver is
        ("6.2", "rhel-9", "9.3", "amd.driver_system"),
    }


@pytest.mark.parametrize(
    "release", data_file.load_rocm_releases().values(), ids=lambda release: release.release
)
def test_graphics_repository_comes_with_legacy_releases_from_7_0_on(release):
    major = int(release.release.partition(".")[0])
    assert release.has_graphics == (release.stream == "legacy" and major >= 7)


def test_cards_outside_the_grid_are_refused_on_every_listed_system():
    for release in data_file.load_rocm_releases().values():
        for system in release.systems:
            listed = [cell for cell in release.support if cell.system == system]
            for card in CARDS:
                if not any(cell.includes_card(card) for cell in listed):
                    version = next((cell.versions[0] for cell in listed if cell.versions), "")
                    plan = plan_for(card, system, version, listed[0].kernels[0], release.release)
                    assert plan.refusal, (release.release, system, card.display_name)
                    assert plan.refusal.code in ("rocm.gfx", "rocm.card_on_system")

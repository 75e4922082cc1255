"""Declared accelerators as PCI devices in the shape of sysfs."""

from __future__ import annotations

import pytest

from gpufleet import catalog
from gpufleet.rehearsal.rack import pci


@pytest.mark.parametrize(
    ("model", "ids"),
    [
        ("H100 SXM5 80GB", ("0x10de", "0x2330", "0x030200")),
        ("Instinct MI300X", ("0x1002", "0x74a1", "0x120000")),
        ("GeForce RTX 4090", ("0x10de", "0x2684", "0x030000")),
        ("Radeon RX 460", ("0x1002", "0x67ef", "0x030000")),
        ("Radeon RX 7900 XTX", ("0x1002", "0x744c", "0x030000")),  # an id of several models
    ],
)
def test_card_has_its_ids_and_class(model, ids):
    files = pci.build_pci_sysfs_files([(model, 1)])
    assert tuple(files[f"0000:11:00.0/{name}"] for name in ("vendor", "device", "class")) == tuple(
        f"{value}\n" for value in ids
    )
    assert {name.split("/")[1] for name in files} >= {"subsystem_vendor", "subsystem_device"}


def test_every_card_has_its_own_address():
    files = pci.build_pci_sysfs_files([("H100 SXM5 80GB", 8), ("T4", 2)])
    assert len({name.split("/")[0] for name in files}) == 10
    assert files["0000:19:00.0/device"] == "0x1eb8\n"


def test_model_without_an_id_has_no_device():
    assert pci.list_models_without_pci_id([("T4", 1), ("Abacus", 2)]) == ["Abacus"]
    assert pci.build_pci_sysfs_files([("Abacus", 2)]) == {}


def test_data_centre_models_have_ids():
    models = {"A100 SXM4 80GB", "H200 SXM 141GB", "B200", "L40S", "Instinct MI210", "Instinct MI300X"}
    assert (
        pci.list_models_without_pci_id([(catalog.get_accelerator(name).name, 1) for name in sorted(models)])
        == []
    )

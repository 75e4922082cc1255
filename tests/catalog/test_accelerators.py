from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from gpufleet import catalog
from gpufleet.catalog import accelerator_name, data_file
from gpufleet.errors import InputError

NAMES = Path(__file__).parents[1] / "cases" / "catalog" / "names.csv"
CASES = [(row["asked"], row["means"]) for row in csv.DictReader(NAMES.open(encoding="utf-8"))]


@pytest.mark.parametrize(("query", "means"), [case for case in CASES if case[1][0] != "!"])
def test_common_hardware_names_are_understood(query, means):
    assert catalog.get_accelerator(query).name == means


@pytest.mark.parametrize(("query", "answer"), [(a, m[1:]) for a, m in CASES if m[0] == "!"])
def test_unknown_or_ambiguous_name_is_refused_with_candidates(query, answer):
    with pytest.raises(InputError) as excinfo:
        catalog.get_accelerator(query)
    assert answer in str(excinfo.value)


def test_empty_name_is_refused():
    with pytest.raises(InputError, match="unknown accelerator ''"):
        catalog.get_accelerator("")


@pytest.mark.parametrize("name", sorted(catalog.load_accelerators()))
def test_every_name_and_alias_resolves_to_its_own_part(name):
    part = catalog.load_accelerators()[name]
    assert catalog.get_accelerator(name) is part
    assert {catalog.get_accelerator(alias).name for alias in part.aliases} <= {name}


def test_binned_chip_is_selected_only_by_its_full_name():
    bins = {part.name: part.bin_of for part in catalog.load_accelerators().values() if part.bin_of}
    assert bins["M1 Pro (14)"] == "M1 Pro (16)"
    assert set(bins.values()) <= set(catalog.load_accelerators()) - set(bins)


def test_another_memory_size_keeps_the_name_and_usable_share():
    board = catalog.get_accelerator("Compute Module 5 / Pi 5")
    half = catalog.with_memory_size(board, 8)
    assert half == replace(board, name="Compute Module 5 / Pi 5 8GB", memory_gib=8, usable_gib=7.92)
    assert catalog.get_accelerator(half.name) == half
    assert catalog.with_memory_size(board, 3) is None
    assert catalog.with_memory_size(board, 16) is board


@pytest.mark.parametrize(
    ("name", "usable"),
    [  # read by somebody: nvidia-smi's MiB, XLA's G, the working set Metal recommends
        ("H100 SXM5 80GB", 81559 / 1024),
        ("L4", 23034 / 1024),
        ("T4", 15.0),
        ("TPU v6e", 31.25),
        ("GB10 (DGX Spark)", 121.69),
        ("M2 (10) 16GB", 10.67),
        ("M5 Max (40)", 107.52),
    ],
)
def test_usable_memory_is_what_software_can_allocate(name, usable):
    assert catalog.get_accelerator(name).usable_gib == pytest.approx(usable, abs=0.01)


def test_usable_memory_is_known_and_at_most_nominal():
    for part in catalog.load_accelerators().values():
        assert 0 < part.usable_gib <= part.memory_gib, part.name


@pytest.mark.parametrize(
    ("name", "link", "gb_s", "peer"),
    [
        ("A100 SXM4 80GB", "NVLink3", 600, True),
        ("H800 SXM", "NVLink4", 400, True),
        ("GeForce RTX 3090", "NVLink3", 112.5, True),
        ("GeForce RTX 4090", "", None, False),
        ("Instinct MI300X", "Infinity Fabric", 896, True),
        ("M3 Ultra (80)", "", None, False),
    ],
)
def test_interconnects_of_devices_are_known(name, link, gb_s, peer):
    part = catalog.get_accelerator(name)
    assert (part.link, part.link_gb_s, part.peer_access) == (link, gb_s, peer)


def test_software_stacks_of_each_device_are_listed():
    stacks = {
        name: catalog.get_accelerator(name).stacks
        for name in ("rx 460", "mi300x", "trainium2", "gaudi3", "ascend 910c")
    }
    assert stacks == {
        "rx 460": ("vulkan",),
        "mi300x": ("rocm",),
        "trainium2": ("neuron",),
        "gaudi3": ("synapse",),
        "ascend 910c": ("cann",),
    }
    apple = [part for part in catalog.load_accelerators().values() if part.vendor == "Apple"]
    assert len(apple) >= 25
    assert all(part.unified and {"metal", "mlx"} <= set(part.stacks) for part in apple)


def test_owned_hosts_are_found_as_onprem_machines():
    mac = catalog.get_machine("Mac Studio M3 Ultra 512GB", "onprem")
    assert (mac.accelerators[0].model, mac.memory_gib, mac.cloud) == ("M3 Ultra (80)", 512, "onprem")
    blade = catalog.get_machine("Compute Blade CM4 8GB", "onprem")
    assert (blade.accelerators, blade.board, blade.network_gb_s) == ((), "Compute Module 4 / Pi 4", 0.125)
    assert catalog.get_machine("Mac mini M4 32GB").idle_watts == 6


def test_boards_of_hosts_are_in_the_catalogue():
    boards = {machine.board for (_, _), machine in data_file.load_machines().items() if machine.board}
    assert boards
    assert boards <= set(catalog.load_accelerators())


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("RTX 3090 24GB", ("RTX 3090", 24)),
        ("M4 mini 32 GiB (10)", ("M4 mini (10)", 32)),
        ("A100", None),
        ("RTX A4000", None),
    ],
)
def test_memory_size_is_separated_from_a_name(text, split):
    assert accelerator_name.split_memory_size(text) == split

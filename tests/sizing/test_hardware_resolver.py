"""Hardware names: machines, racks, workstations, accelerators, memory sizes, retired and unknown names."""

from __future__ import annotations

import re

import pytest

from gpufleet import catalog, fleet
from gpufleet.catalog import data_file
from gpufleet.errors import InputError
from gpufleet.sizing.data_file import load_sizing_rows
from gpufleet.sizing.hardware_resolver import resolve_hardware
from gpufleet.sizing.host import find_default_host, find_device_interconnect, find_machine_network
from gpufleet.sizing.node_hardware import with_link_for_device_count
from gpufleet.sizing.owned_hardware import list_owned_hardware


def test_cloud_machine_has_its_cards_links_and_network(hardware):
    p4d = hardware("p4d.24xlarge")
    assert (p4d.accelerator.name, p4d.devices_per_node, p4d.origin) == ("A100 SXM4 40GB", 8, "cloud")
    assert p4d.link_gb_s == 300  # NVLink 3: 600 GB/s in both directions
    assert p4d.network_gb_s * 8 * 8 == 400  # Gbit/s of EFA over eight cards


def test_a2_megagpu_has_sixteen_cards(hardware):
    assert hardware("a2-megagpu-16g").devices_per_node == 16


def test_rack_has_its_boards_and_its_own_cost(hardware, repo_root):
    rack = hardware("blades-1")
    declared = fleet.load_rack(repo_root / "inventory/blades-1.yaml", repo_root)
    assert (rack.node_limit, rack.accelerator.memory_gib, rack.unified) == (20, 8, True)
    assert rack.offers[0].usd_per_hour == pytest.approx(declared.usd_per_hour / 20)
    assert rack.offers[0].as_of == declared.usd_per_hour_as_of


@pytest.mark.parametrize("rack", ["bench-1", "blades-1", "blades-poc"])
def test_quick_rack_parser_agrees_with_the_fleet_parser(rack, repo_root):
    owned = next(hardware for hardware in list_owned_hardware(repo_root) if hardware.name == rack)
    theirs = fleet.load_rack(repo_root / f"inventory/{rack}.yaml", repo_root)
    assert owned.node_limit == len(theirs.nodes)
    assert owned.offers[0].usd_per_hour == pytest.approx(theirs.usd_per_hour / len(theirs.nodes))


def test_rack_with_other_keys_is_loaded_by_the_fleet(project):
    path = project / "inventory/blades-1.yaml"
    text = path.read_text().replace("nodes: blade[01-20]", "nodes: 'blade[01-05,08]'")
    path.write_text(text)
    assert resolve_hardware("blades-1", project).hardware.node_limit == 6


def test_broken_rack_file_has_the_fleet_error_message(project):
    path = project / "inventory/blades-1.yaml"
    path.write_text(path.read_text().replace("nodes: blade[01-20]", "nodes: []"))
    with pytest.raises(InputError, match=r"inventory/blades-1.yaml.*nodes"):
        resolve_hardware("blades-1", project)


def test_bench_with_a_card_resolves_to_its_card(hardware):
    bench = hardware("bench-1")
    assert (bench.accelerator.name, bench.devices_per_node, bench.node_limit) == ("Radeon RX 460", 1, 1)


def test_workstation_is_found_by_its_name_in_the_stacks(hardware):
    desk = hardware("m2")
    assert (desk.origin, desk.accelerator.memory_gib, desk.unified) == ("workstation", 16, True)


@pytest.mark.parametrize("name", list(catalog.load_accelerators()))
def test_every_part_resolves_by_its_catalogue_name(name):
    resolved = resolve_hardware(name).hardware
    assert resolved.accelerator.name == name
    assert resolved.devices_per_node >= 1
    assert resolved.host_source


@pytest.mark.parametrize(
    "name", ["h100 sxm5", "H100-SXM5-80GB", "GeForce RTX 4090", "rtx 4090", "geforcertx4090"]
)
def test_names_ignore_case_and_punctuation(name):
    assert resolve_hardware(name).hardware.accelerator.name in ("H100 SXM5 80GB", "GeForce RTX 4090")


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("CM5 16GB", 16),
        ("Raspberry Pi 5 8GB", 8),
        ("M3 Max 64GB", 64),
        ("M2 Ultra 192GB", 192),
        ("M4 Pro 24 GB", 24),
        ("M5 24GB", 24),
        ("M5 32GB", 32),
        ("M5 Pro 48GB", 48),
        ("M5 Max 64GB", 64),
    ],
)
def test_memory_size_selects_an_option(name, gib):
    assert resolve_hardware(name).hardware.accelerator.memory_gib == gib


def test_unknown_memory_size_is_refused_with_the_options():
    with pytest.raises(InputError, match=r"at most 8 GB.*1, 2, 4, 8 GB"):
        resolve_hardware("CM4 512GB")


def test_machine_family_with_one_size_resolves_to_that_machine():
    assert resolve_hardware("p4d").hardware.name == "p4d.24xlarge"


def test_retired_machine_is_replaced_by_its_substitute():
    resolved = resolve_hardware("Standard_NC6s_v3")
    assert resolved.hardware.name == "Standard_NC4as_T4_v3"
    assert [warning.code for warning in resolved.warnings] == ["retired-machine"]
    assert "2025-09-30" in resolved.warnings[0].message


def test_fraction_of_a_card_has_that_fraction_of_its_resources(hardware):
    third, full = hardware("Standard_NV12ads_A10_v5"), hardware("Standard_NV36ads_A10_v5")
    assert third.accelerator.memory_gib == 8
    assert third.accelerator.bandwidth_gb_s == pytest.approx(0.333 * full.accelerator.bandwidth_gb_s)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("H100", "is ambiguous; name one of"),
        ("RTX 6000", "is ambiguous; name one of"),
        ("H200", "is ambiguous; name one of: H200 SXM 141GB, H200 NVL 141GB"),
        ("g5", "has several sizes; name one of: g5.12xlarge"),
        ("GTX 1080", "did you mean GeForce GTX 1080 Ti"),
        ("RTX 4060 16GB", "does not exist: at most 8 GB"),
        ("CPU", "unknown hardware"),
        ("p4d.24xlrge", "did you mean p4d.24xlarge"),
        ("blades-2", "did you mean blades-1"),
        ("n1-standard-8", "has no accelerator; it accepts T4, V100: write n1-standard-8 + T4"),
        ("n1-standard-8 +", "names no card after the +; it takes T4 or V100: n1-standard-8 + T4"),
        ("+ T4", "names no machine before the +"),
        ("n1-standard-8 + A100", "'A100' cannot be attached to n1-standard-8; it takes T4 or V100"),
        ("n1-standard-8 + 3 T4", "3 x T4 cannot be attached to n1-standard-8; it takes 1, 2, 4"),
        ("n1-standard-32 + V100", "with 1 x V100 it may have at most 12; attach 4"),
        ("n1-standard-9 + T4", "unknown gcp machine 'n1-standard-9'; did you mean n1-standard-8"),
        ("n1-highmem-8 + T4", "the catalogue has no cards for n1-highmem-8"),
        ("p4d.24xlarge + T4", "p4d.24xlarge takes no attached cards"),
        ("g2-standard-4 + T4", "g2-standard-4 takes no attached cards: it has L4"),
        ("nothing of the kind", "unknown hardware"),
        ("   ", "is empty"),
    ],
)
def test_unknown_hardware_is_refused_in_one_line_with_a_remedy(name, message, repo_root):
    with pytest.raises(InputError, match=re.escape(message)) as excinfo:
        resolve_hardware(name, repo_root)
    assert "\n" not in str(excinfo.value)
    assert str(excinfo.value).startswith("--on: ")


def test_nvlink_bridges_connect_pairs_only(hardware):
    pcie = hardware("A100 PCIe 80GB")
    assert with_link_for_device_count(pcie, 2).link.startswith("NVLink")
    assert with_link_for_device_count(pcie, 4).link == "PCIe 4"


def test_pcie_slots_have_a_known_number_of_lanes():
    assert (
        find_device_interconnect(catalog.get_accelerator("GeForce RTX 4060 Ti 16GB"), 2)[0] == 15.5
    )  # eight lanes of generation 4


def test_every_machine_with_a_fabric_has_its_speed_in_the_facts_table_and_nowhere_else():
    names = {row["machine"] for row in load_sizing_rows("networks.csv")}
    machines = [machine for machine in data_file.load_machines().values() if machine.fabric]
    assert machines
    for machine in machines:
        assert machine.name not in names
        facts = catalog.get_machine_facts(machine.name, machine.cloud)
        assert find_machine_network(machine.name, machine.cloud)[0] == facts.fabric_gbit_per_s / 8


@pytest.mark.parametrize("file", ["hosts.csv", "networks.csv", "engines.csv", "slots.csv", "sparse.csv"])
def test_every_fact_has_a_source(file):
    assert all(len(row["source"]) > 10 for row in load_sizing_rows(file))


def test_every_accelerator_has_a_host_and_every_machine_a_network():
    assert all(find_default_host(part).devices >= 1 for part in catalog.load_accelerators().values())
    assert find_machine_network("a machine of tomorrow", "aws")[0] > 0


def test_p5_has_eight_times_the_network_of_p4d():
    assert find_machine_network("p5.48xlarge", "aws")[0] == 8 * find_machine_network("p4d.24xlarge", "aws")[0]


@pytest.mark.parametrize(
    ("model", "precision", "machine"),
    [
        ("qwen2-0.5b", "f16", "Standard_NC4as_T4_v3"),
        ("llama-3.1-70b", "int4", "Standard_NC24ads_A100_v4"),
        ("llama-3.1-405b", "bf16", "Standard_NC4as_T4_v3"),  # fits on none: the first is answered
    ],
)
def test_retired_machine_is_replaced_by_the_first_substitute_that_fits(
    model, precision, machine, answer_size
):
    assert (
        answer_size(model, on="Standard_NC6s_v3", devices=1, precision=precision).plans[0].hardware.name
        == machine
    )


@pytest.mark.parametrize(
    ("on", "options", "message"),
    [
        ("p4d.24xlarge", {"clouds": ("gcp",)}, "is a machine of aws"),
        ("p4d.24xlarge", {"regions": ("europe-west4",)}, "is not a region of aws"),
        ("p4d.24xlarge", {"owned": True}, "is not owned"),
        ("p4d.24xlarge", {"purchases": ("owned",)}, "is rented"),
        ("H100 SXM5 80GB", {"owned": True}, "is not owned"),
        ("m2", {"clouds": ("aws",)}, "is owned hardware, not in a cloud"),
        ("m2", {"regions": ("us-east-1",)}, "is owned hardware, not in a cloud"),
        ("blades-1", {"purchases": ("spot",)}, "is owned"),
    ],
)
def test_options_that_contradict_the_hardware_are_refused(on, options, message, answer_size):
    with pytest.raises(InputError, match=message):
        answer_size("qwen2-0.5b", on=on, precision="q4_0", **options)


@pytest.mark.parametrize("options", [{"clouds": ("aws", "gcp")}, {"purchases": ("owned", "spot")}])
def test_consistent_options_are_accepted(options, answer_size):
    assert answer_size("qwen2-0.5b", on="p4d.24xlarge", devices=8, **options).plans


@pytest.mark.parametrize(
    ("name", "card", "count"),
    [
        ("n1-standard-8 + T4", "T4", 1),
        ("N1-standard-8+2xT4", "T4", 2),
        ("n1-standard-8 + 2x V100", "Tesla V100 SXM2 16GB", 2),
        ("n1-standard-4 + 1 NVIDIA Tesla V100", "Tesla V100 SXM2 16GB", 1),
        ("n1-standard-32 + nvidia-tesla-t4", "T4", 1),
    ],
)
def test_machine_with_attached_cards_has_their_figures(name, card, count):
    hardware = resolve_hardware(name).hardware
    assert (hardware.accelerator.name, hardware.devices_per_node) == (card, count)
    assert hardware.origin == "cloud"
    assert hardware.host_memory_gib


@pytest.mark.parametrize(
    ("name", "cards", "part"),
    [("n1-standard-8 + 2x T4", 2, "nvidia-tesla-t4"), ("n1-standard-8 + V100", 1, "nvidia-tesla-v100")],
)
def test_attached_cards_are_priced_as_machine_and_cards(name, cards, part, answer_size):
    plan = answer_size("llama-3.1-8b", on=name, precision="int4", regions=("us-central1",)).plans[0]
    purchase = plan.offer.purchase
    machine = catalog.find_machine_price("gcp", "us-central1", "n1-standard-8", purchase)
    card = catalog.find_cloud_part_price("gcp", "us-central1", f"accelerator:{part}", purchase)
    assert plan.offer.usd_per_hour == pytest.approx(machine.usd_per_hour + cards * card.usd_per_hour)


def test_attached_cards_keep_to_the_cloud_of_their_machine(answer_size):
    assert answer_size("qwen2-0.5b", on="n1-standard-8 + T4", clouds=("gcp",)).plans
    with pytest.raises(InputError, match="is a machine of gcp"):
        answer_size("qwen2-0.5b", on="n1-standard-8 + T4", clouds=("aws",))

"""Servers and boards of one's own: each is ranked, or named with the reason."""

from __future__ import annotations

import pytest

from gpufleet import fleet
from gpufleet.cost.analysis import tco
from gpufleet.errors import InputError
from gpufleet.sizing.hardware_resolver import resolve_hardware, resolve_hardware_alternatives
from gpufleet.sizing.plans.options import PlanOptions, parse_plan_options
from gpufleet.sizing.plans.search import find_plans
from gpufleet.sizing.stack_file import write_plan_to_stack

RACK = "plugin: gpufleet.fleet.rack\nname: {name}\nkind: {kind}\nsite: lab\n{body}\n"
RACKS = {
    "desk": ("servers", "machine: my desktop\naccelerators: [{model: RX 7900 XTX}]\nnodes: desk01"),
    "lab": (
        "servers",
        (
            "machine: lab server 2024\naccelerators: [{model: L40S, count: 4}]\n"
            "hardware: {vcpus: 64, memory_gib: 512}\nnodes: lab[01-02]\n"
            "cost: {capital_usd: 35040, life_years: 4, watts_per_node: 1000, usd_per_kwh: 0.25}"
        ),
    ),
    "h100": ("servers", "machine: DGX H100\nnodes: dgx01"),
    "xeon": ("servers", "machine: old xeon\nhardware: {vcpus: 8, memory_gib: 64}\nnodes: xeon01"),
    "pis": (
        "blades",
        (
            'machine: Compute Blade CM4 8GB\nnodes:\n  - {name: "pi[01-02]"}\n'
            '  - {name: "pi[03-05]", machine: Raspberry Pi 5 8GB}'
        ),
    ),
}


def make_project(root, names):
    (root / "Pulumi.yaml").write_text("name: own\nruntime: python\nmain: stacks\n")
    (root / "inventory").mkdir()
    (root / "stacks").mkdir()
    for name in names:
        kind, body = RACKS[name]
        (root / f"inventory/{name}.yaml").write_text(RACK.format(name=name, kind=kind, body=body))
    return root


@pytest.fixture
def racks(tmp_path):
    """Give a project with only these racks."""
    return make_project(tmp_path, RACKS)


def plan(root, **options):
    return find_plans(
        parse_plan_options(PlanOptions("llama-3.1-8b", precision="q4_k_m", **options), root=root)
    )


@pytest.mark.parametrize(
    ("rack", "facts"),
    [
        ("desk", ("Radeon RX 7900 XTX", 1, 1, None)),
        ("lab", ("L40S", 4, 2, 0.75)),  # 35,040 USD / 4 years / 2 + 1 kW at 0.25 USD
        ("h100", ("H100 SXM5 80GB", 8, 1, None)),
    ],
)
def test_server_that_is_not_in_the_catalogue_is_sized(racks, rack, facts):
    found = resolve_hardware(rack, racks).hardware
    usd = found.offers[0].usd_per_hour
    assert (found.accelerator.name, found.devices_per_node, found.node_limit, usd) == facts
    assert rack != "lab" or found.host_memory_gib == 512


def test_every_owned_server_is_ranked_by_speed_or_named(racks):
    result = plan(racks, owned=True)
    assert [each.hardware.owner for each in result.plans] == ["h100", "lab", "desk", "pis", "pis"]
    named = [warning.message for warning in result.warnings if warning.code == "not-ranked"]
    assert named == ["xeon is made of old xeon, which has no accelerator or board that the catalogue knows"]


def test_owned_server_without_a_plan_is_named_with_the_reason(racks):
    result = plan(racks, owned=True, tpot_ms=20, budget=1e9)
    named = {warning.message.partition(" ")[0]: warning.message for warning in result.warnings}
    assert named["pis"].startswith("pis (Raspberry Pi 5 8GB) misses a target: a further token takes")
    assert "the target is 20 ms" in named["pis"]
    assert [each.hardware.name for each in plan(racks, owned=True, top=1).plans] == ["h100"]
    assert "lab is ranked after the first 1 plans: --top 0 shows all" in [
        warning.message for warning in plan(racks, owned=True, top=1).warnings
    ]


def test_kinds_of_nodes_of_one_rack_have_their_own_rates(racks):
    kinds = {each.hardware.name: each.hardware for each in resolve_hardware_alternatives("pis", racks)}
    assert {name: (each.node_limit, each.accelerator.bandwidth_gb_s) for name, each in kinds.items()} == {
        "pis (Compute Blade CM4 8GB)": (2, 12.8),
        "pis (Raspberry Pi 5 8GB)": (3, 17.1),
    }
    fastest, slowest = plan(racks, on="pis").plans
    assert fastest.hardware.name == "pis (Raspberry Pi 5 8GB)"
    assert fastest.tokens_per_s > 2 * slowest.tokens_per_s
    assert write_plan_to_stack(fastest, "own", racks).startswith("wrote stacks/Pulumi.own.yaml: rack pis;")


def test_server_without_an_accelerator_is_refused_by_name(racks, tmp_path):
    with pytest.raises(InputError, match="xeon is made of old xeon, which has no accelerator or board"):
        resolve_hardware("xeon", racks)
    (tmp_path / "alone").mkdir()
    with pytest.raises(InputError, match="xeon is made of old xeon"):
        plan(make_project(tmp_path / "alone", ["xeon"]), owned=True)


def test_plain_capital_and_newer_cores_count_in_the_tco(racks):
    cost = "cost: {capital_usd: 900, life_years: 4, watts_per_node: 5, usd_per_kwh: 0.3}"
    body = f"machine: Raspberry Pi 5 8GB\nnodes: pi01\n{cost}"
    (racks / "inventory/pi5.yaml").write_text(RACK.format(name="pi5", kind="bench", body=body))
    own = fleet.load_rack(racks / "inventory/pi5.yaml", racks)
    rack = tco.compute_rack_cost(own)
    assert rack.purchase_price_usd == 900
    assert "capital" in own.cost.assumed_figure_names
    assert (own.usd_per_hour_as_of, own.usd_per_hour_source) == (
        None,
        "a number in the file, without a source",
    )
    machines = {each.machine for each in tco.find_cloud_alternatives(rack, tco.CloudMachineRequest())}
    assert "c6g.xlarge" in machines  # Neoverse N1, made from the core of the Pi 5
    assert "a1.xlarge" not in machines  # the core of the Pi 4

"""Racks of unlike servers: each entry's own price and power, the same in every command, and a warning without them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gpufleet import fleet
from gpufleet.cost.analysis import tco
from gpufleet.errors import InputError
from gpufleet.nodes.declaration import build_rack_report, list_declared_nodes
from gpufleet.operations import validation
from gpufleet.sizing.hardware_resolver import resolve_hardware_alternatives

RACK = """\
plugin: gpufleet.fleet.rack
name: mixed
kind: servers
site: lab
nodes:
  - {{name: gpu01, machine: DGX H100{first}}}
  - {{name: "gpu[02-03]", machine: lab server, accelerators: [{{model: L40S, count: 4}}]{second}}}
{cost}
"""
SHARED = "life_years: 4, watts_per_node: 1000, usd_per_kwh: 0.25"


def write_rack(root, *, first="", second="", cost=f"cost: {{{SHARED}}}"):
    (root / "inventory").mkdir(exist_ok=True)
    (root / "Pulumi.yaml").write_text("name: own\nruntime: python\nmain: stacks\n")
    path = root / "inventory/mixed.yaml"
    path.write_text(RACK.format(first=first, second=second, cost=cost))
    return path


def load(root, **parts):
    return fleet.load_rack(write_rack(root, **parts), root)


OWN = {
    "first": ", cost: {capital_usd: {value: 350400, source: invoice 1, as_of: 2026-01-02}, watts_per_node: 10000}",
    "second": ", cost: {capital_usd: {value: 70080, source: invoice 2, as_of: 2026-03-04}}",
}
# 350,400 / 4 years = 10 USD/h, 10 kW * 0.25 = 2.50; each of two: 35,040 / 4 years = 1 USD/h, 1 kW * 0.25
USD = {"gpu01": 12.5, "gpu02": 1.25, "gpu03": 1.25}


def test_each_entry_has_its_own_price_in_every_command(tmp_path):
    rack = load(tmp_path, **OWN)
    assert rack.usd_per_hour_by_node == pytest.approx(USD)
    assert rack.usd_per_hour == pytest.approx(15)
    assert rack.usd_per_hour_source == "capital: gpu01: invoice 1, gpu[02-03]: invoice 2"
    assert rack.usd_per_hour_as_of == "2026-01-02"
    nodes = {node.name: node.usd_per_hour for node in list_declared_nodes(rack)}
    report = build_rack_report(rack, datetime(2026, 11, 28, tzinfo=UTC))
    observed = {each.name: each.declared["usd_per_hour"] for each in report.observations}
    assert nodes == observed == pytest.approx(USD)
    own = tco.compute_rack_cost(rack)
    assert own.purchase_price_usd == 420480
    assert own.total_usd_per_month == pytest.approx(15 * 730)
    sized = {
        each.hardware.accelerator.name: each.hardware.offers[0].usd_per_hour
        for each in resolve_hardware_alternatives("mixed", tmp_path)
    }
    assert sized == pytest.approx({"H100 SXM5 80GB": 12.5, "L40S": 1.25})
    assert fleet.list_rack_warnings(rack, tmp_path) == []


def test_rest_is_shared_and_euros_are_converted_at_the_racks_rate(tmp_path):
    cost = (
        f"cost: {{{SHARED}, capital_eur: 35040, usd_per_eur: 2.0, network_usd_per_month: 2190,"
        " pue: 2.0, residual_fraction: 0.5}"
    )
    rack = load(tmp_path, first=", cost: {capital_eur: 175200}", cost=cost)
    assert rack.usd_per_hour_source == "a number in the file, without a source"
    # gpu01: 350,400 USD * 0.5 / 4 years = 5; the others 35,040 each * 0.5 = 0.5; power 0.50, network 1 USD/h each
    assert rack.usd_per_hour_by_node == pytest.approx({"gpu01": 6.5, "gpu02": 2.0, "gpu03": 2.0})
    assert rack.usd_per_hour == pytest.approx(sum(rack.usd_per_hour_by_node.values()))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "cost: exactly one of capital_usd and capital_eur must be set"),
        (
            {"first": ", cost: {capital_usd: 5}", "cost": ""},
            "6: nodes[0].cost: gpu01 has a cost, but the rack does not say what power costs; add cost: {life_years",
        ),
        (
            {"first": ", cost: {capital_usd: 5}"},
            "7: nodes[1]: gpu[02-03] has no capital; add cost: {capital_usd: …}",
        ),
        (
            {**OWN, "cost": f"cost: {{{SHARED}, capital_usd: 9}}"},
            "8: cost.capital_usd: is the price of no node: every entry has its own; remove it",
        ),
        (
            {"first": ", cost: {capital_eur: 5}", "second": OWN["second"]},
            "capital_eur has no exchange rate; add usd_per",
        ),
        (
            {"first": ", cost: {}"},
            "6: nodes[0].cost: is empty; give capital_usd, capital_eur or watts_per_node",
        ),
        (
            {"first": ", cost: {capital_usd: 1, capital_eur: 2}"},
            "has capital_usd and capital_eur; give one of them",
        ),
        ({"first": ", cost: {pue: 1.2}"}, "6: nodes[0].cost.pue: unknown key"),
        ({"first": ", cost: {capital_usd: -1}"}, "is negative"),
    ],
)
def test_wrong_cost_of_an_entry_is_one_line(tmp_path, parts, message):
    with pytest.raises(InputError) as error:
        load(tmp_path, **parts)
    assert message in str(error.value)


def test_one_price_for_unlike_machines_is_a_warning_with_its_line(tmp_path):
    rack = load(tmp_path, cost=f"cost: {{{SHARED}, capital_usd: 540000}}")
    assert len(set(rack.usd_per_hour_by_node.values())) == 1
    (warning,) = validation.validate_project(tmp_path).warnings
    assert warning.text == (
        "inventory/mixed.yaml:8: cost: one price and power for unlike machines (gpu01: DGX H100; gpu02: lab server "
        "with 4 x L40S); give cost: {capital_usd: …, watts_per_node: …} in the entries"
    )
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks/Pulumi.dev.yaml").write_text(
        "config:\n  gpufleet:fleet:\n    owner: me\n    racks: [{name: mixed}]\n"
    )
    notes = fleet.list_planning_notes(fleet.load_fleet("dev", tmp_path))
    assert [note.partition(" for ")[0] for note in notes] == ["rack mixed: one price and power"]
    assert [each.file for each in validation.validate_project(tmp_path).warnings] == ["inventory/mixed.yaml"]


def test_sources_say_which_price_has_none(tmp_path):
    rack = load(tmp_path, first=OWN["first"], second=", cost: {capital_usd: 70080}")
    assert rack.usd_per_hour_source == (
        "capital: assumption, gpu01: invoice 1, gpu[02-03]: a number in the file, without a source"
    )
    assert rack.usd_per_hour_as_of == "2026-01-02"


def test_power_of_unlike_machines_is_asked_for_too(tmp_path):
    rack = load(tmp_path, **{**OWN, "first": OWN["first"].replace(", watts_per_node: 10000", "")})
    assert [each.key for each in fleet.list_rack_warnings(rack, tmp_path)] == ["cost"]


def test_files_that_a_rack_names_are_looked_for(tmp_path):
    path = write_rack(tmp_path, cost="boot: {ssh: {stack: nowhere}}")
    path.write_text(
        path.read_text()
        + f"bmc:\n  protocol: redfish\n  network: {{cidr: 10.9.8.0/24}}\n  ca_file: {tmp_path}/ca.pem\n"
    )
    texts = [each.text for each in validation.validate_project(tmp_path).warnings]
    assert texts == [
        (
            "inventory/mixed.yaml:8: boot.ssh.stack: stacks/Pulumi.nowhere.yaml does not exist; "
            "name a stack of this project: its keys log in"
        ),
        (
            f"inventory/mixed.yaml:12: bmc.ca_file: {tmp_path}/ca.pem is not on this machine; "
            "put the certificate of the BMCs' authority there; nothing switches power without it"
        ),
    ]
    (tmp_path / "ca.pem").write_text("x")
    assert len(validation.validate_project(tmp_path).warnings) == 1

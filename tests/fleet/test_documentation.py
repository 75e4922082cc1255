"""Test that docs/spec.md matches the code: examples load, errors are real, every key is documented."""

from __future__ import annotations

import re

import pytest

from gpufleet import fleet
from gpufleet.errors import InputError
from gpufleet.fleet.spec import FleetSpec

SHOWN = [
    ("purchase: {kind: spot", "purchse: {kind: spot"),
    ("g5.2xlarge ", "g5.2xlrge "),
    ("count: 1", "count: -1"),
    ("on_eviction: delete", "reservation: cr-1"),
    ("machine: Standard_NC4as_T4_v3", "machine: Standard_NC6s_v3"),
]


@pytest.fixture(scope="module")
def page(repo_root):
    return (repo_root / "docs/spec.md").read_text()


@pytest.fixture(scope="module")
def examples(page):
    return re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_example_stack_loads(examples, repo_root, tmp_path):
    file = tmp_path / "Pulumi.example.yaml"
    file.write_text(examples[0])
    declared = fleet.load_fleet("example", repo_root, file)
    assert [pool.name for pool in declared.pools] == ["train", "serve"]


def test_example_rack_loads(examples, tmp_path):
    file = tmp_path / "rack-7.yaml"
    file.write_text(examples[1])
    rack = fleet.load_rack(file)
    assert [node.slot for node in rack.nodes] == [1, 2, 3, 4, 5, 6, 7]
    assert rack.nodes[6].serial == "10000000c0ffee07"


def test_example_of_unlike_servers_has_their_own_prices(examples, tmp_path):
    (example,) = [each for each in examples if "lab server" in each and "\ncost:" in each]
    file = tmp_path / "mixed.yaml"
    head = "plugin: gpufleet.fleet.rack\nname: mixed\nkind: servers\nsite: lab\n"
    file.write_text(head + example)
    # 270,000 and 45,000 USD over four years; 10.2 and 2 kW at 0.30
    assert fleet.load_rack(file).usd_per_hour_by_node == pytest.approx(
        {"gpu01": 10.76548, "gpu02": 1.88425, "gpu03": 1.88425}, abs=1e-5
    )


def test_example_rack_loads_with_the_shipped_racks(examples, project):
    (project / "inventory/rack-7.yaml").write_text(examples[1])
    assert fleet.load_fleet("production", project).stack == "production"


@pytest.mark.parametrize(("old", "new"), SHOWN)
def test_documented_error_message_is_the_printed_one(page, project, old, new):
    stack = project / "stacks/Pulumi.dev.yaml"
    stack.write_text(stack.read_text().replace(old, new, 1))
    with pytest.raises(InputError) as excinfo:
        fleet.load_fleet("dev", project)
    assert str(excinfo.value) in page.splitlines()


@pytest.mark.parametrize(
    "model", [FleetSpec, fleet.Pool, fleet.NodeTemplate, fleet.Workstation, fleet.SshAccess]
)
def test_every_key_is_documented(page, model):
    assert [name for name in model.model_fields if f"`{name}`" not in page] == []

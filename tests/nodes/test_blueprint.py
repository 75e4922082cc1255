"""Test that a node's template reaches Ansible as small variables, for any source of the node."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from gpufleet import fleet
from gpufleet.errors import InputError
from gpufleet.nodes import Registry, build_ansible_inventory, build_rack_report
from gpufleet.nodes.blueprint import build_blueprint_variables
from gpufleet.nodes.inventory import (
    assemble_ansible_inventory,
    make_node_blueprint_lookup,
    make_spot_lookup,
)
from gpufleet.nodes.template_vars import main

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
STACK = """\
config:
  gpufleet:fleet:
    owner: ml
    racks: [{name: r, template: serve}]
    templates:
      serve:
        hardware: {storage: {layout: single}, hugepages: {size: 1G, count: 4}, mtu: 9000}
        software:
          driver: {vendor: nvidia, branch: "580"}
          cuda: "13.0"
          container_toolkit: true
          mig: {1g.10gb: 7}
        application:
          volumes: [{name: models, size_gib: 1}, {name: fast, size_gib: 1, kind: nvme}]
          container_files: [containers/llm/compose.yaml]
"""
COMPOSE = "services: {server: {image: a, gpus: all, command: '{{ x }}'}}\n"
RACK = """\
plugin: gpufleet.fleet.rack
name: r
kind: bench
site: lab
machine: Raspberry Pi 5 8GB
accelerators: [{model: H100 SXM5 80GB, count: 8}]
nodes: node[1-2]
"""


@pytest.fixture
def project(tmp_path):
    """Lay out a project of one stack with one rack."""
    files = {
        "stacks/Pulumi.lab.yaml": STACK,
        "inventory/r.yaml": RACK,
        "containers/llm/compose.yaml": COMPOSE,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def variables(project):
    """Give the variables of one of the rack's nodes as a rehearsal shows them."""
    return build_ansible_inventory(project, f"sqlite:///{project / 'none.db'}", rehearsal="lab").hosts[0].vars


def test_software_variables_can_be_read_by_the_driver_plan(variables):
    assert variables["gpufleet_software"] == {
        "driver": {"vendor": "nvidia", "branch": "580"},
        "cuda": "13.0",
        "rocm": None,
        "container_engine": "docker",
        "container_toolkit": True,
        "mig": [{"devices": "all", "profiles": {"1g.10gb": 7}}],
    }


def test_hardware_variables_can_be_read_by_the_base_roles(variables):
    assert variables["gpufleet_hardware"] == {
        "storage": {"layout": "single", "mount": "/scratch", "filesystem": "ext4"},
        "hugepages": {"size": "1G", "count": 4},
        "mtu": 9000,
    }


def test_application_variables_are_the_files_and_the_folders_of_the_volumes(variables):
    assert variables["gpufleet_application"] == {
        "container_files": [{"name": "llm.yaml", "content": COMPOSE}],
        "volumes": ["/var/lib/gpufleet/volumes/models", "/scratch/fast"],
    }


def test_template_without_a_driver_leaves_it_to_the_cards():
    software = build_blueprint_variables(fleet.Blueprint(burn_in="quick"))["gpufleet_software"]
    assert software["driver"] == {"vendor": "auto", "branch": "auto"}


def test_burn_in_profile_of_the_template_reaches_the_role():
    variables = build_blueprint_variables(fleet.Blueprint(burn_in="standard"))
    assert variables["gpufleet_burn_in_profile"] == "standard"
    assert "gpufleet_burn_in_profile" not in build_blueprint_variables(fleet.Blueprint(burn_in="quick"))


def test_only_declared_choices_become_variables():
    assert set(build_blueprint_variables(fleet.Blueprint())) == {"gpufleet_software"}
    built = fleet.Blueprint(
        software=fleet.SoftwareProfile(driver={"vendor": "nvidia", "module": "open"}, origin="vendor")
    )
    software = build_blueprint_variables(built)["gpufleet_software"]
    assert (software["driver"]["module"], software["origin"]) == ("open", "vendor")


def test_stack_slug_of_a_cloud_node_finds_its_template(project, registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    (node,) = registry.list_nodes()
    cloud = replace(node, stack="LAB", template="serve")
    assert (
        "gpufleet_application"
        in assemble_ansible_inventory([cloud], [], blueprint_lookup=make_node_blueprint_lookup(project))
        .hosts[0]
        .vars
    )


def test_only_nodes_of_a_declared_spot_pool_are_marked_as_spot(project, registry, lab):
    pools = f"""
    ssh: {{authorized_keys: [{KEY}]}}
    pools:
      - {{name: cheap, cloud: gcp, region: us-central1, zones: [us-central1-a], machine: g2-standard-4, count: 1,
          purchase: {{kind: spot}}}}
      - {{name: sure, cloud: gcp, region: us-central1, zones: [us-central1-a], machine: g2-standard-4, count: 1,
          purchase: {{kind: on_demand}}}}
"""
    (project / "stacks/Pulumi.lab.yaml").write_text(STACK.rstrip() + pools)
    registry.apply_source_report(lab.rack(lab.blade(1)))
    (node,) = registry.list_nodes()
    load = partial(fleet.load_fleet, root=project)
    marks = {}
    for name in ("cheap", "sure", "unknown", None):
        declared = replace(node, stack="lab", cloud="gcp", pool=name)
        inventory = assemble_ansible_inventory([declared], [], spot_lookup=make_spot_lookup(project, load))
        marks[name] = inventory.hosts[0].vars.get("gpufleet_is_spot")
    assert marks == {"cheap": True, "sure": None, "unknown": None, None: None}


def test_undeclared_template_is_reported_by_name(project, registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    (node,) = registry.list_nodes()
    for stack, template in (("lab", "gone"), ("other", "serve")):
        inventory = assemble_ansible_inventory(
            [replace(node, stack=stack, template=template)],
            [],
            blueprint_lookup=make_node_blueprint_lookup(project),
        )
        assert (
            f"no stack of this project declares these templates: blade01 ({template})" in inventory.notes[0]
        )
        assert "gpufleet_software" not in inventory.hosts[0].vars


def test_invalid_stack_of_a_node_stops_the_inventory(project):
    url = f"sqlite:///{project / 'r.db'}"
    with Registry(url) as registry:
        (use,) = fleet.load_fleet("lab", project).racks
        registry.apply_source_report(build_rack_report(use.rack, datetime.now(UTC), "lab", use.template))
    (project / "stacks/Pulumi.lab.yaml").write_text(STACK.replace("owner: ml", "ownr: ml"))
    with pytest.raises(InputError, match="did you mean 'owner'"):
        build_ansible_inventory(project, url)


def test_variables_of_a_template_are_printed_for_an_image(repo_root, monkeypatch, capsys):
    monkeypatch.chdir(repo_root)
    assert main(["production", "trainer"]) == 0
    variables = json.loads(capsys.readouterr().out)
    assert variables["gpufleet_software"]["driver"] == {"vendor": "nvidia", "branch": "auto"}


@pytest.mark.parametrize(
    ("arguments", "message"), [(["production", "x"], "template 'x' not found"), ([], "give a stack")]
)
def test_missing_template_is_reported_in_one_line(repo_root, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(repo_root)
    assert main(arguments) == 2
    assert message in capsys.readouterr().err

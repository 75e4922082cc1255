from __future__ import annotations

import json

import pytest

from gpufleet.nodes import NodeIdentity, NodeObservation, Registry

BLADES = {f"blade{n:02}" for n in range(1, 21)}


def hosts(inventory):
    return set(inventory["_meta"]["hostvars"])


def configure(small, text):
    (small / "inventory" / "gpufleet.yaml").write_text(f"plugin: gpufleet.fleet.nodes\n{text}")


@pytest.fixture
def registry(rack_project):
    """Give the project's own registry, in which production has been synced without its clouds."""
    from datetime import UTC, datetime

    from gpufleet.operations.sync import register_declared_racks

    with Registry(f"sqlite:///{rack_project / '.gpufleet' / 'registry.db'}") as opened:
        register_declared_racks(opened, rack_project, "production", datetime.now(UTC))
        yield opened


def test_all_blades_are_listed_without_an_ansible_cfg_and_without_a_warning(ansible):
    result = ansible("ansible-inventory", "-i", "inventory", "--list")
    assert (result.returncode, result.stderr) == (0, "")
    inventory = json.loads(result.stdout)
    assert hosts(inventory) >= BLADES
    assert set(inventory["rack_blades_1"]["hosts"]) == BLADES


def test_single_rack_file_is_an_inventory(ansible):
    result = ansible("ansible-inventory", "-i", "inventory/blades-1.yaml", "--list")
    assert hosts(json.loads(result.stdout)) == BLADES


def test_rehearsal_lists_only_the_blades_of_its_stack(list_inventory):
    inventory = list_inventory(GPUFLEET_REHEARSAL="production")
    assert set(inventory["new_blades"]["hosts"]) == BLADES


def test_group_of_new_blades_exists_when_empty(rack_project, ansible, registry):
    for node in registry.list_nodes():
        registry.advance_node(node.id, "burn_in", "test")
        registry.move_node(node.id, "ready", "test")
    command = ("ansible-inventory", "-i", "inventory", "--graph", "new_blades")
    result = ansible(*command, GPUFLEET_REHEARSAL="production")
    assert (result.returncode, result.stdout.strip()) == (0, "@new_blades:")


@pytest.mark.parametrize(
    ("rack_text", "message"),
    [
        ("kind: blades", "kind: bladez"),
        ("nodes: blade[01-20]", "nodes: blade[01-20"),
        ("plugin: gpufleet.fleet.rack", "# plugin lost"),
        ("plugin: gpufleet.fleet.rack", "plugin: [gpufleet"),
    ],
)
def test_invalid_rack_stops_ansible_with_an_error(rack_project, ansible, rack_text, message):
    rack = rack_project / "inventory" / "blades-1.yaml"
    rack.write_text(rack.read_text().replace(rack_text, message))
    result = ansible("ansible-inventory", "-i", "inventory", "--list")
    assert result.returncode != 0
    assert "inventory/blades-1.yaml" in result.stderr
    assert result.stdout.strip() == ""


def test_unavailable_registry_stops_ansible_with_an_error(rack_project, ansible):
    bad = rack_project / "bad.db"
    bad.write_text("this is not a database, and long enough to be read as one" * 9)
    result = ansible(
        "ansible-inventory", "-i", "inventory", "--list", GPUFLEET_DATABASE_URL=f"sqlite:///{bad}"
    )
    assert result.returncode != 0
    assert "the registry sqlite" in result.stderr


def test_state_id_and_volumes_from_the_registry_are_host_variables_and_a_template_is_not(
    list_inventory, registry
):
    registry.advance_node("blade07", "commissioning", "test")
    hostile = {"kind": "cloud_vm", "cloud": "aws", "pool": "{{ lookup('pipe', 'id') }}"}
    outcome = registry.apply_observation(
        NodeObservation("pulumi:dev", "evil", NodeIdentity(instance_id="i-1"), declared=hostile)
    )
    assert "pool that is not well-formed" in outcome.bad[0]
    facts = {
        "kind": "cloud_vm",
        "cloud": "gcp",
        "pool": "serve",
        "stack": "production",
        "template": "llm-server",
    }
    identity = NodeIdentity(instance_id="7")
    registry.apply_observation(NodeObservation("gcp:production", "serve-1", identity, declared=facts))
    host_variables = list_inventory()["_meta"]["hostvars"]
    assert host_variables["blade07"]["gpufleet_state"] == "commissioning"
    assert host_variables["blade07"]["gpufleet_id"] == registry.get_node("blade07").id
    assert "gpufleet_pool" not in host_variables["evil"]
    assert host_variables["serve-1"]["gpufleet_volumes"] == [
        {
            "mount": "/scratch",
            "devices": ["/dev/disk/by-id/google-local-nvme-ssd-*"],
            "count": 8,
            "layout": "raid0",
            "filesystem": "ext4",
        }
    ]


def test_compose_groups_and_keyed_groups_work(rack_project, list_inventory, ansible):
    configure(
        rack_project,
        "compose: {shelf: \"'row-' ~ gpufleet_slot\"}\n"
        "groups: {first_half: gpufleet_slot | int <= 10}\n"
        "keyed_groups: [{prefix: site, key: gpufleet_rack}]\n",
    )
    inventory = list_inventory(GPUFLEET_REHEARSAL="production")
    alone = ansible("ansible-inventory", "-i", "inventory", "--host", "blade07")
    assert json.loads(alone.stdout)["shelf"] == "row-7"
    assert "blade10" in inventory["first_half"]["hosts"]
    assert "blade11" not in inventory["first_half"]["hosts"]
    assert set(inventory["site_blades_1"]["hosts"]) == BLADES


def test_strict_mode_refuses_undefined_composed_variables(rack_project, ansible):
    configure(rack_project, "strict: true\ncompose: {x: no_such_variable}\n")
    result = ansible("ansible-inventory", "-i", "inventory/gpufleet.yaml", "--list")
    assert "Could not set x" in result.stderr


def test_cache_belongs_to_one_registry(rack_project, list_inventory, registry, tmp_path):
    configure(
        rack_project,
        f"cache: true\ncache_plugin: ansible.builtin.jsonfile\ncache_connection: {tmp_path}/cache\n",
    )
    assert list_inventory()["_meta"]["hostvars"]["blade07"]["gpufleet_id"]
    other = list_inventory(GPUFLEET_DATABASE_URL=f"sqlite:///{tmp_path}/other.db")
    assert "gpufleet_id" not in other["_meta"]["hostvars"]["poc-blade01"]
    assert len(list((tmp_path / "cache").iterdir())) == 2

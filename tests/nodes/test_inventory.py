from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet import fleet
from gpufleet.errors import InputError
from gpufleet.fleet import load_racks
from gpufleet.nodes import Node, Registry, build_ansible_inventory, is_rehearsal_address
from gpufleet.nodes.declaration import NEVER
from gpufleet.nodes.host import ansible_group_name
from gpufleet.nodes.inventory import assemble_ansible_inventory
from gpufleet.nodes.private_access import build_private_ssh_arguments


def hosts(inventory):
    return {host.name: host for host in inventory.hosts}


@pytest.fixture
def missing_registry_url(tmp_path):
    """Give the URL of a registry that does not exist."""
    return f"sqlite:///{tmp_path / 'none.db'}"


def test_unsynced_racks_are_listed_as_expected(repo_root, missing_registry_url, tmp_path):
    hosts_by_name = hosts(build_ansible_inventory(repo_root, missing_registry_url))
    assert {f"blade{n:02}" for n in range(1, 21)} <= set(hosts_by_name)
    assert hosts_by_name["blade07"].vars["gpufleet_state"] == "expected"
    assert {"new_blades", "new_nodes", "rack_blades_1", "state_expected"} <= set(
        hosts_by_name["blade07"].groups
    )
    assert not (tmp_path / "none.db").exists()


def test_racks_of_other_stacks_are_left_out_once_a_stack_is_registered(project, tmp_path):
    from datetime import UTC, datetime

    from gpufleet.operations.sync import register_declared_racks

    rack = project / "inventory/spare.yaml"  # no stack names it
    text = (project / "inventory/bench-1.yaml").read_text()
    text = text.replace("10.20.2.", "10.20.9.")
    rack.write_text(text.replace("bench-1", "spare").replace("bench01", "spare01"))
    url = f"sqlite:///{tmp_path}/r.db"
    with Registry(url) as registry:
        register_declared_racks(registry, project, "poc", datetime.now(UTC))
    inventory = build_ansible_inventory(project, url)
    assert {host.rack for host in inventory.hosts} == {"blades-poc", "spare"}
    assert set(inventory.racks) == {"bench-1", "blades-1", "blades-poc", "spare"}  # all were read
    with Registry(url) as registry:  # a run on an unregistered host
        register_declared_racks(registry, project, None, datetime.now(UTC))
        assert {node.rack for node in registry.list_nodes()} == {"blades-poc", "spare"}


def test_rehearsal_lists_only_racks_of_its_stack(repo_root, missing_registry_url):
    hosts_by_name = hosts(build_ansible_inventory(repo_root, missing_registry_url, rehearsal="production"))
    assert set(hosts_by_name) == {f"blade{n:02}" for n in range(1, 21)} | {"bench01"}
    assert hosts_by_name["blade01"].vars["gpufleet_template"] == "ci-runner"


def test_bench_is_a_new_node_but_not_a_new_blade(repo_root, missing_registry_url):
    groups = hosts(build_ansible_inventory(repo_root, missing_registry_url))["bench01"].groups
    assert "new_nodes" in groups
    assert "new_blades" not in groups
    assert {"gpu_model_radeon_rx_460", "gpu_vendor_amd", "kind_pi_gpu_bench"} <= set(groups)


def test_board_must_match_the_serial_in_the_rack_file(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    known = replace(registry.list_nodes()[0], serial="10000000aaaaaaaa")
    slot = replace(known, id="", serial="10000000bbbbbbbb")
    assert (
        assemble_ansible_inventory([known], [slot]).hosts[0].all_variables["gpufleet_serial"]
        == "10000000bbbbbbbb"
    )
    assert (
        assemble_ansible_inventory([known], [replace(slot, serial=None)])
        .hosts[0]
        .all_variables["gpufleet_serial"]
        == "10000000aaaaaaaa"
    )


def test_ready_blade_leaves_the_group_of_new_blades(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    registry.advance_node("blade01", "burn_in", "test")
    assert "new_blades" in assemble_ansible_inventory(registry.list_nodes(), []).hosts[0].groups
    registry.move_node("blade01", "ready", "test")
    inventory = assemble_ansible_inventory(registry.list_nodes(), [])
    assert "new_blades" in inventory.groups
    assert "new_blades" not in inventory.hosts[0].groups
    assert "state_ready" in inventory.hosts[0].groups


def test_retired_nodes_are_omitted_and_quarantined_nodes_listed(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2)))
    registry.move_node("blade01", "retired", "sold")
    registry.advance_node("blade02", "commissioning", "test")
    registry.move_node("blade02", "quarantined", "smoke")
    (host,) = assemble_ansible_inventory(registry.list_nodes(), []).hosts
    assert (host.name, "state_quarantined" in host.groups) == ("blade02", True)


def test_lost_nodes_are_reported_by_name(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2)))
    registry.apply_source_report(lab.rack(lab.blade(1, at=1), at=1))
    inventory = assemble_ansible_inventory(registry.list_nodes(), [])
    assert [host.name for host in inventory.hosts] == ["blade01"]
    assert "blade02" in inventory.notes[0]
    with_missing = hosts(assemble_ansible_inventory(registry.list_nodes(), [], include_missing=True))
    assert with_missing["blade02"].groups[-1] == "missing"


def test_nodes_with_the_same_name_are_all_listed(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1, name="twin"), lab.blade(2, name="twin")))
    names = {host.name for host in assemble_ansible_inventory(registry.list_nodes(), []).hosts}
    assert names == {f"twin-{node.id}" for node in registry.list_nodes()}


def test_single_rack_file_gives_the_same_hosts(repo_root, tmp_path):
    from datetime import UTC, datetime

    from gpufleet.operations.sync import register_declared_racks

    url = f"sqlite:///{tmp_path}/r.db"
    with Registry(url) as registry:
        register_declared_racks(registry, repo_root, "production", datetime.now(UTC))
        registry.advance_node("blade03", "commissioning", "test")
    all_hosts = hosts(build_ansible_inventory(repo_root, url))
    alone = hosts(build_ansible_inventory(repo_root, url, rack="blades-1"))
    assert len(alone) == 20
    assert all(all_hosts[name] == host for name, host in alone.items())


def test_host_has_at_most_twelve_variables(repo_root, missing_registry_url):
    assert all(
        len(host.all_variables) <= 12
        for host in build_ansible_inventory(repo_root, missing_registry_url).hosts
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes: [", "is not YAML"),
        ("nodes: blade[01-02]\nmachine: x\n", "begin with plugin: gpufleet.fleet.rack"),
    ],
)
def test_invalid_rack_file_is_reported_with_name_and_remedy(tmp_path, text, message):
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/r9.yaml").write_text(text)
    with pytest.raises(InputError, match=message) as excinfo:
        load_racks(tmp_path / "inventory")
    assert "inventory/r9.yaml" in str(excinfo.value)


def test_ordinary_inventory_file_is_left_to_ansible(tmp_path):
    (tmp_path / "lab.yaml").write_text("all:\n  hosts:\n    server9:\n")
    assert load_racks(tmp_path) == {}


def test_group_names_are_valid_for_ansible():
    assert ansible_group_name("machine", "Compute Blade CM4 8GB") == "machine_compute_blade_cm4_8gb"
    assert ansible_group_name("region", "us-east-1") == "region_us_east_1"


def test_slot_that_was_not_booted_is_unreachable_in_a_rehearsal(repo_root, missing_registry_url):
    hosts_by_name = hosts(build_ansible_inventory(repo_root, missing_registry_url, rehearsal="production"))
    assert hosts_by_name["blade01"].vars["ansible_host"].startswith("10.")
    assert hosts_by_name["blade01"].vars["ansible_ssh_common_args"] == "-o ProxyCommand=false"


@pytest.mark.parametrize(
    ("address", "can"), [("198.18.1.11", True), ("10.20.1.11", False), ("", False), (None, False)]
)
def test_only_addresses_of_the_test_range_count_as_rehearsed(address, can):
    assert is_rehearsal_address(address) is can


def test_name_declared_by_two_racks_is_refused(tmp_path, missing_registry_url):
    text = "plugin: gpufleet.fleet.rack\nname: {}\nkind: blades\nsite: lab\nmachine: Compute Blade CM4 8GB\nnodes: {}\n"
    (tmp_path / "inventory").mkdir()
    for name in ("r1", "r2"):
        (tmp_path / f"inventory/{name}.yaml").write_text(text.format(name, "blade[01-06]"))
    with pytest.raises(
        InputError, match=r"r2.yaml:6: nodes: blade\[01-06\] is also declared in inventory/r1.yaml"
    ):
        build_ansible_inventory(tmp_path, missing_registry_url)


PRIVATE = {
    "owner": "research",
    "ssh": {"access": "private"},
    "gcp": {"project": "gpu-fleet-1"},
    "pools": [
        {"name": "train", "cloud": "aws", "region": "us-east-1", "machine": "g5.2xlarge", "count": 1,
         "purchase": {"kind": "on_demand"}},
        {"name": "serve", "cloud": "gcp", "region": "us-central1", "zones": ["us-central1-a"],
         "machine": "a2-highgpu-1g", "count": 1, "purchase": {"kind": "on_demand"}},
    ],
}  # fmt: skip


def private_arguments(cloud="aws", access="private", account=None, **changes):
    spec = {**PRIVATE, "ssh": {"access": access}}
    if account:
        pools = [{**pool, "account": "other"} for pool in PRIVATE["pools"] if pool["cloud"] == cloud]
        spec |= {"pools": pools, "accounts": {"other": {cloud: account}}}
    declared = fleet.Fleet.from_spec(fleet.spec.FleetSpec.model_validate(spec), "dev", ())
    pool, name = {"aws": ("train", "dev-train-1"), "gcp": ("serve", "dev-serve-1")}[cloud]
    values = {"name": name, "instance_id": "i-0a1b2c3d4e5f60718", "pool": pool, "cloud": cloud, **changes}
    node = Node(
        id="n-000000000000", state="discovered", state_since=NEVER, state_reason="", kind="cloud_vm", **values
    )
    return build_private_ssh_arguments(declared, node)


def test_private_nodes_of_an_account_are_reached_with_its_keys():
    assert private_arguments(account={"profile": "research"}).endswith(" --profile research'")
    assert " --project=acme-lab " in private_arguments("gcp", account={"project": "acme-lab"})


def test_private_nodes_are_reached_through_their_clouds_own_path():
    assert "aws ssm start-session --region us-east-1 --target i-0a1b2c3d4e5f60718 " in private_arguments()
    google = private_arguments("gcp")
    assert "start-iap-tunnel dev-serve-1 %p " in google
    assert "--project=gpu-fleet-1 --zone=us-central1-a" in google
    assert private_arguments(access="public") is None


@pytest.mark.parametrize(
    "hostile",
    [{"instance_id": "i-0a1b2c3d; id"}, {"instance_id": "i-0a1b2c3d'"}, {"instance_id": None}, {"pool": "x"}],
)
def test_what_a_cloud_reports_cannot_add_to_the_command(hostile):
    assert private_arguments(**hostile) is None
    assert private_arguments("gcp", name="dev'; id; '") is None

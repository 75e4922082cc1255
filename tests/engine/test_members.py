"""Members of groups on three clouds, from the real engine and the simulated clouds to Ansible's inventory."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from gpufleet.remote.shards.known_hosts import unwrap_unsafe_value

pytestmark = [pytest.mark.engine, pytest.mark.slow]

# One pool on each cloud is a group: the shipped AWS pool already is, because it has a fallback.
GROUPS = """\
      - name: farm
        cloud: gcp
        region: us-central1
        zones: [us-central1-a]
        machine: g2-standard-4
        count: {min: 1, desired: 2, max: 3}
        purchase: {kind: on_demand}
        template: llm-server
      - name: mill
        cloud: azure
        region: eastus
        machine: Standard_NC4as_T4_v3
        count: 2
        group: true
        purchase: {kind: on_demand}
        template: trainer
"""


def read_hosts(shell):
    """Return the cloud instances of Ansible's inventory by name, with plain values."""
    listed = json.loads(shell.run("ansible-inventory -i inventory --list").stdout)["_meta"]["hostvars"]
    plain = {
        name: {key: unwrap_unsafe_value(value) for key, value in host.items()}
        for name, host in listed.items()
    }
    return {name: host for name, host in plain.items() if host.get("gpufleet_kind") == "cloud_vm"}


@pytest.fixture(scope="module")
def members(engine_project, rehearse_stack):
    """Rehearse and build the dev stack with two more pools, under a name of its own."""
    text = (engine_project / "stacks/Pulumi.dev.yaml").read_text()
    path = engine_project / "stacks/Pulumi.members.yaml"
    path.write_text(text.replace("    templates:\n", f"{GROUPS}    templates:\n", 1))
    shell = rehearse_stack("members")
    shell.up()
    yield shell
    path.unlink()


def test_nodes_and_members_on_three_clouds_are_hosts_of_ansible(members):
    synced = json.loads(members.run("gpufleet nodes sync -s members --json").stdout)
    hosts = read_hosts(members)
    pools = Counter(host["gpufleet_pool"] for host in hosts.values())
    assert pools == {"train": 1, "serve": 1, "test": 1, "farm": 2, "mill": 2}
    assert {host["gpufleet_cloud"] for host in hosts.values()} == {"aws", "gcp", "azure"}
    nodes = {entry["source"]: entry["nodes"] for entry in synced["sources"]}
    assert nodes == {"pulumi:members": 2, "aws:members": 1, "azure:members": 2, "gcp:members": 2}
    for host in hosts.values():
        assert host["gpufleet_template"] in ("trainer", "llm-server")
        assert host["ansible_host"]
        assert host["gpufleet_machine"]
    devices = {
        host["gpufleet_pool"]: [volume["devices"][0] for volume in host["gpufleet_volumes"]]
        for host in hosts.values()
        if "gpufleet_volumes" in host
    }
    models = ["/dev/disk/by-id/google-models"]
    assert devices == {"serve": models, "farm": models}, "a single node and the members of a group"
    again = json.loads(members.run("gpufleet nodes sync -s members --cloud-api --json").stdout)
    assert [entry["created"] for entry in again["sources"]] == [[], [], [], []]


def list_ids_by_pool(shell):
    """Return the registry's ids of the hosts of Ansible's inventory, by pool."""
    ids = {}
    for host in read_hosts(shell).values():
        ids.setdefault(host["gpufleet_pool"], set()).add(host["gpufleet_id"])
    return ids


def read_history(shell, node_id):
    return json.loads(shell.run(f"gpufleet nodes history {node_id} --json").stdout)


def test_failed_cloud_node_is_released_and_replaced(members):
    """Replace a faulty member of a group and a faulty single machine; others take their places in the inventory."""
    members.run("gpufleet nodes sync -s members")
    before = list_ids_by_pool(members)
    replaced = {pool: min(before[pool]) for pool in ("train", "serve")}  # an AWS group, a Google machine
    for pool, node_id in replaced.items():
        members.run(f"gpufleet nodes state {node_id} quarantined --reason 'XID 79'")
        command = f"gpufleet nodes replace {node_id} --reason 'XID 79' --by ann"
        dry = members.run(command)
        assert "nothing was changed" in dry.stderr
        assert ("replace" in dry.stderr.replace("nothing", "")) is (pool == "serve")  # the engine's preview
        members.run(f"{command} --yes")
    members.run("gpufleet nodes sync -s members")
    after = list_ids_by_pool(members)
    for pool, node_id in replaced.items():
        assert len(after[pool]) == len(before[pool])
        assert node_id not in after[pool]
        history = read_history(members, node_id)
        assert [row["event"] for row in history][-4:-1] == ["replace_begun", "replaced", "state"]
        moved = next(row for row in history if row["to"] == "retired")
        assert (moved["by"], moved["reason"]) == ("ann", "released and replaced: XID 79")

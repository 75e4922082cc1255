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


@pytest.fixture
def members(engine_project, rehearse_stack):
    """Rehearse the dev stack with two more pools, under a name of its own."""
    text = (engine_project / "stacks/Pulumi.dev.yaml").read_text()
    path = engine_project / "stacks/Pulumi.members.yaml"
    path.write_text(text.replace("    templates:\n", f"{GROUPS}    templates:\n", 1))
    yield rehearse_stack("members")
    path.unlink()


def test_nodes_and_members_on_three_clouds_are_hosts_of_ansible(members):
    members.up()
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

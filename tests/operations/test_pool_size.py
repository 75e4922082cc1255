"""Test that `nodes sync` compares the members of groups with the declared count, on three clouds."""

from __future__ import annotations

import json

import pytest

from gpufleet import fleet
from gpufleet.errors import EnvironmentFault
from gpufleet.nodes import Registry
from gpufleet.operations.sync import SyncOptions, sync_registry_from_sources

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
POOLS = {
    "train": {
        "cloud": "aws",
        "region": "us-east-1",
        "zones": ["us-east-1a"],
        "machine": "g5.2xlarge",
        "count": 4,
        "purchase": {"kind": "spot", "fallback": "on_demand"},
    },
    "farm": {
        "cloud": "gcp",
        "region": "us-central1",
        "zones": ["us-central1-a"],
        "machine": "g2-standard-4",
        "count": {"min": 1, "desired": 2, "max": 3},
        "purchase": {"kind": "on_demand"},
    },
    "mill": {
        "cloud": "azure",
        "region": "eastus",
        "machine": "Standard_NC4as_T4_v3",
        "count": 2,
        "group": True,
        "purchase": {"kind": "on_demand"},
    },
}
GROUPS = {  # name -> (pool, id)
    "dev-train": ("train", "arn:dev-train"),
    "dev-train-standby": ("train", "arn:dev-train-standby"),
    "dev-farm": (
        "farm",
        "https://www.googleapis.com/compute/v1/projects/p/regions/us-central1/instanceGroups/dev-farm",
    ),
    "dev-mill": (
        "mill",
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/dev-mill",
    ),
}


@pytest.fixture
def sync(tmp_path):
    """Return a function that syncs a stack whose groups have so many members, in a rehearsal's clouds."""
    spec = {
        "owner": "research",
        "ssh": {"authorized_keys": [KEY]},
        "pools": [{"name": name, **pool} for name, pool in POOLS.items()],
    }
    declared = fleet.parse_fleet(spec, stack="dev")
    groups = [
        {
            "pool": pool,
            "cloud": POOLS[pool]["cloud"],
            "region": POOLS[pool]["region"],
            "id": identity,
            "name": name,
        }
        for name, (pool, identity) in GROUPS.items()
    ]
    stack = {
        "urn": "urn:pulumi:dev::gpufleet::pulumi:pulumi:Stack::gpufleet-dev",
        "custom": False,
        "type": "pulumi:pulumi:Stack",
        "outputs": {"groups": groups},
    }
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"version": 3, "deployment": {"resources": [stack]}}))

    def run(sizes):
        def list_members(_stack):
            if sizes is None:
                raise EnvironmentFault("no clouds")
            for group, size in sizes.items():
                for number in range(size):
                    yield {"id": f"i-{group}-{number}", "name": f"{group}-{number}", "group": group}

        options = SyncOptions(state_file=state, list_simulated_members=list_members, environment={})
        with Registry(f"sqlite:///{tmp_path / 'registry.db'}") as registry:
            return sync_registry_from_sources(registry, tmp_path, declared, options)

    return run


def list_size_lines(synced):
    return [line for line in synced.format_summary_lines() if "declared" in line]


def test_groups_of_the_declared_size_are_not_mentioned(sync):
    synced = sync({"dev-train": 4, "dev-farm": 3, "dev-mill": 2})
    assert list_size_lines(synced) == []
    assert [group["as_declared"] for group in synced.as_json()["groups"]] == [True, True, True]


def test_each_short_or_long_group_is_one_line_and_the_exit_code_stays_0(sync):
    """As with a missing node: the registry is complete, and it says what the cloud has."""
    synced = sync({"dev-train": 2, "dev-train-standby": 1, "dev-farm": 0, "dev-mill": 3})
    assert list_size_lines(synced) == [
        "aws group dev-train + dev-train-standby: declared 4, found 3",
        "gcp group dev-farm: declared 1 to 3, found 0",
        "azure group dev-mill: declared 2, found 3",
    ]
    assert synced.as_json()["groups"][1] == {
        "pool": "farm",
        "cloud": "gcp",
        "groups": ["dev-farm"],
        "declared": {"min": 1, "max": 3},
        "found": 0,
        "as_declared": False,
    }
    synced.raise_if_incomplete()


def test_groups_of_a_cloud_that_does_not_answer_are_not_compared(sync):
    """A listing that failed is not a group without members."""
    synced = sync(None)
    assert synced.failures
    assert synced.as_json()["groups"] == []

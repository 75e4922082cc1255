"""Test that the pools of a named account get a provider of their own, and nothing of another one."""

from __future__ import annotations

import asyncio

import pytest
from pulumi.runtime import mocks
from pulumi.runtime.stack import run_pulumi_func

from gpufleet import cloud, fleet

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
AWS = {"cloud": "aws", "region": "us-east-1", "zones": ["us-east-1a"], "machine": "g5.2xlarge"}
GCP = {"cloud": "gcp", "region": "us-central1", "zones": ["us-central1-a"], "machine": "g2-standard-4"}
AZURE = {"cloud": "azure", "region": "eastus", "machine": "Standard_NC4as_T4_v3"}
ROLE = "arn:aws:iam::444455556666:role/gpufleet"
UUID = "00000000-1111-2222-3333-444444444444"
ACCOUNTS = {
    "research": {"aws": {"profile": "research", "account_id": "111122223333"}},
    "batch": {"aws": {"role_arn": ROLE}},
    "lab": {"gcp": {"project": "acme-lab"}},
    "eu": {"azure": {"subscription": UUID}},
}
POOLS = {
    "own": AWS,
    "train": AWS | {"account": "research"},
    "west": AWS | {"account": "research", "region": "us-west-2", "zones": ["us-west-2a"]},
    "night": AWS | {"account": "batch", "purchase": {"kind": "spot"}},
    "near": GCP,
    "serve": GCP | {"account": "lab", "count": {"min": 1, "max": 2}},
    "tune": AZURE | {"account": "eu"},
}
PROVIDERS = {  # of a pool: its name and its settings
    "train": ("research-aws-us-east-1", {"profile": "research", "allowedAccountIds": '["111122223333"]'}),
    "west": ("research-aws-us-west-2", {"profile": "research", "allowedAccountIds": '["111122223333"]'}),
    "night": (
        "batch-aws-us-east-1",
        {"assumeRoles": f'[{{"roleArn": "{ROLE}"}}]', "allowedAccountIds": '["444455556666"]'},
    ),
    "serve": ("lab-gcp", {"project": "acme-lab"}),
    "tune": ("eu-azure", {"subscriptionId": UUID}),
}


class Outputs(mocks.MockMonitor):
    """Record the stack's outputs and the provider of every lookup."""

    def __init__(self, recorder):
        super().__init__(recorder)
        self.lookups = []

    def Invoke(self, request):  # noqa: N802 - Pulumi's name
        self.lookups.append((request.tok, request.provider))
        return super().Invoke(request)


@pytest.fixture
def declared(recorder, sdks):
    """Declare the fleet; return what was registered, and the monitor."""
    pools = [
        {"name": name, "count": 1, "purchase": {"kind": "on_demand"}, **pool} for name, pool in POOLS.items()
    ]
    ssh = {"authorized_keys": [KEY], "allowed_cidrs": ["10.0.0.0/8"]}
    spec = {"owner": "research", "ssh": ssh, "pools": pools, "accounts": ACCOUNTS}
    monitor = Outputs(recorder)

    async def program():
        mocks.set_mocks(recorder, project="p", stack="dev", monitor=monitor)
        await run_pulumi_func(lambda: cloud.declare_fleet(fleet.parse_fleet(spec, stack="dev")))

    asyncio.run(program())
    return recorder.resources, monitor


def test_every_resource_of_an_account_has_its_provider(declared):
    resources, _ = declared
    names = {name for name, _ in PROVIDERS.values()}
    providers = {row.name: row.inputs for row in resources if row.typ.startswith("pulumi:providers:")}
    assert providers.keys() == names
    for name, settings in PROVIDERS.values():
        assert settings.items() <= providers[name].items()
    clouds = ("aws:", "gcp:", "azure-native:")
    for row in resources:
        if not row.typ.startswith(clouds):
            continue
        pool = next((pool for pool in POOLS if row.name.split("-")[0] == pool), None)
        account = next((name for name in ACCOUNTS if row.name.startswith(f"{name}-")), "")
        if pool:
            assert f"::{PROVIDERS.get(pool, ('',))[0]}::" in row.provider or pool not in PROVIDERS, row.name
        if account or pool in PROVIDERS:
            assert any(f"::{name}::" in row.provider for name in names), row.name
        else:
            assert not any(f"::{name}::" in row.provider for name in names), row.name


def test_lookups_ask_the_account(declared):
    _, monitor = declared
    used = {
        provider.split("::")[3]
        for tok, provider in monitor.lookups
        if provider.count("::") > 2 and "get" in tok
    }
    assert {"research-aws-us-east-1", "research-aws-us-west-2", "batch-aws-us-east-1", "lab-gcp"} <= used


def test_nodes_and_groups_of_an_account_are_tagged(declared):
    resources, _ = declared
    tags = {row.name: row.inputs.get("tags") or row.inputs.get("labels") for row in resources}
    assert tags["train-1"]["gpufleet-account"] == "research"
    assert "gpufleet-account" not in tags["own-1"]
    group = next(row for row in resources if row.name == "night" and row.typ == "aws:autoscaling/group:Group")
    assert {"key": "gpufleet-account", "value": "batch", "propagateAtLaunch": True} in group.inputs["tags"]

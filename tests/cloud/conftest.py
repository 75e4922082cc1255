"""Run the cloud room on the real provider SDKs with Pulumi's mocks in the engine's place."""

from __future__ import annotations

import asyncio
import gc
import importlib

import pulumi
import pytest
from pulumi.runtime import mocks
from pulumi.runtime.stack import run_pulumi_func

from gpufleet import cloud, fleet

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
MACHINES = {
    "aws": {"region": "us-east-1", "zones": ["us-east-1a"], "machine": "p4d.24xlarge"},
    "gcp": {"region": "us-central1", "zones": ["us-central1-a"], "machine": "a2-megagpu-16g"},
    "azure": {"region": "eastus", "machine": "Standard_ND96amsr_A100_v4"},
}
ANSWERS = {
    "aws:ec2/getAmi:getAmi": {"id": "ami-1", "rootDeviceName": "/dev/sda1"},
    "aws:ec2/getInstances:getInstances": {
        "ids": ["i-0123456789"],
        "privateIps": ["10.64.0.9"],
        "publicIps": [],
    },
    "gcp:compute/getImage:getImage": {"selfLink": "projects/ubuntu-os-cloud/global/images/one"},
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": {"locations": ["us-east-1c", "us-east-1b"]},
}
OUTPUTS = {
    "aws:ec2/instance:Instance": {
        "privateIp": "10.64.0.7",
        "publicIp": "203.0.113.7",
        "availabilityZone": "us-east-1a",
    },
    "gcp:compute/instance:Instance": {
        "networkInterfaces": [{"networkIp": "10.160.0.7", "accessConfigs": [{"natIp": "198.51.100.7"}]}],
    },
    "azure-native:network:NetworkInterface": {"ipConfigurations": [{"privateIPAddress": "10.66.0.7"}]},
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
    "aws:ec2/placementGroup:PlacementGroup": {"arn": "arn:of-the-placement-group"},
}


class Recorder(mocks.Mocks):
    """Keeps what was registered and asked; without ``answers`` lookups stay unanswered."""

    def __init__(self, answers):
        self.answers = answers
        self.resources = []
        self.calls = []

    def new_resource(self, args):
        self.resources.append(args)
        return f"{args.name}-id", {**args.inputs, **OUTPUTS.get(args.typ, {})}

    def call(self, args):
        self.calls.append(args)
        return self.answers.get(args.token, {})


class Evaluated:
    """What one evaluation registered."""

    def __init__(self, recorder, nodes):
        self.recorder = recorder
        self.nodes = nodes

    def all(self, kind):
        """Return the inputs of every resource whose type ends in ``kind``, in the order of their names."""
        found = [each for each in self.recorder.resources if each.typ.endswith(f":{kind}")]
        return [each.inputs for each in sorted(found, key=lambda each: each.name)]

    def one(self, kind):
        (only,) = self.all(kind)
        return only

    @property
    def kinds(self):
        return {found.typ.rpartition(":")[2] for found in self.recorder.resources}


def declared(*pools, cidrs=("10.0.0.0/8",), **more):
    """Return a fleet of these pools; what a pool leaves out is the large machine of its cloud."""
    wanted = [
        {
            "name": "train",
            "count": 1,
            "purchase": {"kind": "on_demand"},
            "template": "plain",
            **MACHINES[pool["cloud"]],
            **pool,
        }
        for pool in pools
    ]
    ssh = {"authorized_keys": [KEY, f"{KEY}-two"], "allowed_cidrs": list(cidrs)}
    spec = {"owner": "research", "ssh": ssh, "pools": wanted, "templates": {"plain": {}}, **more}
    return fleet.parse(spec, stack="test")


@pytest.fixture
def declare():
    return declared


@pytest.fixture(scope="session")
def sdks():
    """Load the SDKs once; their million objects are then left out of every search for garbage."""
    gc.disable()
    for module in ("aws_pool", "gcp_pool", "azure_pool"):
        importlib.import_module(f"gpufleet.cloud.{module}")
    gc.freeze()
    gc.enable()


@pytest.fixture
def recorder():
    return Recorder(ANSWERS)


@pytest.fixture
def evaluate(monkeypatch, sdks):
    """Evaluate a fleet, given as pools or whole; returns what it registered."""

    def run(*pools, answers=ANSWERS, whole=None, **more):
        recorder, exported = Recorder(answers), {}
        monkeypatch.setattr(pulumi, "export", exported.__setitem__)
        wanted = whole or declared(*pools, **more)

        async def program():
            mocks.set_mocks(recorder, project="gpufleet", stack="test")
            await run_pulumi_func(lambda: cloud.build(wanted))
            return await exported["nodes"].future()

        return Evaluated(recorder, asyncio.run(program()))

    return run

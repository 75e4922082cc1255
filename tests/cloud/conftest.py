"""Evaluate fleets with the real provider SDKs and Pulumi's mocks as engine."""

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
LOOKUP_REPLIES = {
    "aws:ec2/getAmi:getAmi": {"id": "ami-1", "rootDeviceName": "/dev/sda1"},
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
    "gcp:compute/resourcePolicy:ResourcePolicy": {"selfLink": "projects/one/regions/r/resourcePolicies/p"},
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
    "aws:autoscaling/group:Group": {"arn": "arn:of-the-group"},
    "aws:ec2/capacityBlockReservation:CapacityBlockReservation": {"endDate": "2099-12-31T11:30:00Z"},
    "aws:ec2/placementGroup:PlacementGroup": {"arn": "arn:of-the-placement-group"},
}


class Recorder(mocks.Mocks):
    """Record resources and calls; lookups without a reply in ``replies`` get an empty one."""

    def __init__(self, replies):
        self.replies = replies
        self.resources = []
        self.calls = []

    def new_resource(self, args):
        self.resources.append(args)
        return f"{args.name}-id", {**args.inputs, **OUTPUTS.get(args.typ, {})}

    def call(self, args):
        self.calls.append(args)
        return self.replies.get(args.token, {})


class Monitor(mocks.MockMonitor):
    """A fake engine that also keeps the requests, which have the resource options."""

    def __init__(self, recorder):
        super().__init__(recorder)
        self.requests = []

    def RegisterResource(self, request):  # noqa: N802 - Pulumi's name
        self.requests.append(request)
        return super().RegisterResource(request)


class Evaluation:
    """The resources that one evaluation registered."""

    def __init__(self, recorder, monitor, exports):
        self.recorder = recorder
        self.monitor = monitor
        self.nodes = exports["nodes"]
        self.groups = exports["groups"]
        self.fabric = exports["fabric"]

    def list_resources(self, kind):
        """Return the inputs of every resource whose type ends in ``kind``, in the order of their names."""
        matches = [resource for resource in self.recorder.resources if resource.typ.endswith(f":{kind}")]
        return [resource.inputs for resource in sorted(matches, key=lambda resource: resource.name)]

    def list_options(self, kind):
        """Return the options of every resource whose type ends in ``kind``, in the order of their names."""
        requests = [request for request in self.monitor.requests if request.type.endswith(f":{kind}")]
        return [
            {
                "protect": request.protect,
                "ignore_changes": list(request.ignoreChanges),
                "delete_before_replace": request.deleteBeforeReplace,
                "replace_on_changes": list(request.replaceOnChanges),
                "replacement_trigger": request.replacement_trigger.string_value,
                "depends_on": sorted(
                    " ".join((urn.split("::")[2].rpartition("$")[2], urn.split("::")[3]))
                    for urn in request.dependencies
                ),
            }
            for request in sorted(requests, key=lambda request: request.name)
        ]

    def find_resource(self, kind):
        (only,) = self.list_resources(kind)
        return only

    @property
    def kinds(self):
        return {resource.typ.rpartition(":")[2] for resource in self.recorder.resources}


def declare_fleet(*pools, cidrs=("10.0.0.0/8",), **sections):
    """Return a fleet of these pools; defaults are the large machine of each cloud."""
    pool_specs = [
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
    spec = {"owner": "research", "ssh": ssh, "pools": pool_specs, "templates": {"plain": {}}, **sections}
    spec["ssh"] = {**ssh, **spec["ssh"]}
    return fleet.parse_fleet(spec, stack="test")


@pytest.fixture(autouse=True)
def name_subscription(monkeypatch):
    """Name Azure's subscription as a user's shell does: without one, a program with Azure pools is refused."""
    monkeypatch.setenv("ARM_SUBSCRIPTION_ID", "00000000-1111-2222-3333-444444444444")


@pytest.fixture
def declare():
    return declare_fleet


@pytest.fixture(scope="session")
def sdks():
    """Load the SDKs once; freeze their million objects so that garbage collection skips them."""
    gc.disable()
    for module in ("aws_pool", "gcp_pool", "azure_pool"):
        importlib.import_module(f"gpufleet.cloud.{module}")
    gc.freeze()
    gc.enable()


@pytest.fixture
def recorder():
    return Recorder(LOOKUP_REPLIES)


@pytest.fixture
def evaluate(monkeypatch, sdks):
    """Return a function that evaluates pools, or a complete fleet, and returns the evaluation."""

    def run(*pools, replies=LOOKUP_REPLIES, fleet=None, **sections):
        recorder, exported = Recorder(replies), {}
        monitor = Monitor(recorder)
        monkeypatch.setattr(pulumi, "export", exported.__setitem__)
        declared = fleet or declare_fleet(*pools, **sections)

        async def program():
            mocks.set_mocks(recorder, project="gpufleet", stack="test", monitor=monitor)
            await run_pulumi_func(lambda: cloud.declare_fleet(declared))
            outputs = {name: pulumi.Output.from_input(value) for name, value in exported.items()}
            return {name: await output.future() for name, output in outputs.items()}

        return Evaluation(recorder, monitor, asyncio.run(program()))

    return run

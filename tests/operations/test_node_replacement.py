"""Test the replacement of failed rented nodes: what is refused, and the clouds' own calls on moto and Google's SDK."""

from __future__ import annotations

import boto3
import pytest
from moto import mock_aws

import cloud_http
from gpufleet.errors import CheckFailed, EnvironmentFault, InputError
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry
from gpufleet.nodes.cloud_api.azure import AzureApi
from gpufleet.operations import node_replacement as operation
from gpufleet.operations.member_release import release_aws_member, release_azure_member, release_gcp_member

REGION = "us-east-1"
GROUP = "arn:aws:autoscaling:us-east-1:1:autoScalingGroup:x:autoScalingGroupName/train"


@pytest.fixture
def registry(tmp_path):
    with Registry(f"sqlite:///{tmp_path}/registry.db") as opened:
        observed = {"kind": "cloud_vm", "cloud": "aws", "region": REGION, "stack": "dev", "group": GROUP}
        identity = NodeIdentity(instance_id="i-1")
        opened.apply_observation(NodeObservation("aws:dev:us-east-1", "train-1", identity, observed=observed))
        place = NodeIdentity("S1", rack="r1", slot="1")
        opened.apply_observation(
            NodeObservation("rack:r1", "blade01", place, declared={"kind": "compute_blade"})
        )
        yield opened


def plan(registry, node="train-1", **options):
    return operation.plan_replacement(registry, operation.ReplacementRequest(node, "XID 79", **options))


@pytest.mark.parametrize(
    ("node", "state", "problem"),
    [
        ("blade01", None, "is your own hardware; repair it"),
        ("train-1", None, "is discovered, not quarantined or repair; first: gpufleet nodes state"),
        ("train-1", "retired", "is retired, not quarantined or repair; nothing is left to do"),
    ],
)
def test_other_nodes_are_refused(registry, node, state, problem):
    if state:
        registry.move_node(node, state, "x")
    with pytest.raises(InputError, match=problem):
        plan(registry, node)


def test_plan_changes_nothing_and_failure_keeps_the_node(registry):
    registry.move_node("train-1", "quarantined", "XID 79")

    def fail(stack, instance_id):
        raise EnvironmentFault(f"{stack} {instance_id}: no answer")

    planned = plan(registry, simulated_release=fail)
    before = registry.list_node_history("train-1")
    assert "its group train starts another" in "\n".join(planned.format_plan())
    assert registry.list_node_history("train-1") == before
    with pytest.raises(EnvironmentFault, match="no answer"):
        operation.execute_replacement(registry, planned, "XID 79", "ann", print)
    assert registry.get_node("train-1").state == "quarantined"
    assert registry.list_node_history("train-1")[-1].event == "replace_failed"


def test_node_that_changed_since_the_plan_is_kept(registry):
    registry.move_node("train-1", "quarantined", "XID 79")
    planned = plan(registry, simulated_release=lambda *_: pytest.fail("was called"))
    registry.move_node("train-1", "burn_in", "fixed")
    with pytest.raises(CheckFailed, match="has changed since it was planned: it is burn_in"):
        operation.execute_replacement(registry, planned, "XID 79", "ann", print)


def test_replaced_node_is_retired_with_who_and_why(registry):
    registry.move_node("train-1", "quarantined", "XID 79")
    planned = plan(registry, simulated_release=lambda stack, instance: f"{stack} {instance} gone")
    lines = []
    operation.execute_replacement(registry, planned, "XID 79", "ann", lines.append)
    last = registry.list_node_history("train-1")[-1]
    assert (lines, registry.get_node("train-1").state) == (["dev i-1 gone"], "retired")
    assert (last.actor, last.reason) == ("ann", "released and replaced: XID 79")


@pytest.fixture
def group(monkeypatch):
    """Give an Auto Scaling group of two instances in moto's EC2."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        ec2 = boto3.client("ec2", REGION)
        image = ec2.describe_images()["Images"][0]["ImageId"]
        scaling = boto3.client("autoscaling", REGION)
        scaling.create_launch_configuration(
            LaunchConfigurationName="c", ImageId=image, InstanceType="t3.micro"
        )
        scaling.create_auto_scaling_group(
            AutoScalingGroupName="train", LaunchConfigurationName="c", MinSize=1, MaxSize=3, DesiredCapacity=2,
            AvailabilityZones=[f"{REGION}a"],
        )  # fmt: skip
        yield scaling


def list_members(scaling):
    (described,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    return described["DesiredCapacity"], {member["InstanceId"] for member in described["Instances"]}


def test_terminated_member_of_an_aws_group_is_replaced(group):
    size, members = list_members(group)
    failed = min(members)
    lines = []
    release_aws_member(REGION, failed, lines.append)
    new_size, now = list_members(group)
    assert (size, new_size, len(now)) == (2, 2, 2)
    assert failed not in now
    assert "train starts another" in lines[0]


def test_member_that_is_gone_already_is_released(group):
    lines = []
    release_aws_member(REGION, "i-0123456789abcdef0", lines.append)
    assert lines == ["i-0123456789abcdef0 is in no group any more"]


class GoogleApi:
    """A client that keeps the request; the request's type is Google's own and refuses unknown fields."""

    def __init__(self):
        self.calls = []

    def client(self, service):
        self.service = service
        return self

    def translate_errors(self, permission):
        import contextlib

        return contextlib.nullcontext()

    def recreate_instances(self, request, timeout):
        from google.cloud import compute_v1

        prefix = "Region" if self.service.startswith("Region") else ""
        self.calls.append(
            getattr(compute_v1, f"RecreateInstances{prefix}InstanceGroupManagerRequest")(request)
        )
        return self

    def result(self, timeout):
        return None


@pytest.mark.parametrize("place", ["regions/us-central1", "zones/us-central1-a"])
def test_google_group_is_asked_to_recreate_its_member(place):
    api, lines = GoogleApi(), []
    path = f"projects/p/{place}/instanceGroupManagers/farm"
    release_gcp_member("p", path, "us-central1-a", "farm-x1", "us-central1", lines.append, api)
    (request,) = api.calls
    assert request.instance_group_manager == "farm"
    body = getattr(request, "region_instance_group_managers_recreate_request_resource", None) or (
        request.instance_group_managers_recreate_instances_request_resource
    )
    assert list(body.instances) == ["projects/p/zones/us-central1-a/instances/farm-x1"]


SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
SET = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/dev/providers/Microsoft.Compute/virtualMachineScaleSets/mill"


class ScaleSet(cloud_http.AzureService):
    """A Uniform scale set. ``keeps_size``: whether a deletion leaves its size as it is."""

    def __init__(self, *, keeps_size):
        super().__init__()
        self.keeps_size, self.size, self.numbers = keeps_size, 2, [3, 7]
        self.route("GET", SET, lambda *_: self.describe())
        self.route("PATCH", SET, self.resize)
        self.route("POST", f"{SET}/delete", self.delete)
        self.route("GET", f"{SET}/virtualMachines", lambda *_: {"value": [*map(self.member, self.numbers)]})

    def describe(self):
        sku = {"name": "Standard_NC4as_T4_v3", "tier": "Standard", "capacity": self.size}
        return {"id": SET, "name": "mill", "location": "eastus", "sku": sku, "properties": {}}

    def member(self, number):
        return {
            "id": f"{SET}/virtualMachines/{number}",
            "instanceId": str(number),
            "properties": {"vmId": f"v-{number}"},
        }

    def delete(self, *_):
        self.numbers = [number for number in self.numbers if str(number) not in self.body["instanceIds"]]
        self.size -= not self.keeps_size
        return 200, None

    def resize(self, *_):
        assert self.body["sku"]["name"] == "Standard_NC4as_T4_v3"
        self.size = self.body["sku"]["capacity"]
        self.numbers += range(10, 10 + self.size - len(self.numbers))
        return self.describe()


@pytest.mark.parametrize("keeps_size", [False, True])
def test_scale_set_has_its_size_after_a_member_was_deleted(tmp_path, keeps_size):
    certificate, lines = str(cloud_http.write_certificate(tmp_path / "azure.pem")), []
    with cloud_http.serve(ScaleSet(keeps_size=keeps_size), certificate) as service:
        api = AzureApi(
            SUBSCRIPTION, cloud_http.StaticAzureCredential(), service.url, certificates=certificate
        )
        release_azure_member(SUBSCRIPTION, SET, "v-3", lines.append, api)
        release_azure_member(SUBSCRIPTION, SET, "v-3", lines.append, api)
    assert (service.size, 3 in service.numbers, 7 in service.numbers) == (2, False, True)
    assert lines == ["v-3 is deleted; mill has 2 machines again", "v-3 is in no scale set any more"]

"""The simulated clouds, called as the engine calls them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest
from pulumi.provider.experimental import provider as api

from gpufleet.rehearsal import providers
from gpufleet.rehearsal.providers.property_values import SECRET, UNKNOWN, to_plain_values, to_property_values
from gpufleet.rehearsal.providers.provider import SimulatedProvider
from gpufleet.rehearsal.providers.schema import load_cloud_schema
from gpufleet.rehearsal.providers.store import ResourceStore

VPC = "aws:ec2/vpc:Vpc"
SUBNET = "aws:ec2/subnet:Subnet"
NODE = "aws:ec2/instance:Instance"
GCP_NODE = "gcp:compute/instance:Instance"


class ProviderClient:
    """A provider with plain values in and out."""

    def __init__(self, cloud, path):
        self.provider = SimulatedProvider(load_cloud_schema(cloud), ResourceStore(path))

    def urn(self, kind, name):
        return f"urn:pulumi:test::gpufleet::gpufleet:cloud:Pool${kind}::{name}"

    def check(self, kind, name, news, olds=None):
        request = api.CheckRequest(
            self.urn(kind, name), to_property_values(olds or {}), to_property_values(news), b""
        )
        answer = asyncio.run(self.provider.check(request))
        return to_plain_values(answer.inputs), [(item.property, item.reason) for item in answer.failures]

    def create(self, kind, name, inputs, *, preview=False):
        request = api.CreateRequest(self.urn(kind, name), to_property_values(inputs), 0, preview)
        answer = asyncio.run(self.provider.create(request))
        return answer.resource_id, to_plain_values(answer.properties)

    def diff(self, kind, name, identity, state, news):
        request = api.DiffRequest(
            self.urn(kind, name), identity, to_property_values(state), to_property_values(news), []
        )
        return asyncio.run(self.provider.diff(request))

    def update(self, kind, name, identity, olds, news, *, preview=False):
        urn = self.urn(kind, name)
        request = api.UpdateRequest(
            urn, identity, to_property_values(olds), to_property_values(news), 0, [], preview
        )
        return to_plain_values(asyncio.run(self.provider.update(request)).properties)

    def read(self, kind, name, identity):
        return asyncio.run(self.provider.read(api.ReadRequest(self.urn(kind, name), identity, {}, {})))

    def delete(self, kind, name, identity):
        asyncio.run(self.provider.delete(api.DeleteRequest(self.urn(kind, name), identity, {}, 0)))

    def invoke(self, token, args):
        answer = asyncio.run(self.provider.invoke(api.InvokeRequest(token, to_property_values(args))))
        return to_plain_values(answer.return_value or {}), [failure.reason for failure in answer.failures]


@pytest.fixture
def open_cloud(tmp_path):
    """Return a simulated cloud by name; a second call opens the same store again."""
    return lambda cloud: ProviderClient(cloud, tmp_path / f"{cloud}.sqlite")


@pytest.fixture
def aws(open_cloud):
    return open_cloud("aws")


@pytest.fixture
def subnet(aws):
    """Return the id of a subnet, without which no instance has an address."""
    vpc, _ = aws.create(VPC, "net", {"cidrBlock": "10.64.0.0/16"})
    return aws.create(
        SUBNET, "a", {"vpcId": vpc, "cidrBlock": "10.64.0.0/20", "availabilityZone": "us-east-1a"}
    )[0]


def node(subnet, **more):
    return {"ami": "ami-1", "instanceType": "g5.2xlarge", "subnetId": subnet, **more}


def gcp_node(**more):
    inputs = {
        "name": "one",
        "zone": "us-central1-a",
        "machineType": "a2-megagpu-16g",
        "bootDisk": {"initializeParams": {"image": "x"}},
        "networkInterfaces": [{"network": "n"}],
        "scheduling": {"onHostMaintenance": "TERMINATE", "automaticRestart": True},
    }
    return {**inputs, **more}


def test_created_resources_are_realistic_and_reproducible(open_cloud, aws, tmp_path):
    identity, outputs = aws.create(VPC, "net", {"cidrBlock": "10.64.0.0/16"})
    assert identity.startswith("vpc-")
    assert len(identity) == len("vpc-") + 17
    assert outputs["arn"] == f"arn:aws:ec2:us-east-1:123456789012:vpc/{identity}"
    other = ProviderClient("aws", tmp_path / "other.sqlite")
    assert other.create(VPC, "net", {"cidrBlock": "10.64.0.0/16"}) == (identity, outputs)


def test_store_persists_after_the_process(open_cloud, aws):
    identity, outputs = aws.create(VPC, "net", {"cidrBlock": "10.64.0.0/16"})
    again = open_cloud("aws").read(VPC, "net", identity)
    assert (again.resource_id, to_plain_values(again.properties)) == (identity, outputs)


def test_deleted_resource_has_no_id(aws):
    identity, _ = aws.create(VPC, "net", {})
    aws.delete(VPC, "net", identity)
    aws.delete(VPC, "net", identity)
    assert aws.read(VPC, "net", identity).resource_id == ""


def test_addresses_are_unique_and_in_the_subnet(aws, subnet):
    addresses = [aws.create(NODE, f"n{number}", node(subnet))[1]["privateIp"] for number in range(20)]
    assert len(set(addresses)) == 20
    assert all(address.startswith("10.64.") for address in addresses)


def test_released_address_is_reused(aws, subnet):
    identity, first = aws.create(NODE, "one", node(subnet))
    aws.delete(NODE, "one", identity)
    assert aws.create(NODE, "one", node(subnet))[1]["privateIp"] == first["privateIp"]


def test_public_address_is_assigned_only_on_request(aws, subnet):
    _, inside = aws.create(NODE, "inside", node(subnet))
    _, outside = aws.create(NODE, "outside", node(subnet, associatePublicIpAddress=True))
    assert inside["publicIp"] == ""
    assert outside["publicIp"].startswith("203.0.113.")


def test_missing_subnet_is_an_error(aws):
    with pytest.raises(LookupError, match="subnet-none does not exist in the simulated aws"):
        aws.create(NODE, "one", node("subnet-none"))


def test_preview_stores_nothing_and_leaves_future_values_unknown(aws, subnet):
    identity, planned = aws.create(NODE, "one", node(UNKNOWN), preview=True)
    assert identity == ""
    assert planned["privateIp"] == planned["arn"] == UNKNOWN
    assert planned["instanceState"] == "running"
    assert aws.provider.store.find_resources_by_type(NODE) == []


def test_repeated_creation_after_a_kill_creates_no_duplicate(aws, subnet):
    first, _ = aws.create(NODE, "one", node(subnet))  # the engine was killed before it heard of it
    aws.check(NODE, "one", node(subnet))
    again, outputs = aws.create(NODE, "one", node(subnet, ami="ami-2"))
    assert again == first
    assert outputs["ami"] == "ami-2"
    assert len(aws.provider.store.find_resources_by_type(NODE)) == 1


def test_replacement_exists_next_to_the_old_resource(aws, subnet):
    old, state = aws.create(NODE, "one", node(subnet))
    aws.diff(NODE, "one", old, state, node(subnet, ami="ami-2"))
    new, _ = aws.create(NODE, "one", node(subnet, ami="ami-2"))
    assert new != old
    aws.delete(NODE, "one", old)
    assert [row.id for row in aws.provider.store.find_resources_by_type(NODE)] == [new]


def test_forced_replacement_exists_next_to_the_old_resource(aws, subnet):
    old, _ = aws.create(NODE, "one", node(subnet))
    aws.check(NODE, "one", node(subnet), olds=node(subnet))  # all that the engine asks with --replace
    assert aws.create(NODE, "one", node(subnet))[0] != old


def test_duplicate_name_is_refused_where_the_name_is_the_id(open_cloud):
    gcp = open_cloud("gcp")
    gcp.create("gcp:compute/network:Network", "one", {"name": "net"})
    with pytest.raises(
        FileExistsError, match="projects/rehearsal-project/global/networks/net exists already"
    ):
        gcp.create("gcp:compute/network:Network", "two", {"name": "net"})


@pytest.mark.parametrize(
    ("change", "places", "replaces"),
    [
        ({"instanceType": "g5.4xlarge"}, ["instanceType"], []),
        ({"ami": "ami-2"}, ["ami"], ["ami"]),
        ({"subnetId": UNKNOWN}, ["subnetId"], ["subnetId"]),
        ({"tags": {"a-b": "2"}}, ['tags["a-b"]'], []),
        ({}, [], []),
    ],
)
def test_aws_changes_update_or_replace_as_declared(aws, subnet, change, places, replaces):
    inputs = node(subnet, tags={"a-b": "1"})
    identity, state = aws.create(NODE, "one", inputs)
    response = aws.diff(NODE, "one", identity, state, {**inputs, **change})
    assert (response.diffs, response.replaces, response.changes) == (places, replaces, bool(places))


@pytest.mark.parametrize(
    ("change", "replaces"),
    [
        ({"machineType": "a2-highgpu-8g"}, []),
        ({"zone": "us-central1-b"}, ["zone"]),
        ({"bootDisk": {"initializeParams": {"image": "y"}}}, ["bootDisk.initializeParams.image"]),
        ({"networkInterfaces": [{"network": "n", "nicType": "GVNIC"}]}, ["networkInterfaces[0].nicType"]),
        ({"labels": {"x": "y"}}, []),
    ],
)
def test_gcp_changes_delete_first_because_the_name_is_the_id(open_cloud, change, replaces):
    gcp = open_cloud("gcp")
    identity, state = gcp.create(GCP_NODE, "one", gcp_node())
    response = gcp.diff(GCP_NODE, "one", identity, state, gcp_node(**change))
    assert response.replaces == replaces
    assert response.delete_before_replace is bool(replaces)


def test_deleted_resource_shows_no_change_until_a_refresh(open_cloud):
    gcp = open_cloud("gcp")
    identity, state = gcp.create(GCP_NODE, "one", gcp_node())
    gcp.delete(GCP_NODE, "one", identity)
    assert gcp.diff(GCP_NODE, "one", identity, state, gcp_node()).changes is False
    with pytest.raises(LookupError, match="run a refresh"):
        gcp.update(GCP_NODE, "one", identity, state, gcp_node(labels={"a": "b"}))


def test_update_keeps_the_resource_id(aws, subnet):
    identity, state = aws.create(NODE, "one", node(subnet))
    bigger = aws.update(NODE, "one", identity, state, node(subnet, instanceType="g5.4xlarge"))
    assert bigger == {**state, "instanceType": "g5.4xlarge"}
    assert aws.provider.store.get_resource(NODE, identity).acknowledged, "the engine has named it"


def test_launch_template_counts_its_versions(aws):
    kind = "aws:ec2/launchTemplate:LaunchTemplate"
    identity, state = aws.create(kind, "one", {"name": "one"})
    assert state["latestVersion"] == 1
    assert aws.update(kind, "one", identity, state, {"name": "one"}, preview=True)["latestVersion"] == UNKNOWN
    assert aws.update(kind, "one", identity, state, {"name": "one"})["latestVersion"] == 2


def test_secrets_are_returned_as_secrets(aws):
    secret = {"keyName": "k", "publicKey": {SECRET: "ssh-rsa hidden"}}
    identity, outputs = aws.create("aws:ec2/keyPair:KeyPair", "k", secret)
    assert outputs["publicKey"] == {SECRET: "ssh-rsa hidden"}
    assert to_property_values(outputs)["publicKey"].is_secret
    assert (
        aws.diff(
            "aws:ec2/keyPair:KeyPair", "k", identity, outputs, {"keyName": "k", "publicKey": "ssh-rsa hidden"}
        ).changes
        is False
    )


def test_unknown_types_are_refused_with_the_known_ones(aws):
    _, ((_, reason),) = aws.check("aws:sagemaker/endpoint:Endpoint", "b", {})
    assert reason.startswith(
        "the simulated aws does not know aws:sagemaker/endpoint:Endpoint; it knows: aws:"
    )
    assert NODE in reason


def test_unknown_lookups_are_refused_with_the_known_ones(aws):
    _, (reason,) = aws.invoke("aws:ec2/getKeyPair:getKeyPair", {})
    assert reason.startswith(
        "the simulated aws does not know aws:ec2/getKeyPair:getKeyPair; it knows: aws:ec2/getAmi"
    )


def test_unnamed_resources_get_a_stable_name(aws):
    first, _ = aws.check("aws:ec2/securityGroup:SecurityGroup", "one", {"description": "d"})
    assert first["name"].startswith("one-")
    assert (
        aws.check("aws:ec2/securityGroup:SecurityGroup", "one", {"description": "e"}, olds=first)[0]["name"]
        == first["name"]
    )


@pytest.mark.parametrize(
    ("cloud", "kind", "inputs", "reason"),
    [
        ("aws", SUBNET, {}, "missing required property 'vpcId'"),
        ("aws", NODE, {"ami": "a"}, "needs 'instanceType'"),
        (
            "aws",
            "aws:autoscaling/group:Group",
            {"minSize": 3, "maxSize": 1, "launchTemplate": {}},
            "out of order",
        ),
        ("gcp", GCP_NODE, gcp_node(scheduling={}), "use TERMINATE"),
        (
            "gcp",
            GCP_NODE,
            gcp_node(scheduling={"onHostMaintenance": "TERMINATE", "provisioningModel": "SPOT"}),
            "SPOT needs",
        ),
        ("gcp", GCP_NODE, gcp_node(labels={"Owner": "x"}), "only a-z"),
        (
            "azure-native",
            "azure-native:compute:VirtualMachine",
            {"resourceGroupName": "g", "evictionPolicy": "Delete"},
            "Spot only",
        ),
        (
            "azure-native",
            "azure-native:compute:VirtualMachine",
            {"resourceGroupName": "g", "osProfile": {}},
            "SSH keys",
        ),
    ],
)
def test_invalid_inputs_are_refused(open_cloud, cloud, kind, inputs, reason):
    _, failures = open_cloud(cloud).check(kind, "one", inputs)
    assert any(reason in text for _, text in failures), failures


def test_spot_and_reservation_exclude_each_other(aws, subnet):
    target = {"capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"}}
    inputs = node(
        subnet, instanceMarketOptions={"marketType": "spot"}, capacityReservationSpecification=target
    )
    assert aws.check(NODE, "one", inputs)[1] == [
        ("instanceMarketOptions", "spot instances can't run in a capacity reservation")
    ]


def test_members_of_a_group_are_found_by_its_name(aws, subnet):
    group = {
        "name": "g",
        "minSize": 0,
        "maxSize": 3,
        "desiredCapacity": 2,
        "launchTemplate": {},
        "vpcZoneIdentifiers": [subnet],
    }
    aws.create("aws:autoscaling/group:Group", "g", group)
    question = {"filters": [{"name": "tag:aws:autoscaling:groupName", "values": ["g", "other"]}]}
    members, _ = aws.invoke("aws:ec2/getInstances:getInstances", question)
    assert len(set(members["ids"])) == len(set(members["privateIps"])) == 2
    assert members["publicIps"] == []  # the template asks for no public address
    assert aws.invoke("aws:ec2/getInstances:getInstances", question)[0] == members


def test_images_differ_by_region(aws):
    question = {"owners": ["amazon"], "filters": [{"name": "name", "values": ["Deep *"]}]}
    one, _ = aws.invoke("aws:ec2/getAmi:getAmi", {**question, "region": "us-east-1"})
    other, _ = aws.invoke("aws:ec2/getAmi:getAmi", {**question, "region": "eu-west-1"})
    assert one["id"].startswith("ami-")
    assert one["id"] != other["id"]


def test_launchers_serve_from_a_folder_whose_name_needs_quoting(tmp_path):
    folder = tmp_path / "it's a folder"
    paths = providers.install_provider_launchers(folder, sys.executable)
    assert [path.name for path in paths] == [f"pulumi-resource-{cloud}" for cloud in providers.CLOUDS]
    for path, cloud in zip(paths, providers.CLOUDS, strict=True):
        version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
        assert version.startswith(load_cloud_schema(cloud).version)
        assert "simulated" in version


def test_second_installation_of_the_providers_changes_nothing(tmp_path):
    before = [
        path.stat().st_mtime_ns for path in providers.install_provider_launchers(tmp_path, sys.executable)
    ]
    assert [
        path.stat().st_mtime_ns for path in providers.install_provider_launchers(tmp_path, sys.executable)
    ] == before


def test_schema_declares_a_simulated_provider(aws):
    answer = asyncio.run(aws.provider.get_schema(api.GetSchemaRequest(0)))
    schema = json.loads(answer.schema)
    assert "never calls a cloud" in schema["description"]
    assert NODE in schema["resources"]

"""Test that programs which the engine accepts are evaluated too: references, remote components, project files."""

from __future__ import annotations

import json

import pytest

from gpufleet import cost, engine
from gpufleet.cost.inputs.program import allowlist
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.cost.inputs.program.virtual_environment import choose_python
from gpufleet.engine import UNKNOWN
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.rehearsal.backend import read_project_name
from gpufleet.rehearsal.paths import list_stack_names

REFERENCED = """
import pulumi
import pulumi_aws as aws

network = aws.ec2.Vpc("network", cidr_block="10.0.0.0/16")
subnet = aws.ec2.Subnet("subnet", vpc_id=network, cidr_block="10.0.1.0/24")
key = aws.kms.Key.get("key", "1234")
aws.ec2.NatGateway("way-out", subnet_id=subnet, connectivity_type="private")
aws.ebs.Volume("scratch", availability_zone="us-east-1a", size=100, type="gp3", kms_key_id=key)
pulumi.export("network", subnet.vpc_id)
"""
# What the classes of a generated SDK with components do; the packages themselves are not needed.
COMPONENTS = """
import pulumi
import pulumi_aws as aws
from pulumi.runtime import rpc


class Cluster(pulumi.ComponentResource):
    def __init__(self, name, opts=None, instance_type=None):
        props = {"instanceType": instance_type, "kubeconfig": None}
        super().__init__("eks:index:Cluster", name, props, opts, remote=True)

    @property
    @pulumi.getter
    def kubeconfig(self) -> pulumi.Output[str]:
        return pulumi.get(self, "kubeconfig")


class Module:
    def version(self):
        return None

    def construct(self, name, typ, urn):
        return Cluster(name, pulumi.ResourceOptions(urn=urn))


class Nodes(pulumi.ComponentResource):
    def __init__(self, name, cluster):
        super().__init__("eks:index:ManagedNodeGroup", name, {"cluster": cluster}, None, remote=True)

    @property
    @pulumi.getter
    def cluster(self) -> pulumi.Output[Cluster]:
        return pulumi.get(self, "cluster")


rpc.register_resource_module("eks", "index", Module())
models = Cluster("models", instance_type="t3.large")
nodes = Nodes("nodes", models)
aws.ebs.Volume("scratch", availability_zone="us-east-1a", size=100, type="gp3", tags={"c": models.kubeconfig})
"""
# A hub with one way out, and spokes: `nat_gateways` is a setting when it goes in, and a list when it comes out.
HUB_AND_SPOKES = """
from typing import Sequence

import pulumi
import pulumi_aws as aws


class Vpc(pulumi.ComponentResource):
    def __init__(self, name, strategy, opts=None):
        props = {"nat_gateways": {"strategy": strategy}, "isolated_subnet_ids": None, "vpc_id": None}
        super().__init__("awsx:ec2:Vpc", name, props, opts, remote=True)

    def translate_output_property(self, prop):
        return prop

    @property
    @pulumi.getter
    def nat_gateways(self) -> pulumi.Output[Sequence[aws.ec2.NatGateway]]:
        return pulumi.get(self, "nat_gateways")

    @property
    @pulumi.getter
    def isolated_subnet_ids(self) -> pulumi.Output[Sequence[str]]:
        return pulumi.get(self, "isolated_subnet_ids")

    @property
    @pulumi.getter
    def vpc_id(self) -> pulumi.Output[str]:
        return pulumi.get(self, "vpc_id")


class Spoke(pulumi.ComponentResource):
    def __init__(self, name, hub):
        super().__init__("network:index:Spoke", name)
        child = pulumi.ResourceOptions(parent=self)
        self.vpc = Vpc(name, "None", child)
        self.attachment = aws.ec2transitgateway.VpcAttachment(
            name, transit_gateway_id=hub, subnet_ids=self.vpc.isolated_subnet_ids, vpc_id=self.vpc.vpc_id, opts=child
        )
        ids = [self.vpc.isolated_subnet_ids.apply(lambda all: all[0]), self.vpc.isolated_subnet_ids[1]]
        for number, subnet_id in enumerate(ids):
            table = aws.ec2.get_route_table_output(subnet_id=subnet_id)
            aws.ec2.Route(f"{name}-{number}", route_table_id=table.id, transit_gateway_id=hub, opts=child)
        aws.ec2.Instance(name, instance_type="g5.xlarge", ami="ami-1", subnet_id=ids[0], opts=child)
        self.register_outputs({"vpc": self.vpc, "attachment": self.attachment, "subnets": ids})


hub = aws.ec2transitgateway.TransitGateway("hub")
for name in ("a", "b"):
    aws.ec2transitgateway.RouteTablePropagation(
        name, transit_gateway_attachment_id=Spoke(name, hub).attachment, transit_gateway_route_table_id="table"
    )
pulumi.export("hub", hub)
"""


@pytest.fixture
def evaluate(tmp_path):
    """Evaluate a program; returns its resources by type and name."""

    def run(text):
        (tmp_path / "Pulumi.yaml").write_text(
            "name: valid\nruntime: python\nconfig: {aws:region: us-east-1}\n"
        )
        (tmp_path / "__main__.py").write_text(text)
        resources = cost.evaluate_program(tmp_path, "dev")
        return {(each.type, each.name): each for each in resources if not each.is_provider_resource}

    return run


def test_resource_may_be_passed_as_an_input(evaluate):
    resources = evaluate(REFERENCED)
    network, subnet = resources["aws:ec2/vpc:Vpc", "network"], resources["aws:ec2/subnet:Subnet", "subnet"]
    assert subnet.inputs["vpcId"] is UNKNOWN
    assert resources["aws:ec2/natGateway:NatGateway", "way-out"].inputs["subnetId"] is UNKNOWN
    assert list(subnet.property_dependencies["vpcId"]) == [network.urn]
    assert resources["aws:ebs/volume:Volume", "scratch"].inputs["kmsKeyId"] == "1234"


def test_remote_component_may_be_passed_to_another(evaluate):
    resources = evaluate(COMPONENTS)
    assert {name for _, name in resources} == {"models", "models-nodes", "nodes", "scratch"}
    bill = cost.price_resources(tuple(resources.values()))
    assert [(charge.name, charge.component) for charge in bill.charges] == [("scratch", "disk")]
    assert {(gap.name, gap.component) for gap in bill.unpriced_resources} == {
        ("models", "control_plane"),
        *(("models-nodes", component) for component in ("disk:root", "machine", "public_ipv4")),
        *(("nodes", component) for component in ("disk:root", "machine")),
    }


def test_hub_and_spokes_with_components_of_another_process_are_evaluated(evaluate):
    resources = evaluate(HUB_AND_SPOKES)
    names = [
        name for type_, name in resources if type_ in ("aws:ec2/instance:Instance", "aws:ec2/route:Route")
    ]
    assert sorted(names) == ["a", "a-0", "a-1", "b", "b-0", "b-1"]


@pytest.mark.parametrize(
    "runtime",
    [
        "runtime: {name: python, options: {virtualenv: mine}}",
        "runtime: {options: {virtualenv: 'mine'}, name: python}  # in one line",
        "runtime:\n  name: python\n  options: {virtualenv: mine}",
        'runtime: { "name": "python", "options": { "virtualenv": "mine" } }',
        "# virtualenv: other\nruntime:\n    options:\n        virtualenv: mine\n    name: python",
    ],
)
def test_virtual_environment_is_read_in_every_style(tmp_path, runtime):
    (tmp_path / "Pulumi.yaml").write_text(f"name: other\n{runtime}\n")
    (tmp_path / "__main__.py").write_text("")
    (tmp_path / "mine" / "bin").mkdir(parents=True)
    python = tmp_path / "mine" / "bin" / "python"
    python.write_text("#!/bin/sh\necho this is another python\n")
    python.chmod(0o755)
    (tmp_path / "mine" / "pyvenv.cfg").write_text("")
    assert choose_python(None, StackProgram(tmp_path, "dev"), {}) == python
    with pytest.raises(EnvironmentFault, match="this is another python"):
        cost.evaluate_program(tmp_path, "dev")


def test_virtual_environment_of_another_section_is_ignored(tmp_path):
    (tmp_path / "mine" / "bin").mkdir(parents=True)
    (tmp_path / "mine" / "bin" / "python").symlink_to("/usr/bin/env")
    (tmp_path / "Pulumi.yaml").write_text("name: other\nruntime: python\nplugins:\n  virtualenv: mine\n")
    (tmp_path / "mine" / "pyvenv.cfg").write_text("")
    assert choose_python(None, StackProgram(tmp_path, "dev"), {}) is None


def test_project_file_in_flow_style_has_a_name_and_a_folder_of_stacks(tmp_path):
    (tmp_path / "Pulumi.yaml").write_text("{name: 'fleet', runtime: python, stackConfigDir: settings}\n")
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings" / "Pulumi.dev.yaml").write_text("config: {gpufleet:fleet: {cloud: gcp}}\n")
    assert read_project_name(tmp_path) == "fleet"
    assert list_stack_names(tmp_path) == ["dev"]
    assert allowlist.guess_clouds(tmp_path, "dev", None) == ["gcp"]


@pytest.mark.parametrize("key", ["main", "stackConfigDir"])
@pytest.mark.parametrize("value", ["[1]", "3", "{a: b}"])
def test_folder_that_is_not_a_text_is_an_error_with_its_line(tmp_path, key, value):
    (tmp_path / "Pulumi.yaml").write_text(f"name: shop\nruntime: python\n{key}: {value}\n")
    (tmp_path / "Pulumi.dev.yaml").write_text("config: {}\n")
    (tmp_path / "__main__.py").write_text("import pulumi\n")
    with pytest.raises(InputError, match=rf"Pulumi\.yaml:3: {key}: .* is not a text"):
        cost.evaluate_program(tmp_path, "dev")


def test_setting_that_is_not_a_text_is_an_error_with_its_place(tmp_path):
    (tmp_path / "Pulumi.yaml").write_text("name: [a]\nruntime: python\n")
    with pytest.raises(InputError, match=r"Pulumi\.yaml.*name.*must be a text"):
        engine.read_project_setting(tmp_path, "name")


# A cluster's identities go in as a list and come out as a map by id; keys are read from lists of a lookup.
IDENTITIES_AND_KEYS = """
import base64

import pulumi
from pulumi_azure_native import authorization, containerregistry, containerservice, keyvault, storage

tenant = authorization.get_client_config().tenant_id
assigned = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i"
cluster = containerservice.ManagedCluster(
    "models",
    resource_group_name="group",
    identity={"type": "UserAssigned", "user_assigned_identities": [assigned]},
    agent_pool_profiles=[{"name": "a", "count": 1, "mode": "System", "vm_size": "Standard_D2s_v3"}],
)
pulumi.export("identities", cluster.identity.user_assigned_identities)
keys = storage.list_storage_account_keys(account_name="a", resource_group_name="group")
login = containerregistry.list_registry_credentials(registry_name="r", resource_group_name="group")
access = containerservice.list_managed_cluster_admin_credentials("group", "models")
text = base64.b64decode(access.kubeconfigs[0].value).decode()
tags = {"key": keys.keys[0].value, "user": login.username, "password": login.passwords[0].value, "text": text}
keyvault.Vault(
    "secrets", resource_group_name="group", tags=tags,
    properties={"tenant_id": tenant, "sku": {"family": "A", "name": "standard"}},
)
"""


def test_identities_in_a_list_and_keys_of_lookups_are_evaluated(evaluate):
    resources = evaluate(IDENTITIES_AND_KEYS)
    cluster = resources["azure-native:containerservice:ManagedCluster", "models"]
    assert isinstance(cluster.inputs["identity"]["userAssignedIdentities"], list | tuple)
    vault = resources["azure-native:keyvault:Vault", "secrets"]
    assert vault.inputs["tags"] == {"key": "<key>", "user": "<user>", "password": "<password>", "text": ""}
    assert vault.inputs["properties"]["tenantId"] == "<tenant>"


def test_azure_answers_assigned_identities_with_a_map():
    from gpufleet.cost.inputs.program import monitor

    inputs = {"identity": {"userAssignedIdentities": ["a", "b"]}, "pools": [{"userAssignedIdentities": {}}]}
    answer = monitor.answer_like_provider("azure-native:web:WebApp", inputs)
    assert answer["identity"] == {"userAssignedIdentities": {"a": {}, "b": {}}}
    assert answer["pools"] == inputs["pools"]
    assert monitor.answer_like_provider("aws:ec2/instance:Instance", inputs) == inputs


def test_lookup_of_the_classic_azure_account_has_its_tenant():
    from gpufleet.cost.inputs.program import monitor

    answer = monitor.mock_lookup_result("azure:core/getClientConfig:getClientConfig", {}, "")
    assert answer["tenantId"] == "<tenant>"


def test_main_may_be_a_file(evaluate, tmp_path):
    evaluate(REFERENCED)
    (tmp_path / "tap.py").write_text((tmp_path / "__main__.py").read_text())
    (tmp_path / "__main__.py").unlink()
    (tmp_path / "Pulumi.yaml").write_text("name: valid\nruntime: python\nmain: tap.py\n")
    names = {each.name for each in cost.evaluate_program(tmp_path, "dev")}
    assert {"network", "subnet", "way-out", "scratch"} <= names
    (tmp_path / "Pulumi.yaml").write_text("name: valid\nruntime: python\nmain: other.py\n")
    with pytest.raises(InputError, match=r"other\.py/__main__\.py: not found"):
        cost.evaluate_program(tmp_path, "dev")


def test_policy_may_be_an_object(evaluate):
    resources = evaluate("""
import pulumi
import pulumi_aws as aws

document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
policy = aws.iam.Policy("policy", policy=pulumi.Output.from_input("any").apply(lambda _: document))
aws.iam.RolePolicy("inline", role="role", policy=policy.policy)
""")
    assert resources["aws:iam/policy:Policy", "policy"].inputs["policy"]["Version"] == "2012-10-17"
    assert json.loads(resources["aws:iam/rolePolicy:RolePolicy", "inline"].inputs["policy"])["Statement"]

"""The simulated clouds check every input, at every depth, by what the installed SDKs and the providers' sources say."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import pytest
import yaml

from gpufleet.rehearsal.providers import CLOUDS
from gpufleet.rehearsal.providers.schema import load_cloud_schema
from gpufleet.rehearsal.providers.validation import find_input_problems
from tools.provider_schema import build_cloud_schema, format_schema
from tools.provider_schema.aws_machines import build_aws_machines, format_machines
from tools.provider_schema.terraform_source import parse_resource_source

DATA = resources.files("gpufleet.rehearsal.providers") / "data"
GOLDEN = sorted((Path(__file__).resolve().parents[1] / "cases/cloud").glob("*.yaml"))
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
SCALE_SET = "azure-native:compute:VirtualMachineScaleSet"
MACHINE = "azure-native:compute:VirtualMachine"
NODE = "gcp:compute/instance:Instance"
MANAGER = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"


@pytest.fixture(scope="module")
def clouds():
    return {cloud: load_cloud_schema(cloud) for cloud in CLOUDS}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_schema_data_is_what_the_installed_sdks_say(cloud):
    """If it is not: ``python -m tools.provider_schema``, and read the difference."""
    assert (DATA / "schema" / f"{cloud}.json").read_text() == format_schema(build_cloud_schema(cloud))


def test_schema_covers_at_least_100_resource_types(clouds):
    assert sum(len(schema.inputs.types) for schema in clouds.values()) >= 100


@pytest.mark.parametrize(
    ("token", "inputs", "problem"),
    [
        (
            TEMPLATE,
            {"networkInterfaces": [{"interfaceTyp": "efa"}]},
            (
                "networkInterfaces[0].interfaceTyp",
                "LaunchTemplateNetworkInterface has no property 'interfaceTyp'; did you mean 'interfaceType'?",
            ),
        ),
        (
            TEMPLATE,
            {"networkInterfaces": [{"interfaceType": "ena"}]},
            ("networkInterfaces[0].interfaceType", "'ena' is not a valid value"),
        ),
        (
            TEMPLATE,
            {"networkInterfaces": {"deviceIndex": 0}},
            ("networkInterfaces", "expected a list, got an object"),
        ),
        (
            TEMPLATE,
            {"instanceMarketOptions": {"marketType": "reserved"}},
            ("instanceMarketOptions.marketType", "'reserved' is not a valid value"),
        ),
        (TEMPLATE, {"instanceType": "p9.huge"}, ("instanceType", "'p9.huge' is not a valid value")),
        (
            "aws:ec2/placementGroup:PlacementGroup",
            {"strategy": "close"},
            ("strategy", "'close' is not a valid value"),
        ),
        (
            "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
            {"fromPort": "ssh"},
            ("fromPort", "expected a whole number, got 'ssh'"),
        ),
        (
            NODE,
            {"scheduling": {"onHostMaintenance": "STOP"}},
            ("scheduling.onHostMaintenance", "'STOP' is not"),
        ),
        (
            NODE,
            {"networkInterfaces": [{"nicType": "gvnic"}]},
            ("networkInterfaces[0].nicType", "'gvnic' is not a valid value; the API takes GVNIC"),
        ),
        (NODE, {"tags": {"a": "b"}}, ("tags", "expected a list, got an object")),
        (
            MANAGER,
            {"updatePolicy": {"minimalAction": "REPLACE"}},
            ("updatePolicy.type", "missing required property 'type'"),
        ),
        (
            SCALE_SET,
            {"virtualMachineProfile": {"priority": "spot"}},
            ("virtualMachineProfile.priority", "'spot' is not a valid value"),
        ),
        (
            SCALE_SET,
            {
                "virtualMachineProfile": {
                    "storageProfile": {"osDisk": {"createOption": "FromImage", "diskSizeGB": "100"}}
                }
            },
            (
                "virtualMachineProfile.storageProfile.osDisk.diskSizeGB",
                "expected a whole number, got '100'",
            ),
        ),
        (MACHINE, {"zones": "1"}, ("zones", "expected a list, got '1'")),
        (
            MACHINE,
            {"networkProfile": {"networkInterfaces": [{"id": "x", "main": True}]}},
            ("networkProfile.networkInterfaces[0].main", "has no property 'main'"),
        ),
    ],
)
def test_wrong_input_is_refused_with_its_path(clouds, token, inputs, problem):
    schema = clouds[token.split(":")[0]]
    path, reason = problem
    problems = dict(find_input_problems(schema, schema.types[token], inputs))
    assert reason in problems[path], problems


def test_terraform_converts_text_and_azure_does_not(clouds):
    aws, azure = clouds["aws"].inputs, clouds["azure-native"].inputs
    assert not list(aws.find_problems(TEMPLATE, {"ebsOptimized": True, "disableApiStop": "true"}))
    assert list(azure.find_problems(MACHINE, {"hardwareProfile": {"vmSize": 3}}))


@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_components_register_what_the_simulated_clouds_take(clouds, path):
    """A recorded input without a value is an output that the recording's fake engine did not know."""
    problems = []
    document = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    for resource in document.get("resources", []) if isinstance(document, dict) else []:
        schema = clouds.get(resource["type"].split(":")[0])
        if schema is None:
            continue
        problems += [
            (resource["type"], resource["name"], path, reason)
            for path, reason in schema.inputs.find_problems(resource["type"], resource["inputs"])
            if not reason.startswith("missing required property")
        ]
        assert resource["type"] in schema.types
    assert not problems


def _has_path(schema, properties, path):
    key, _, rest = path.partition(".")
    if key not in properties:
        return False
    if not rest:
        return True
    child = re.search(r"#([\w./]+)", properties[key])
    return bool(child) and _has_path(schema, schema.objects[child[1]], rest)


def test_replacement_paths_exist_and_have_a_source(clouds):
    for cloud, schema in clouds.items():
        source = json.loads((DATA / "replacements" / f"{cloud}.json").read_text())
        assert set(source["types"]) == set(schema.types)
        for token, kind in schema.types.items():
            assert source["types"][token]["source"]
            for path in (*kind.replace, *kind.server_default, *kind.immutable):
                assert _has_path(schema.inputs, schema.inputs.types[token], path.rstrip("$")), (token, path)


def test_every_aws_row_says_whether_it_was_compared_with_the_source():
    rows = json.loads((DATA / "replacements/aws.json").read_text())["types"]
    unread = {token for token, row in rows.items() if row["read"] is None}
    assert unread == {
        "aws:s3/bucket:Bucket",
        "aws:ec2/networkInterfaceAttachment:NetworkInterfaceAttachment",
    }


def test_terraform_source_is_read_as_terraform_means_it():
    source = """
func ResourceThing() *schema.Resource {
	return &schema.Resource{
		Identity: &schema.ResourceIdentity{SchemaFunc: func() map[string]*schema.Schema{ return nil }},
		Schema: map[string]*schema.Schema{
			"name": {Type: schema.TypeString, Required: true, ForceNew: true, Description: `A { brace.`},
			"mode": {
				Optional: true, Computed: true, // ForceNew: true
				ValidateFunc: validation.StringInSlice([]string{"A", "B", ""}, false),
			},
			"block": {
				Type: schema.TypeList, ForceNew: true,
				Elem: &schema.Resource{Schema: map[string]*schema.Schema{
					"inner": {Type: schema.TypeInt, Optional: true},
					"fixed": {Type: schema.TypeInt, ForceNew: true},
				}},
			},
			"elsewhere": {Type: schema.TypeList, Elem: elsewhereSchema()},
		},
	}
}
func elsewhereSchema() *schema.Resource {
	return &schema.Resource{Schema: map[string]*schema.Schema{"key": {ForceNew: true}}}
}
"""
    by_name = {item.name: item for item in parse_resource_source(source)}
    assert [name for name, item in by_name.items() if item.forces_replacement] == ["name", "block"]
    assert (by_name["mode"].is_computed, by_name["mode"].values) == (True, ["A", "B"])
    assert [(child.name, child.forces_replacement) for child in by_name["block"].children] == [
        ("inner", False),
        ("fixed", True),
    ]
    assert [child.name for child in by_name["elsewhere"].children] == ["key"]


def test_aws_machine_records_are_those_of_moto():
    assert (DATA / "machines/aws.json").read_text() == format_machines(build_aws_machines())

"""The shipped policies: real names, nothing more than the declared resource types need, no wildcard."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import botocore.session
import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/examples/permissions"
EVERY_STACK = "every stack"
READS = ("Describe", "Get", "List")
MODULES = {
    "aws": ("aws",),
    "gcp": ("gcp",),
    "azure": ("compute", "network", "resources", "monitor", "azure_native"),
}


def read_yaml(path):
    return YAML(typ="safe", pure=True).load(path.read_text())


NEEDED = read_yaml(FOLDER / "needed.yaml")


def declared_types(cloud):
    """Return the resource classes that the components call, as ``ec2.Instance``."""
    found = set()
    for path in (ROOT / "modules/gpufleet/cloud").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            *modules, name = ast.unparse(node.func).split(".")
            if (
                not modules
                or modules[0] not in MODULES[cloud]
                or not name[:1].isupper()
                or name.endswith("Args")
            ):
                continue
            if len(modules) == 1 and cloud != "azure":
                continue
            found.add(f"{modules[-1]}.{name}")
    return found - {"ec2.InvokeOptions"}


def policy_actions(name):
    document = json.loads((FOLDER / name).read_text())
    return [action for statement in document["Statement"] for action in statement["Action"]]


def union(cloud):
    return {action for actions in NEEDED[cloud].values() for action in actions}


@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure"])
def test_every_declared_resource_type_has_its_permissions_and_no_other_has(cloud):
    declared = declared_types(cloud)
    assert len(declared) >= 8
    assert declared == set(NEEDED[cloud]) - {EVERY_STACK}


def test_every_aws_action_is_an_operation_of_its_service():
    session = botocore.session.get_session()
    for name in ("aws-preview.json", "aws-up.json", "aws-inventory.json"):
        for action in policy_actions(name):
            service, _, operation = action.partition(":")
            assert operation in session.get_service_model(service).operation_names, action


def test_the_aws_policies_are_what_the_types_need():
    assert set(policy_actions("aws-up.json")) == union("aws")
    assert set(policy_actions("aws-preview.json")) == {
        a for a in union("aws") if a.split(":")[1].startswith(READS)
    }
    assert policy_actions("aws-inventory.json") == ["ec2:DescribeInstances"]


def test_aws_stops_and_deletes_machines_only_of_a_stack_and_only_in_named_regions():
    statements = json.loads((FOLDER / "aws-up.json").read_text())["Statement"]
    owned = next(each for each in statements if "ec2:TerminateInstances" in each["Action"])
    assert owned["Condition"]["Null"] == {"aws:ResourceTag/gpufleet-stack": "false"}
    changing = [each for each in statements if each["Sid"] != "Read"]
    assert all(each["Condition"]["StringEquals"] for each in changing)


def test_the_gcp_roles_are_what_the_types_need():
    up = read_yaml(FOLDER / "gcp-up.yaml")["includedPermissions"]
    preview = read_yaml(FOLDER / "gcp-preview.yaml")["includedPermissions"]
    assert set(up) == union("gcp")
    assert set(preview) == {each for each in up if each.split(".")[-1] in {"get", "list", "getFromFamily"}}


def test_the_azure_roles_are_what_the_types_need():
    up = json.loads((FOLDER / "azure-up.json").read_text())["Actions"]
    preview = json.loads((FOLDER / "azure-preview.json").read_text())["Actions"]
    assert set(up) == union("azure")
    assert set(preview) == {each for each in up if each.endswith("/read")}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.*")), ids=lambda p: p.name)
def test_no_permission_is_a_wildcard(path):
    lists = read_yaml(path) if path.suffix == ".yaml" else json.loads(path.read_text())
    texts = json.dumps(lists)
    for statement in lists.get("Statement", []):
        assert not any("*" in action for action in statement["Action"])
    if path.name.startswith(("gcp", "azure", "needed")):
        assert "*" not in texts

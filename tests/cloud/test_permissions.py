"""Test the shipped policies: existing actions, only those that declared resources need, no wildcard."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import botocore.session
import pytest
from ruamel.yaml import YAML

from gpufleet.cloud.aws_network import SSM_POLICY

ROOT = Path(__file__).resolve().parents[2]
PERMISSIONS = ROOT / "docs/examples/permissions"
EVERY_STACK = "every stack"
BOUGHT = "ec2.CapacityBlockReservation"  # cannot be undone: a policy of its own
PERMISSION_ONLY = {"iam:PassRole"}  # checked by other operations; it is not one itself
READ_VERBS = ("Describe", "Get", "List")
MODULES = {
    "aws": ("aws",),
    "gcp": ("gcp",),
    "azure": ("compute", "network", "resources", "monitor", "azure_native"),
}


def read_yaml(path):
    return YAML(typ="safe", pure=True).load(path.read_text())


REQUIRED = read_yaml(PERMISSIONS / "needed.yaml")


def declared_types(cloud):
    """Return the resource classes that the components call, as ``ec2.Instance``."""
    types = set()
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
            types.add(f"{modules[-1]}.{name}")
    return types - {"ec2.InvokeOptions"}


def policy_actions(name):
    document = json.loads((PERMISSIONS / name).read_text())
    return [action for statement in document["Statement"] for action in statement["Action"]]


def required_actions(cloud):
    return {action for kind, actions in REQUIRED[cloud].items() if kind != BOUGHT for action in actions}


@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure"])
def test_permissions_cover_exactly_the_declared_resource_types(cloud):
    declared = declared_types(cloud)
    assert len(declared) >= 8
    assert declared == set(REQUIRED[cloud]) - {EVERY_STACK}


def test_every_aws_action_exists_in_its_service():
    session = botocore.session.get_session()
    for path in PERMISSIONS.glob("aws-*.json"):
        for action in set(policy_actions(path.name)) - PERMISSION_ONLY:
            prefix, _, operation = action.partition(":")
            service = {"servicequotas": "service-quotas"}.get(prefix, prefix)
            assert operation in session.get_service_model(service).operation_names, action


def test_aws_policies_match_the_declared_types():
    assert set(policy_actions("aws-up.json")) == required_actions("aws")
    assert set(policy_actions("aws-preview.json")) == {
        action for action in required_actions("aws") if action.split(":")[1].startswith(READ_VERBS)
    }
    assert policy_actions("aws-inventory.json") == ["ec2:DescribeInstances"]


def test_only_a_separate_policy_can_buy_a_capacity_block():
    assert policy_actions("aws-purchase.json") == ["ec2:PurchaseCapacityBlock"]
    assert set(REQUIRED["aws"][BOUGHT]) - set(policy_actions("aws-up.json")) == {"ec2:PurchaseCapacityBlock"}


def test_login_reaches_only_nodes_of_a_stack_and_only_by_ssh():
    nodes, document, own = json.loads((PERMISSIONS / "aws-login.json").read_text())["Statement"]
    assert nodes["Condition"]["Null"] == {"ssm:resourceTag/gpufleet-stack": "false"}
    assert document["Resource"].endswith(":document/AWS-StartSSHSession")
    assert own["Resource"].endswith(":session/${aws:userid}-*")


def test_role_of_private_nodes_can_have_no_policy_but_session_managers():
    statements = json.loads((PERMISSIONS / "aws-up.json").read_text())["Statement"]
    attach = next(statement for statement in statements if "iam:AttachRolePolicy" in statement["Action"])
    assert attach["Condition"]["StringEquals"]["iam:PolicyARN"] == [SSM_POLICY]
    for statement in statements:
        if any(action.startswith("iam:") for action in statement["Action"]) and statement["Sid"] != "Read":
            resources = statement["Resource"]
            places = [resources] if isinstance(resources, str) else resources
            assert all("/gpufleet-" in place or "/aws-service-role/" in place for place in places)


def test_aws_policy_limits_changes_to_tagged_machines_and_named_regions():
    statements = json.loads((PERMISSIONS / "aws-up.json").read_text())["Statement"]
    terminate = next(statement for statement in statements if "ec2:TerminateInstances" in statement["Action"])
    assert terminate["Condition"]["Null"] == {"aws:ResourceTag/gpufleet-stack": "false"}
    writes = [statement for statement in statements if statement["Sid"] != "Read"]
    assert all(statement["Condition"]["StringEquals"] for statement in writes)


def test_sweep_may_delete_only_what_is_tagged_on_aws():
    read, delete = json.loads((PERMISSIONS / "aws-sweep.json").read_text())["Statement"]
    assert all(action.split(":")[1].startswith(READ_VERBS) for action in read["Action"])
    assert delete["Condition"]["Null"] == {"aws:ResourceTag/gpufleet-stack": "false"}


@pytest.mark.parametrize("job", ["inventory", "quota", "sweep"])
def test_api_roles_allow_exactly_what_the_code_names_in_its_errors(job):
    """Each call names its permission for the hint of an error: the roles are these names and those of operations."""
    rooms = {
        "inventory": ["nodes/cloud_api"],
        "quota": ["nodes/cloud_api", "operations/quota"],
        "sweep": ["nodes/cloud_api", "operations/sweep"],
    }[job]
    sources = [path for room in rooms for path in (ROOT / "modules/gpufleet" / room).glob("*.py")]
    code = "\n".join(path.read_text() for path in sources)
    azure = json.loads((PERMISSIONS / f"azure-{job}.json").read_text())["Actions"]
    missing = {action for action in azure if action.rpartition("/")[0].rpartition("/")[2] not in code}
    assert missing == set()
    for action in policy_actions(f"aws-{job}.json"):
        operation = action.partition(":")[2]
        snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation).strip(
            "_"
        )
        assert snake.replace("get_a_w_s", "get_aws") in code, action


def test_gcp_roles_match_the_declared_types():
    up = read_yaml(PERMISSIONS / "gcp-up.yaml")["includedPermissions"]
    preview = read_yaml(PERMISSIONS / "gcp-preview.yaml")["includedPermissions"]
    assert set(up) == required_actions("gcp")
    assert set(preview) == {
        action for action in up if action.split(".")[-1] in {"get", "list", "getFromFamily"}
    }


def test_azure_roles_match_the_declared_types():
    up = json.loads((PERMISSIONS / "azure-up.json").read_text())["Actions"]
    preview = json.loads((PERMISSIONS / "azure-preview.json").read_text())["Actions"]
    assert set(up) == required_actions("azure")
    assert set(preview) == {action for action in up if action.endswith("/read")}


def test_azure_bastion_login_may_only_read():
    """Bastion needs its user to read the Bastion, the machine and its card, and nothing else."""
    role = json.loads((PERMISSIONS / "azure-login.json").read_text())
    assert all(action.endswith("/read") for action in role["Actions"])
    assert [role[key] for key in ("NotActions", "DataActions", "NotDataActions")] == [[], [], []]


@pytest.mark.parametrize("path", sorted(PERMISSIONS.glob("*.*")), ids=lambda p: p.name)
def test_no_permission_has_a_wildcard(path):
    document = read_yaml(path) if path.suffix == ".yaml" else json.loads(path.read_text())
    text = json.dumps(document)
    for statement in document.get("Statement", []):
        assert not any("*" in action for action in statement["Action"])
    if path.name.startswith(("gcp", "azure", "needed")):
        assert "*" not in text

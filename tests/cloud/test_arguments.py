"""Test that every argument we pass exists in the provider's SDK, at every depth.

The SDKs take nested arguments as plain dictionaries, and pass on a misspelt key without an error.
"""

from __future__ import annotations

import importlib
import typing

import pytest
from pulumi._types import input_type_py_to_pulumi_names, is_input_type

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
SPOT = {"kind": "spot", "on_eviction": "stop"}
SDKS = {"aws": "pulumi_aws", "gcp": "pulumi_gcp", "azure-native": "pulumi_azure_native"}
POOLS = {
    "aws-on-demand": {"cloud": "aws"},
    "aws-reserved-efa": {"cloud": "aws", "count": 2, "fabric": "auto", "purchase": {"kind": "reserved"}},
    "aws-capacity-block": {
        "cloud": "aws",
        "count": 2,
        "fabric": "efa",
        "purchase": {"kind": "capacity_block", "reservation": "cr-0123456789abcdef0"},
    },
    "aws-volumes": {"cloud": "aws", "machine": "g5.2xlarge", "template": "disks"},
    "aws-ladder": {
        "cloud": "aws",
        "count": 2,
        "group": True,
        "fabric": "efa",
        "template": "disks",
        "purchase": {
            "ladder": [
                {"kind": "capacity_block", "offering": "cb-0123456789abcdef0", "buy": True},
                {"kind": "reserved", "reservation": "cr-0123456789abcdef0"},
                {"kind": "spot", "allocation": "capacity-optimized"},
                {"kind": "on_demand"},
            ]
        },
    },
    "aws-elastic": {
        "cloud": "aws",
        "count": {"min": 0, "max": 3},
        "purchase": {"kind": "spot", "max_usd_per_hour": 9.0},
    },
    "aws-fallback": {"cloud": "aws", "purchase": {"kind": "spot", "fallback": "on_demand"}},
    "gcp-reserved": {"cloud": "gcp", "count": 2, "purchase": {"kind": "reserved"}},
    "gcp-n1": {
        "cloud": "gcp",
        "machine": "n1-standard-8",
        "accelerators": {"model": "T4"},
        "purchase": {"kind": "reserved"},
    },
    "gcp-flex-start": {"cloud": "gcp", "purchase": {"kind": "flex_start", "max_run_hours": 24}},
    "gcp-ladder": {
        "cloud": "gcp",
        "purchase": {"ladder": [{"kind": "reserved", "reservation": "held"}, {"kind": "on_demand"}]},
    },
    "gcp-machines": {
        "cloud": "gcp",
        "machine": "g2-standard-4",
        "purchase": {"kind": "spot", "machines": ["g2-standard-8"]},
    },
    "gcp-elastic": {"cloud": "gcp", "count": {"min": 1, "max": 4}, "purchase": SPOT},
    "azure-spot": {"cloud": "azure", "purchase": SPOT},
    "azure-reserved": {
        "cloud": "azure",
        "machine": "Standard_NC24ads_A100_v4",
        "purchase": {"kind": "reserved"},
    },
    "azure-infiniband": {"cloud": "azure", "count": 2, "fabric": "auto"},
    "azure-elastic": {"cloud": "azure", "machine": "Standard_NC4as_T4_v3", "count": {"min": 1, "max": 4}},
}


def arguments_class(token):
    package, module, name = token.split(":")
    sdk = importlib.import_module(f"{SDKS[package]}.{module.split('/')[0]}")
    # Where a nested type has the plain name (Azure's SubnetArgs), the resource's arguments are its InitArgs.
    return getattr(sdk, f"{name}InitArgs", None) or getattr(sdk, f"{name}Args")


def nested_class(annotation):
    """Return the argument class inside ``Input[Optional[Sequence[Input[X]]]]``, if there is one."""
    if isinstance(annotation, type):
        return annotation if is_input_type(annotation) else None
    classes = [nested_class(part) for part in typing.get_args(annotation)]
    return next((class_ for class_ in classes if class_), None)


def unknown_keys(kind, value, path):
    """Yield every key below ``value`` that ``kind`` does not have."""
    if isinstance(value, list):
        for item in value:
            yield from unknown_keys(kind, item, path)
    elif kind is not None and isinstance(value, dict):
        names = {pulumi: python for python, pulumi in input_type_py_to_pulumi_names(kind).items()}
        for key, inner in value.items():
            if key not in names:
                yield f"{path}.{key}"
            else:
                hints = typing.get_type_hints(getattr(kind, names[key]).fget)
                yield from unknown_keys(nested_class(hints["return"]), inner, f"{path}.{key}")


def list_unknown_arguments(evaluated):
    resources = evaluated.recorder.resources
    cloud_resources = [resource for resource in resources if resource.typ.split(":")[0] in SDKS]
    assert len(cloud_resources) > 3
    return [
        key
        for resource in cloud_resources
        for key in unknown_keys(arguments_class(resource.typ), resource.inputs, resource.typ)
    ]


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS.keys())
def test_every_resource_argument_exists_in_the_sdk(evaluate, pool):
    templates = {"plain": {}, "disks": {"volumes": [{"name": "data", "size_gib": 500, "kind": "ssd"}]}}
    evaluated = evaluate(pool, cidrs=["10.0.0.0/8", "fd00::/8"], templates=templates)
    assert list_unknown_arguments(evaluated) == []


@pytest.mark.parametrize(("machine", "zone"), [("a3-highgpu-8g", "a"), ("a3-ultragpu-8g", "b")])
@pytest.mark.parametrize("group", [False, True])
def test_every_argument_of_gpudirect_and_private_access_exists_in_the_sdk(evaluate, machine, zone, group):
    pool = {"cloud": "gcp", "machine": machine, "count": 2, "fabric": "auto", "group": group}
    pool |= {"zones": [f"us-central1-{zone}"], "template": "data", "purchase": {"kind": "spot"}}
    account = {"project": "my-project", "service_account": "gpu-nodes@my-project.iam.gserviceaccount.com"}
    templates = {"data": {"volumes": [{"name": "data", "size_gib": 300, "kind": "ssd"}]}}
    ssh = {"authorized_keys": [KEY], "allowed_cidrs": [], "access": "private"}
    assert list_unknown_arguments(evaluate(pool, gcp=account, templates=templates, ssh=ssh)) == []


def test_check_detects_a_misspelt_nested_key():
    kind = arguments_class("aws:ec2/instance:Instance")
    misspelt = {"instanceMarketOptions": {"marketType": "spot", "spotOptions": {"maxPrise": "1"}}}
    assert list(unknown_keys(kind, misspelt, "it")) == ["it.instanceMarketOptions.spotOptions.maxPrise"]

"""Which image a pool boots, and what its first boot does; left out, everything is as it was."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from gpufleet import catalog, fleet
from gpufleet.cloud import images, user_data

P4D = catalog.machine("p4d.24xlarge", "aws")
A2 = catalog.machine("a2-megagpu-16g", "gcp")
ND = catalog.machine("Standard_ND96amsr_A100_v4", "azure")


def pool(image="auto"):
    return SimpleNamespace(image=fleet.OwnImage(**image) if isinstance(image, dict) else image)


def aws(image):
    found = images.aws_lookup(pool(image), P4D)
    return found["owners"], found["filters"][0]["values"]


@pytest.mark.parametrize(
    ("image", "owner", "value"),
    [
        ("auto", "amazon", "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) *"),
        ("vendor", "amazon", "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) *"),
        ("base", images.CANONICAL_ON_AWS, "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-*"),
        ({"name": "gpufleet-node"}, "self", "gpufleet-node*"),
        ({"id": "ami-0123456789abcdef0"}, "self", "ami-0123456789abcdef0"),
    ],
)
def test_aws(image, owner, value):
    assert aws(image) == ([owner], [value])


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("auto", {"project": "ubuntu-os-cloud", "family": "ubuntu-2204-lts"}),
        ("base", {"project": "ubuntu-os-cloud", "family": "ubuntu-2204-lts"}),
        ({"name": "gpufleet-node"}, {"family": "gpufleet-node"}),
        (
            {"name": "gpufleet-node", "owner": "our-images"},
            {"project": "our-images", "family": "gpufleet-node"},
        ),
        ({"id": "gpufleet-node-1"}, {"name": "gpufleet-node-1"}),
    ],
)
def test_gcp(image, found):
    assert images.gcp_lookup(pool(image), A2) == found


@pytest.mark.parametrize(
    ("image", "key", "value"),
    [
        ("auto", "offer", "ubuntu-hpc"),
        ("vendor", "offer", "ubuntu-hpc"),
        ("base", "offer", "0001-com-ubuntu-server-jammy"),
        ({"id": "/subscriptions/s/i"}, "id", "/subscriptions/s/i"),
    ],
)
def test_azure(image, key, value):
    assert images.azure_reference(pool(image), ND)[key] == value


@pytest.fixture
def declared(repo_root):
    return fleet.load("production", repo_root)


def test_left_out_the_first_boot_lets_the_keys_in_and_nothing_else(declared):
    text = user_data.cloud_init(declared, declared.pools[0])
    assert list(json.loads(text.partition("\n")[2])) == ["ssh_authorized_keys"]
    assert user_data.alone(declared, declared.pools[0]) is None


@pytest.mark.parametrize(
    ("engine", "package"), [("podman", "podman"), ("docker", "docker.io"), ("auto", "podman")]
)
def test_packages_are_those_that_the_template_will_need(declared, engine, package):
    one = declared.pools[0].model_copy(update={"first_boot": "packages", "template": "t"})
    template = fleet.Template(
        hardware=fleet.HardwareProfile(storage={"layout": "raid0", "filesystem": "xfs"}),
        software=fleet.SoftwareProfile(container_engine=engine, container_toolkit=True),
    )
    stack = declared.model_copy(update={"templates": {"t": template}})
    told = json.loads(user_data.alone(stack, one).partition("\n")[2])
    assert told == {"package_update": True, "packages": ["python3", package, "mdadm", "xfsprogs"]}
    whole = user_data.cloud_init(stack, one)
    assert json.loads(whole.partition("\n")[2])["packages"] == told["packages"]
    assert whole.startswith("#cloud-config\n")

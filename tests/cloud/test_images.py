"""Test which image a pool boots, and what its first boot installs."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from gpufleet import catalog, fleet
from gpufleet.cloud import images, user_data

P4D = catalog.get_machine("p4d.24xlarge", "aws")
A2 = catalog.get_machine("a2-megagpu-16g", "gcp")
ND = catalog.get_machine_facts("Standard_ND96amsr_A100_v4", "azure")


def pool(image="auto"):
    return SimpleNamespace(image=fleet.CustomImage(**image) if isinstance(image, dict) else image)


def query_aws(image):
    query = images.build_aws_image_query(pool(image), P4D, catalog.MachineFacts("aws", P4D.name))
    return query["owners"], query["filters"][0]["values"]


def test_gpu_without_an_open_kernel_module_gets_no_image_that_has_one():
    machine = catalog.get_machine("g5.2xlarge", "aws")
    assert images.choose_aws_image(machine, "auto", "open").owner == "amazon"
    assert images.choose_aws_image(machine, "auto", "proprietary").owner == images.CANONICAL_ON_AWS


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
def test_aws_image_query_has_the_expected_filters(image, owner, value):
    assert query_aws(image) == ([owner], [value])


@pytest.mark.parametrize(
    ("image", "query"),
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
def test_gcp_image_query_has_the_expected_filters(image, query):
    assert images.build_gcp_image_query(pool(image), A2) == query


@pytest.mark.parametrize(
    ("image", "key", "value"),
    [
        ("auto", "offer", "ubuntu-hpc"),
        ("vendor", "offer", "ubuntu-hpc"),
        ("base", "offer", "0001-com-ubuntu-server-jammy"),
        ({"id": "/subscriptions/s/i"}, "id", "/subscriptions/s/i"),
    ],
)
def test_azure_image_reference_is_complete(image, key, value):
    assert images.build_azure_image_reference(pool(image), ND)[key] == value


@pytest.fixture
def production(repo_root):
    return fleet.load_fleet("production", repo_root)


def test_image_leaves_local_drives_to_the_volumes_of_the_template(production):
    """AWS's GPU images mount all local drives themselves (nvme_location in their release notes)."""
    settings = json.loads(
        user_data.build_cloud_init_with_keys(production, production.pools[0]).partition("\n")[2]
    )
    assert settings["bootcmd"] == [["systemctl", "mask", "dlami-nvme.service"]]


def test_default_first_boot_only_authorizes_the_keys(production):
    pool = production.pools[0].model_copy(update={"template": None})
    text = user_data.build_cloud_init_with_keys(production, pool)
    assert list(json.loads(text.partition("\n")[2])) == ["ssh_authorized_keys"]
    assert user_data.build_cloud_init_without_keys(production, production.pools[0]) is None


@pytest.mark.parametrize(
    ("engine", "package"), [("podman", "podman"), ("docker", "docker.io"), ("auto", "podman")]
)
def test_first_boot_installs_the_packages_that_the_template_needs(production, engine, package):
    pool = production.pools[0].model_copy(update={"first_boot": "packages", "template": "t"})
    template = fleet.NodeTemplate(
        hardware=fleet.HardwareProfile(storage={"layout": "raid0", "filesystem": "xfs"}),
        software=fleet.SoftwareProfile(container_engine=engine, container_toolkit=True),
    )
    stack = production.model_copy(update={"templates": {"t": template}})
    settings = json.loads(user_data.build_cloud_init_without_keys(stack, pool).partition("\n")[2])
    assert settings == {"package_update": True, "packages": ["python3", package, "mdadm", "xfsprogs"]}
    with_keys = user_data.build_cloud_init_with_keys(stack, pool)
    assert json.loads(with_keys.partition("\n")[2])["packages"] == settings["packages"]
    assert with_keys.startswith("#cloud-config\n")

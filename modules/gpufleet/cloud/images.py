"""Which operating system image a node boots: Ubuntu 22.04 on all clouds, chosen by machine. Pure.

22.04 is the release for which all three clouds offer what large GPU machines need: AWS an image with NVIDIA's
open kernel module (GPUDirect over EFA needs it), Azure an HPC image with the InfiniBand stack.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from gpufleet.catalog import Machine, MachineFacts
from gpufleet.fleet import CustomImage, Pool

CANONICAL_ON_AWS = "099720109477"  # Canonical's AWS account: anybody can publish an image of the same name


@dataclass(frozen=True)
class AwsImage:
    """An owner and a name pattern; the newest match is taken."""

    owner: str
    name: str
    architecture: str


@dataclass(frozen=True)
class GcpImage:
    project: str
    family: str


@dataclass(frozen=True)
class AzureImage:
    publisher: str
    offer: str
    sku: str
    version: str = "latest"


CANONICAL_ON_AZURE = AzureImage("Canonical", "0001-com-ubuntu-server-jammy", "22_04-lts-gen2")
HPC_IMAGE_ON_AZURE = "microsoft-dsvm:ubuntu-hpc:2204"


def choose_aws_image(
    machine: Machine,
    image_choice: Literal["auto", "vendor", "base"] = "auto",
    gpu_module: Literal["open", "proprietary"] | None = None,
) -> AwsImage:
    """Return AWS's own GPU base image for NVIDIA machines, Canonical's for the rest.

    AWS's image has NVIDIA's open kernel module: GPUs that need the proprietary one (P3's V100) get Canonical's,
    and their driver from Ansible.
    """
    has_open_module = bool(machine.accelerators) and gpu_module != "proprietary"
    if image_choice != "base" and has_open_module and machine.arch == "x86_64":
        name = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) *"
        return AwsImage("amazon", name, "x86_64")
    architecture = "arm64" if machine.arch == "arm64" else "amd64"
    name = f"ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-{architecture}-server-*"
    return AwsImage(CANONICAL_ON_AWS, name, machine.arch)


def build_aws_image_query(pool: Pool, machine: Machine, facts: MachineFacts) -> dict[str, Any]:
    """Return the query for the pool's image: owners and filters, as the provider takes them."""
    if isinstance(pool.image, CustomImage):
        key, value = ("image-id", pool.image.id) if pool.image.id else ("name", f"{pool.image.name}*")
        filters = [{"name": key, "values": [value]}, {"name": "architecture", "values": [machine.arch]}]
        return {"owners": [pool.image.owner], "filters": filters}
    image = choose_aws_image(machine, pool.image, facts.gpu_module)
    filters = [
        {"name": "name", "values": [image.name]},
        {"name": "architecture", "values": [image.architecture]},
    ]
    return {"owners": [image.owner], "filters": filters}


def choose_gcp_image(machine: Machine) -> GcpImage:
    """Return Canonical's image family; Ansible installs the driver."""
    return GcpImage(
        "ubuntu-os-cloud", "ubuntu-2204-lts-arm64" if machine.arch == "arm64" else "ubuntu-2204-lts"
    )


def build_gcp_image_query(pool: Pool, machine: Machine) -> dict[str, str]:
    """Return the query for the pool's image; a custom one is in the pool's project unless it names another."""
    if isinstance(pool.image, CustomImage):
        name = {"name": pool.image.id} if pool.image.id else {"family": str(pool.image.name)}
        project = {} if pool.image.owner == "self" else {"project": pool.image.owner}
        return {key: str(value) for key, value in {**project, **name}.items()}
    return asdict(choose_gcp_image(machine))


def choose_azure_image(
    image_choice: Literal["auto", "vendor", "base"], vendor_image: str | None
) -> AzureImage:
    """Return the HPC image, which has drivers and InfiniBand, for machines that need one; else Canonical's.

    ``vendor_image`` is the one that the machine's facts name, as publisher:offer:sku. All are of generation 2.
    """
    if image_choice == "vendor" or (image_choice == "auto" and vendor_image):
        return AzureImage(*(vendor_image or HPC_IMAGE_ON_AZURE).split(":"))
    return CANONICAL_ON_AZURE


def build_azure_image_reference(pool: Pool, facts: MachineFacts) -> dict[str, str]:
    """Return the image reference as Azure's machines take it."""
    if isinstance(pool.image, CustomImage):
        return {"id": str(pool.image.id)}
    return asdict(choose_azure_image(pool.image, facts.image))


def has_canonical_image_on_azure(pool: Pool, facts: MachineFacts) -> bool:
    """Return whether the pool boots Canonical's image."""
    if isinstance(pool.image, CustomImage):
        return False
    return choose_azure_image(pool.image, facts.image) == CANONICAL_ON_AZURE

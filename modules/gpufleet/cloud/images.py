"""Which operating system image a node boots: Ubuntu 22.04 on all clouds, chosen by machine. Pure.

22.04 is the release for which all three clouds offer what large GPU machines need: AWS an image with NVIDIA's
open kernel module (GPUDirect over EFA needs it), Azure an HPC image with the InfiniBand stack.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.catalog import Machine

CANONICAL_ON_AWS = "099720109477"  # Canonical's AWS account: an image name alone could be anybody's


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


def aws_image(machine: Machine) -> AwsImage:
    """Return AWS's own GPU base image for NVIDIA machines, Canonical's for the rest."""
    if machine.accelerators and machine.arch == "x86_64":
        name = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) *"
        return AwsImage("amazon", name, "x86_64")
    letters = "arm64" if machine.arch == "arm64" else "amd64"
    name = f"ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-{letters}-server-*"
    return AwsImage(CANONICAL_ON_AWS, name, machine.arch)


def gcp_image(machine: Machine) -> GcpImage:
    """Return Canonical's family; the driver is the configuration's business."""
    return GcpImage(
        "ubuntu-os-cloud", "ubuntu-2204-lts-arm64" if machine.arch == "arm64" else "ubuntu-2204-lts"
    )


def azure_image(machine: Machine) -> AzureImage:
    """Return the HPC image for InfiniBand machines, Canonical's Gen2 image for the rest."""
    if machine.fabric == "infiniband":
        return AzureImage("microsoft-dsvm", "ubuntu-hpc", "2204")
    return AzureImage("Canonical", "0001-com-ubuntu-server-jammy", "22_04-lts-gen2")

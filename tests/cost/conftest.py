"""Manual prices, a fixture that makes resources, and the packages of TypeScript programs."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path

import pytest

from gpufleet.catalog import Price
from gpufleet.cost import PriceBook
from gpufleet.engine import StateResource

US = ("aws", "us-east-1")
FAKE_PRICES = {
    (*US, "p4d.24xlarge", "on_demand"): 21.957642,
    (*US, "g5.2xlarge", "on_demand"): 1.212,
    (*US, "g5.xlarge", "on_demand"): 1.006,
    ("gcp", "us-central1", "g2-standard-4", "on_demand"): 0.706832,
    ("gcp", "us-central1", "a2-ultragpu-1g", "on_demand"): 5.068798,
    ("gcp", "us-central1", "a3-highgpu-8g", "on_demand"): 88.49,
    ("gcp", "us-central1", "a3-megagpu-8g", "on_demand"): 92.21427,
    ("gcp", "us-central1", "a3-ultragpu-8g", "on_demand"): 86.75992,
    (*US, "g5.2xlarge", "spot"): 0.43632,
    (*US, "ebs:gp3", "on_demand"): 0.0001,
    (*US, "public_ipv4", "on_demand"): 0.005,
    (*US, "ebs:gp2", "on_demand"): 0.0002,
    (*US, "ebs:gp3:iops", "on_demand"): 0.000007,
    (*US, "nat_gateway", "on_demand"): 0.045,
    (*US, "load_balancer:application", "on_demand"): 0.0225,
    (*US, "load_balancer:network", "on_demand"): 0.0225,
    (*US, "kubernetes_cluster", "on_demand"): 0.1,
    (*US, "kubernetes_cluster:extended_support", "on_demand"): 0.6,
    ("gcp", "us-central1", "kubernetes_cluster", "on_demand"): 0.1,
    ("gcp", "us-central1", "load_balancer:forwarding_rule", "on_demand"): 0.025,
    ("azure", "eastus", "Standard_ND96amsr_A100_v4", "spot"): 9.831,
    ("azure", "eastus", "kubernetes_cluster", "on_demand"): 0.11,
    ("azure", "eastus", "nat_gateway", "on_demand"): 0.045,
    ("azure", "eastus", "bastion", "on_demand"): 0.19,
    ("azure", "eastus", "load_balancer:standard", "on_demand"): 0.025,
    ("aws", "us-west-2", "p4d.24xlarge", "on_demand"): 22.5,
    ("aws", "us-west-2", "ebs:gp3", "on_demand"): 0.0001,
    ("gcp", "us-central1", "n1-standard-8", "on_demand"): 0.379998,
    ("gcp", "us-central1", "accelerator:nvidia-tesla-t4", "on_demand"): 0.35,
    ("gcp", "us-central1", "a2-megagpu-16g", "spot"): 29.25568,
    ("gcp", "us-central1", "pd-balanced", "on_demand"): 0.0002,
    ("gcp", "us-central1", "local-ssd", "on_demand"): 0.00011,
    ("gcp", "us-central1", "public_ipv4", "on_demand"): 0.004,
    ("gcp", "us-central1", "public_ipv4", "spot"): 0.003,
    ("azure", "eastus", "Standard_ND96amsr_A100_v4", "on_demand"): 32.77,
    ("azure", "eastus", "Standard_ND96amsr_A100_v4", "reserved_1y"): 20.97283,
    ("azure", "eastus", "premium-ssd-p10", "on_demand"): 0.027,
    ("azure", "eastus", "public_ipv4", "on_demand"): 0.006,
}


def find_fake_price(cloud, region, item, purchase):
    usd = FAKE_PRICES.get((cloud, region, item, purchase))
    if usd is None:
        return None
    return Price(usd, "unit", "2026-07-06", "written by hand", "high", region, purchase)


def money(*amounts):
    """Sum price times quantity times hours, each written out."""
    return sum((Decimal(str(a)) * Decimal(str(b)) * Decimal(str(c)) for a, b, c in amounts), Decimal(0))


@pytest.fixture(scope="session")
def book():
    return PriceBook(find_fake_price, find_fake_price)


@pytest.fixture
def make_resource():
    """Make an EC2 instance, or another resource by its type."""

    def build(name="a", type_="aws:ec2/instance:Instance", inputs=None, **fields):
        default_inputs = {"instanceType": "p4d.24xlarge", "region": "us-east-1", "rootBlockDevice": ROOT_DISK}
        urn = f"urn:pulumi:prod::gpufleet::{type_}::{name}"
        all_inputs = SUBNETS_OUTSIDE.get(type_, {}) | (default_inputs if inputs is None else inputs)
        return StateResource(urn, type_, name, all_inputs, {}, **fields)

    return build


# Without a subnet, a machine is in a default one and has a public address.
SUBNETS_OUTSIDE = {
    "aws:ec2/instance:Instance": {"subnetId": "subnet-outside"},
    "aws:autoscaling/group:Group": {"vpcZoneIdentifiers": ["subnet-outside"]},
}
ROOT_DISK = {"volumeSize": 100, "volumeType": "gp3"}


NODE_PACKAGES = Path(__file__).parents[1] / "cases/node_packages"


@pytest.fixture(scope="session")
def node_modules(request):
    """Install the pinned packages of TypeScript programs, once for all runs; return their ``node_modules``."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    files = [NODE_PACKAGES / name for name in ("package.json", "package-lock.json")]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    folder = Path(request.config.cache.mkdir(f"node-{digest}"))
    if not (folder / "complete").exists():
        for file in files:
            shutil.copy(file, folder)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
        subprocess.run(command, cwd=folder, check=True, timeout=600)
        (folder / "complete").touch()
    return folder / "node_modules"

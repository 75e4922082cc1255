"""The resources that GCP pools share: one network, a subnet per region, a firewall."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp

from gpufleet.fleet import Fleet, slugify

REGION_CIDR_COUNT = 1023  # /20 ranges from 10.160.0.0 on; with 1,024 two of Google's regions would collide


@dataclass(frozen=True)
class GcpNetworkArgs:
    fleet: Fleet
    regions: tuple[str, ...]


class GcpNetwork(pulumi.ComponentResource):
    """A network for the stack: the project's default one allows SSH from any address."""

    def __init__(self, name: str, args: GcpNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare network, subnets, and SSH from the spec's networks."""
        super().__init__("gpufleet:cloud:GcpNetwork", name, {"regions": list(args.regions)}, opts)
        self.name = name
        self.stack = slugify(args.fleet.stack)
        self.project = args.fleet.gcp.project if args.fleet.gcp else None
        self.node_tag = f"{self.stack}-node"  # which machines the firewall rules are for
        self.network = gcp.compute.Network(
            name,
            name=f"gpufleet-{self.stack}",
            auto_create_subnetworks=False,
            project=self.project,
            opts=self.child_options(),
        )
        self.subnets = {region: self._declare_subnet(region) for region in args.regions}
        blocks = args.fleet.ssh.allowed_cidrs
        for version in (4, 6):  # a rule holds ranges of one version
            self._declare_ssh_rule(version, [str(block) for block in blocks if block.version == version])
        self.register_outputs({"network": self.network.id})

    def child_options(self, **options: Any) -> pulumi.ResourceOptions:
        """Return resource options with this component as parent."""
        return pulumi.ResourceOptions(parent=self, **options)

    def _declare_subnet(self, region: str) -> Any:
        return gcp.compute.Subnetwork(
            f"{self.name}-{region}",
            name=f"gpufleet-{self.stack}-{region}",
            network=self.network.id,
            ip_cidr_range=subnet_cidr(region),
            region=region,
            private_ip_google_access=True,
            project=self.project,
            opts=self.child_options(delete_before_replace=True),
        )

    def _declare_ssh_rule(self, version: int, ranges: list[str]) -> None:
        if not ranges:
            return
        gcp.compute.Firewall(
            f"{self.name}-ssh-ipv{version}",
            name=f"gpufleet-{self.stack}-ssh-ipv{version}",
            network=self.network.id,
            direction="INGRESS",
            allows=[{"protocol": "tcp", "ports": ["22"]}],
            source_ranges=ranges,
            target_tags=[self.node_tag],
            project=self.project,
            opts=self.child_options(delete_before_replace=True),
        )


def subnet_cidr(region: str) -> str:
    """Return a region's address range, computed from its name: another region in the spec changes nothing.

    A test verifies that no two known regions share one.
    """
    number = int(hashlib.sha256(region.encode()).hexdigest(), 16) % REGION_CIDR_COUNT
    return f"10.{160 + number // 16}.{16 * (number % 16)}.0/20"

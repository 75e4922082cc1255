"""The resources that GCP pools share: one network, a subnet per region, firewall rules, the way out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp

from gpufleet.cloud.gcp_address import fabric_cidr
from gpufleet.fleet import Fleet, slugify

REGION_CIDR_COUNT = 1023  # /20 ranges from 10.160.0.0 on; with 1,024 two of Google's regions would collide
# Google, "Using IAP for TCP forwarding": the addresses from which Identity-Aware Proxy connects.
IAP_RANGE = "35.235.240.0/20"


@dataclass(frozen=True)
class GcpNetworkArgs:
    fleet: Fleet
    regions: tuple[str, ...]
    mtu: int | None = None  # GPUDirect needs large packets; Google's default otherwise


class GcpNetwork(pulumi.ComponentResource):
    """A network for the stack: the project's default one allows SSH from any address."""

    def __init__(self, name: str, args: GcpNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare network, subnets, and SSH from the spec's networks or through Google's proxy."""
        super().__init__("gpufleet:cloud:GcpNetwork", name, {"regions": list(args.regions)}, opts)
        self.name = name
        self.stack = slugify(args.fleet.stack)
        self.project = args.fleet.gcp.project if args.fleet.gcp else None
        self.is_private = args.fleet.ssh.access == "private"
        self.node_tag = f"{self.stack}-node"  # which machines the firewall rules are for
        self.network = self.declare_network(name, "", args.mtu)
        self.subnets = {
            region: self.declare_subnet(f"{name}-{region}", region, self.network, region, subnet_cidr(region))
            for region in args.regions
        }
        self.fabric = GcpFabricNetworks(self)
        blocks = args.fleet.ssh.allowed_cidrs
        for version in (4, 6):  # a rule holds ranges of one version
            ranges = [str(block) for block in blocks if block.version == version]
            self._declare_ssh_rule(f"ssh-ipv{version}", ranges)
        if self.is_private:
            self._declare_ssh_rule("ssh-iap", [IAP_RANGE])
            for region in args.regions:
                self._declare_way_out(region)
        self.register_outputs({"network": self.network.id})

    def child_options(self, **options: Any) -> pulumi.ResourceOptions:
        """Return resource options with this component as parent."""
        return pulumi.ResourceOptions(parent=self, **options)

    def declare_network(self, name: str, suffix: str, mtu: int | None, profile: str | None = None) -> Any:
        """Declare a network without subnets."""
        return gcp.compute.Network(
            name,
            name=f"gpufleet-{self.stack}{suffix}",
            auto_create_subnetworks=False,
            mtu=mtu,
            network_profile=profile,
            project=self.project,
            opts=self.child_options(),
        )

    def declare_subnet(self, name: str, suffix: str, network: Any, region: str, cidr: str) -> Any:
        """Declare a subnet of a network in a region."""
        return gcp.compute.Subnetwork(
            name,
            name=f"gpufleet-{self.stack}-{suffix}",
            network=network.id,
            ip_cidr_range=cidr,
            region=region,
            private_ip_google_access=True,
            project=self.project,
            opts=self.child_options(delete_before_replace=True),
        )

    def _declare_ssh_rule(self, name: str, ranges: list[str]) -> None:
        if not ranges:
            return
        gcp.compute.Firewall(
            f"{self.name}-{name}",
            name=f"gpufleet-{self.stack}-{name}",
            network=self.network.id,
            direction="INGRESS",
            allows=[{"protocol": "tcp", "ports": ["22"]}],
            source_ranges=ranges,
            target_tags=[self.node_tag],
            project=self.project,
            opts=self.child_options(delete_before_replace=True),
        )

    def _declare_way_out(self, region: str) -> None:
        """Declare Cloud NAT for nodes without public addresses."""
        router = gcp.compute.Router(
            f"{self.name}-{region}",
            name=f"gpufleet-{self.stack}-{region}",
            network=self.network.id,
            region=region,
            project=self.project,
            opts=self.child_options(delete_before_replace=True),
        )
        gcp.compute.RouterNat(
            f"{self.name}-{region}",
            name=f"gpufleet-{self.stack}-{region}",
            router=router.name,
            region=region,
            nat_ip_allocate_option="AUTO_ONLY",
            source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
            # A node that pulls images opens more connections than the 64 ports of a fixed share.
            enable_dynamic_port_allocation=True,
            enable_endpoint_independent_mapping=False,  # Google refuses it together with dynamic ports
            project=self.project,
            opts=self.child_options(delete_before_replace=True),
        )


class GcpFabricNetworks:
    """The further networks of nodes with GPUDirect. The first pool that needs one declares it."""

    def __init__(self, network: GcpNetwork) -> None:
        self._network = network
        self._networks: dict[str, Any] = {}
        self._subnets: dict[str, Any] = {}

    def get_network(self, name: str, mtu: int, profile: str | None = None) -> str:
        """Return the network's name after declaring it if it is new."""
        if name not in self._networks:
            self._networks[name] = self._network.declare_network(
                f"{self._network.name}-{name}", f"-{name}", mtu, profile
            )
            if profile is None:  # a network with a profile for RDMA takes no firewall rules
                self._declare_node_rule(name)
        return name

    def get_subnet(self, name: str, index: int, region: str, suffix: str = "") -> Any:
        """Return the subnet of a network in a region after declaring it if it is new."""
        key = f"{name}-{region}{suffix}"
        if key not in self._subnets:
            cidr = fabric_cidr(index, region_number(region))
            self._subnets[key] = self._network.declare_subnet(
                f"{self._network.name}-{key}", key, self._networks[name], region, cidr
            )
        return self._subnets[key]

    def _declare_node_rule(self, name: str) -> None:
        network = self._network
        gcp.compute.Firewall(
            f"{network.name}-{name}-among",
            name=f"gpufleet-{network.stack}-{name}-among",
            network=self._networks[name].id,
            direction="INGRESS",
            allows=[{"protocol": "all"}],
            source_tags=[network.node_tag],
            target_tags=[network.node_tag],
            project=network.project,
            opts=network.child_options(delete_before_replace=True),
        )


def region_number(region: str) -> int:
    """Return a region's number, computed from its name: another region in the spec changes nothing.

    A test verifies that no two known regions share one.
    """
    return int(hashlib.sha256(region.encode()).hexdigest(), 16) % REGION_CIDR_COUNT


def subnet_cidr(region: str) -> str:
    """Return the address range of the nodes in a region."""
    number = region_number(region)
    return f"10.{160 + number // 16}.{16 * (number % 16)}.0/20"

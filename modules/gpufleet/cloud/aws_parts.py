"""The parts of an AWS pool that its single nodes and its groups share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pulumi

from gpufleet.cloud.aws_fabric import has_several_interfaces
from gpufleet.cloud.aws_network import AwsNetwork, AwsSubnet
from gpufleet.cloud.pool_plan import PoolPlan
from gpufleet.fleet import aws_device_name

# IMDSv2 only, and one hop: a container cannot read the node's credentials.
METADATA_OPTIONS = {"http_endpoint": "enabled", "http_tokens": "required", "http_put_response_hop_limit": 1}


@dataclass(frozen=True)
class AwsPoolParts:
    """What ``AwsPool`` has declared before its nodes; ``component`` becomes the parent of what follows."""

    component: pulumi.ComponentResource
    plan: PoolPlan
    network: AwsNetwork
    zones: tuple[str, ...]
    image: Any
    security_group: Any
    placement_group: Any = None

    def child_options(self, **options: Any) -> pulumi.ResourceOptions:
        """Return resource options with the pool's component as parent."""
        return pulumi.ResourceOptions(parent=self.component, **options)

    @cached_property
    def is_private(self) -> bool:
        """True if nodes have no public address: the spec wants it so, or AWS gives them none."""
        return self.plan.fleet.ssh.access == "private" or has_several_interfaces(self.plan)

    def get_subnet(self, zone: str) -> AwsSubnet:
        return self.network.get_or_declare_subnet(zone, is_private=self.is_private)

    def zone_of_node(self, node_index: int) -> str:
        """Return the zone of a node: the pool's zones in turn. A fabric does not leave its zone."""
        return self.zones[0] if self.plan.fabric else self.zones[node_index % len(self.zones)]

    def build_tag_specifications(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the tags that a launch template gives to what comes with an instance."""
        return [{"resource_type": kind, "tags": self.plan.build_tags()} for kind in kinds]

    def list_data_volumes(self) -> list[tuple[str, str, int]]:
        """Return name, device and GiB of each volume that a node needs beyond its local drives."""
        return [
            (disk.name, aws_device_name(number), disk.size_gib)
            for number, disk in enumerate(self.plan.volumes.disks)
        ]

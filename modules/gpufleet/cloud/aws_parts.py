"""The parts of an AWS pool that its single nodes and its groups share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi

from gpufleet.cloud.aws_network import AwsNetwork
from gpufleet.cloud.pool_plan import PoolPlan

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
    reservation: Any = None

    def child_options(self, **options: Any) -> pulumi.ResourceOptions:
        """Return resource options with the pool's component as parent."""
        return pulumi.ResourceOptions(parent=self.component, **options)

    def reservation_target(self) -> dict[str, Any] | None:
        """Return the reservation that the nodes use; None lets AWS match open ones."""
        target = self.plan.existing_reservation or (self.reservation.id if self.reservation else None)
        return {"capacity_reservation_target": {"capacity_reservation_id": target}} if target else None

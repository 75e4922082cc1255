"""Pools as cloud resources.

In comes a declared fleet. Out go Pulumi resources, one component per pool (``gpufleet:cloud:AwsPool``,
``GcpPool``, ``AzurePool``), one per rack and workstation (``gpufleet:onprem:Rack``, ``Workstation``), and the
stack output ``nodes``: facts of every node. Nodes of a fixed count are resources of their own, so that one of
them can be replaced; elastic counts are the cloud's own groups. The provider SDKs are imported only for clouds
that the fleet uses.
"""

from __future__ import annotations

from gpufleet.cloud.build import build
from gpufleet.cloud.plan import PoolPlan

__all__ = ["PoolPlan", "build"]

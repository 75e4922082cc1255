"""Pools as cloud resources.

Input: a declared fleet. Output: Pulumi resources, one component per pool (``gpufleet:cloud:AwsPool``,
``GcpPool``, ``AzurePool``), one per rack and workstation (``gpufleet:onprem:Rack``, ``Workstation``), and the
stack output ``nodes``: facts of every node. Nodes of a fixed count are separate resources, so that one of
them can be replaced; elastic counts use the cloud's own groups. The provider SDKs are imported only for clouds
that the fleet uses.
"""

from __future__ import annotations

from gpufleet.cloud.fleet_declaration import declare_fleet, declare_stack
from gpufleet.cloud.gpu_pool import GpuPool, Rack
from gpufleet.cloud.pool_plan import PoolPlan

__all__ = ["GpuPool", "PoolPlan", "Rack", "declare_fleet", "declare_stack"]

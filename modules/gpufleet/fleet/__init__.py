"""The declared fleet.

Input: a stack's config (``gpufleet:fleet`` in ``stacks/Pulumi.<stack>.yaml``) and the rack files of
``inventory/``. Output: a frozen, valid ``Fleet``, or an error of one line with file, line, key, value and remedy.
Combinations that a cloud refuses are refused here first, each by a rule with id, reason and source (``RULES``).
"""

from __future__ import annotations

from gpufleet.fleet.application import Application, ApplicationVolume
from gpufleet.fleet.bmc import Bmc
from gpufleet.fleet.boot import BootImage, BootMode, FirstBootSettings, NetbootServer
from gpufleet.fleet.container_file import ContainerFile, installed_name, parse_container_file
from gpufleet.fleet.fleet_loader import build_stack_json_schema, load_fleet, parse_fleet, read_budget
from gpufleet.fleet.hardware import HardwareCost, SourcedFigure
from gpufleet.fleet.host_name import (
    CONFIG_KEY,
    HostNameDeclaration,
    check_unique_host_names,
    list_rack_host_declarations,
    list_stack_host_declarations,
    pool_node_name_prefix,
    slugify,
)
from gpufleet.fleet.image import CustomImage
from gpufleet.fleet.node_hardware import NodeFabric, NodeHardware
from gpufleet.fleet.planning_note import list_planning_notes, note_expiry, pool_node_usd_per_hour
from gpufleet.fleet.pool_facts import find_pool_fabric, find_pool_facts
from gpufleet.fleet.pool_request import AcceleratorRequest, MonthlyBudget, NodeCount
from gpufleet.fleet.pool_volume import (
    PoolDisk,
    PoolVolumes,
    aws_device_name,
    count_local_drives,
    pool_volumes,
    uses_local_drives,
)
from gpufleet.fleet.profile import GpuDriverSettings, HardwareProfile, SoftwareProfile
from gpufleet.fleet.purchase import (
    CapacityBlockPurchase,
    CommittedPurchase,
    FlexStartPurchase,
    LadderPurchase,
    OnDemandPurchase,
    Purchase,
    ReservedPurchase,
    Rung,
    SpotInterruptions,
    SpotPurchase,
)
from gpufleet.fleet.rack import Rack, RackNode
from gpufleet.fleet.rack_file import RACK_PLUGIN, load_rack, load_racks
from gpufleet.fleet.rack_network import RackNetwork
from gpufleet.fleet.rule import RULES
from gpufleet.fleet.spec import BootDisk, Fleet, FleetSpec, Pool, SshAccess, StackRack, Workstation
from gpufleet.fleet.template import Blueprint, NodeTemplate

__all__ = [
    "CONFIG_KEY",
    "RACK_PLUGIN",
    "RULES",
    "AcceleratorRequest",
    "Application",
    "ApplicationVolume",
    "Blueprint",
    "Bmc",
    "BootDisk",
    "BootImage",
    "BootMode",
    "CapacityBlockPurchase",
    "CommittedPurchase",
    "ContainerFile",
    "CustomImage",
    "FirstBootSettings",
    "Fleet",
    "FleetSpec",
    "FlexStartPurchase",
    "GpuDriverSettings",
    "HardwareCost",
    "HardwareProfile",
    "HostNameDeclaration",
    "LadderPurchase",
    "MonthlyBudget",
    "NetbootServer",
    "NodeCount",
    "NodeFabric",
    "NodeHardware",
    "NodeTemplate",
    "OnDemandPurchase",
    "Pool",
    "PoolDisk",
    "PoolVolumes",
    "Purchase",
    "Rack",
    "RackNetwork",
    "RackNode",
    "ReservedPurchase",
    "Rung",
    "SoftwareProfile",
    "SourcedFigure",
    "SpotInterruptions",
    "SpotPurchase",
    "SshAccess",
    "StackRack",
    "Workstation",
    "aws_device_name",
    "build_stack_json_schema",
    "check_unique_host_names",
    "count_local_drives",
    "find_pool_fabric",
    "find_pool_facts",
    "installed_name",
    "list_planning_notes",
    "list_rack_host_declarations",
    "list_stack_host_declarations",
    "load_fleet",
    "load_rack",
    "load_racks",
    "note_expiry",
    "parse_container_file",
    "parse_fleet",
    "pool_node_name_prefix",
    "pool_node_usd_per_hour",
    "pool_volumes",
    "read_budget",
    "slugify",
    "uses_local_drives",
]

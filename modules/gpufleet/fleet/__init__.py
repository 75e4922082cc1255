"""The declared fleet.

Input: a stack's config (``gpufleet:fleet`` in ``stacks/Pulumi.<stack>.yaml``) and the rack files of
``inventory/``. Output: a frozen, valid ``Fleet``, or an error of one line with file, line, key, value and remedy.
Combinations that a cloud refuses are refused here first, each by a rule with id, reason and source (``RULES``).
"""

from __future__ import annotations

from gpufleet.fleet.account import AwsAccount, NamedAccount
from gpufleet.fleet.bmc import Bmc
from gpufleet.fleet.boot import BootMode, FirstBootSettings, NetbootServer
from gpufleet.fleet.container_file import installed_name
from gpufleet.fleet.document import raise_first_error
from gpufleet.fleet.fleet_loader import (
    build_stack_json_schema,
    check_stack,
    check_stack_exists,
    format_stack_json_schema,
    load_fleet,
    parse_fleet,
    read_budget,
)
from gpufleet.fleet.hardware import HardwareCost, SourcedFigure
from gpufleet.fleet.host_name import (
    CONFIG_KEY,
    check_project_host_names,
    check_unique_host_names,
    check_unique_node_addresses,
    find_pool_line,
    list_rack_host_declarations,
    list_rack_stacks,
    list_stack_host_declarations,
    pool_node_name_prefix,
    slugify,
)
from gpufleet.fleet.image import CustomImage
from gpufleet.fleet.node_hardware import NodeFabric, NodeHardware
from gpufleet.fleet.own_program import build_program_fleet, is_fleet_project
from gpufleet.fleet.planning_note import list_planning_notes, note_expiry, pool_node_usd_per_hour
from gpufleet.fleet.pool_facts import find_pool_fabric, find_pool_facts
from gpufleet.fleet.pool_request import AcceleratorRequest, MonthlyBudget
from gpufleet.fleet.pool_volume import (
    PoolDisk,
    PoolVolumes,
    aws_device_name,
    count_local_drives,
    pool_volumes,
    uses_local_drives,
)
from gpufleet.fleet.profile import HardwareProfile, SoftwareProfile
from gpufleet.fleet.purchase import Purchase, Rung, SpotInterruptions
from gpufleet.fleet.rack import Rack, RackNode
from gpufleet.fleet.rack_file import find_rack, load_rack, load_racks, project_relative_path
from gpufleet.fleet.rack_network import RackNetwork
from gpufleet.fleet.rack_warning import list_rack_warnings, note_equal_prices
from gpufleet.fleet.rule import RULES
from gpufleet.fleet.spec import Fleet, FleetSpec, Pool, SshAccess, StackRack, Workstation
from gpufleet.fleet.template import Blueprint, NodeTemplate

__all__ = [
    "CONFIG_KEY",
    "RULES",
    "AcceleratorRequest",
    "AwsAccount",
    "Blueprint",
    "Bmc",
    "BootMode",
    "CustomImage",
    "FirstBootSettings",
    "Fleet",
    "FleetSpec",
    "HardwareCost",
    "HardwareProfile",
    "MonthlyBudget",
    "NamedAccount",
    "NetbootServer",
    "NodeFabric",
    "NodeHardware",
    "NodeTemplate",
    "Pool",
    "PoolDisk",
    "PoolVolumes",
    "Purchase",
    "Rack",
    "RackNetwork",
    "RackNode",
    "Rung",
    "SoftwareProfile",
    "SourcedFigure",
    "SpotInterruptions",
    "SshAccess",
    "StackRack",
    "Workstation",
    "aws_device_name",
    "build_program_fleet",
    "build_stack_json_schema",
    "check_project_host_names",
    "check_stack",
    "check_stack_exists",
    "check_unique_host_names",
    "check_unique_node_addresses",
    "count_local_drives",
    "find_pool_fabric",
    "find_pool_facts",
    "find_pool_line",
    "find_rack",
    "format_stack_json_schema",
    "installed_name",
    "is_fleet_project",
    "list_planning_notes",
    "list_rack_host_declarations",
    "list_rack_stacks",
    "list_rack_warnings",
    "list_stack_host_declarations",
    "load_fleet",
    "load_rack",
    "load_racks",
    "note_equal_prices",
    "note_expiry",
    "parse_fleet",
    "pool_node_name_prefix",
    "pool_node_usd_per_hour",
    "pool_volumes",
    "project_relative_path",
    "raise_first_error",
    "read_budget",
    "slugify",
    "uses_local_drives",
]

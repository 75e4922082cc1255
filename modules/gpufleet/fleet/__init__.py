"""The declared fleet.

Input: a stack's config (``gpufleet:fleet`` in ``stacks/Pulumi.<stack>.yaml``) and the rack files of
``inventory/``. Output: a frozen, valid ``Fleet``, or an error of one line with file, line, key, value and remedy.
Combinations that a cloud refuses are refused here first, each by a rule with id, reason and source (``RULES``).
"""

from __future__ import annotations

from gpufleet.fleet.application import Application, Container, PortMap, Volume
from gpufleet.fleet.boot import Boot, BootImage, BootMode, Netboot
from gpufleet.fleet.fleet_loader import build_json_schema, load_fleet, parse_fleet
from gpufleet.fleet.hardware import HardwareCost, SourcedFigure
from gpufleet.fleet.host_name import (
    HostNameDeclaration,
    check_host_names,
    list_rack_declarations,
    list_stack_declarations,
    pool_name_prefix,
    slugify,
)
from gpufleet.fleet.image import CustomImage
from gpufleet.fleet.planning_note import node_usd_per_hour, planning_notes
from gpufleet.fleet.pool_request import AcceleratorRequest, Budget, NodeCount
from gpufleet.fleet.profile import Driver, HardwareProfile, SoftwareProfile
from gpufleet.fleet.purchase import OnDemand, Purchase, Reserved, Spot, SpotWork
from gpufleet.fleet.rack import Rack, RackNetwork, RackNode
from gpufleet.fleet.rack_file import RACK_PLUGIN, load_rack, load_racks
from gpufleet.fleet.rule import RULES
from gpufleet.fleet.spec import Disk, Fleet, Pool, Ssh, StackRack, Workstation
from gpufleet.fleet.template import Blueprint, Template

__all__ = [
    "RACK_PLUGIN",
    "RULES",
    "AcceleratorRequest",
    "Application",
    "Blueprint",
    "Boot",
    "BootImage",
    "BootMode",
    "Budget",
    "Container",
    "CustomImage",
    "Disk",
    "Driver",
    "Fleet",
    "HardwareCost",
    "HardwareProfile",
    "HostNameDeclaration",
    "Netboot",
    "NodeCount",
    "OnDemand",
    "Pool",
    "PortMap",
    "Purchase",
    "Rack",
    "RackNetwork",
    "RackNode",
    "Reserved",
    "SoftwareProfile",
    "SourcedFigure",
    "Spot",
    "SpotWork",
    "Ssh",
    "StackRack",
    "Template",
    "Volume",
    "Workstation",
    "build_json_schema",
    "check_host_names",
    "list_rack_declarations",
    "list_stack_declarations",
    "load_fleet",
    "load_rack",
    "load_racks",
    "node_usd_per_hour",
    "parse_fleet",
    "planning_notes",
    "pool_name_prefix",
    "slugify",
]

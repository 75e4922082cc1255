"""The declared fleet.

Input: a stack's config (``gpufleet:fleet`` in ``stacks/Pulumi.<stack>.yaml``) and the rack files of
``inventory/``. Output: a frozen, valid ``Fleet``, or an error of one line with file, line, key, value and remedy.
Combinations that a cloud refuses are refused here first, each by a rule with id, reason and source (``RULES``).
"""

from __future__ import annotations

from gpufleet.fleet.application import Application, Container, PortMap, Volume
from gpufleet.fleet.boot import Boot, BootMode, Image, Netboot
from gpufleet.fleet.fleet_loader import json_schema, load, parse
from gpufleet.fleet.hardware import Fact, HardwareCost
from gpufleet.fleet.host_name import (
    HostNameDeclaration,
    check_host_names,
    pool_prefix,
    rack_declarations,
    slugify,
    stack_declarations,
)
from gpufleet.fleet.image import CustomImage
from gpufleet.fleet.planning_note import node_usd_per_hour, planning_notes
from gpufleet.fleet.pool_request import AcceleratorRequest, Budget, Count
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
    "BootMode",
    "Budget",
    "Container",
    "Count",
    "CustomImage",
    "Disk",
    "Driver",
    "Fact",
    "Fleet",
    "HardwareCost",
    "HardwareProfile",
    "HostNameDeclaration",
    "Image",
    "Netboot",
    "OnDemand",
    "Pool",
    "PortMap",
    "Purchase",
    "Rack",
    "RackNetwork",
    "RackNode",
    "Reserved",
    "SoftwareProfile",
    "Spot",
    "SpotWork",
    "Ssh",
    "StackRack",
    "Template",
    "Volume",
    "Workstation",
    "check_host_names",
    "json_schema",
    "load",
    "load_rack",
    "load_racks",
    "node_usd_per_hour",
    "parse",
    "planning_notes",
    "pool_prefix",
    "rack_declarations",
    "slugify",
    "stack_declarations",
]

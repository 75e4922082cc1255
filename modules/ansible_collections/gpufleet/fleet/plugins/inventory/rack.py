# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Show one rack file's nodes, exactly as gpufleet.fleet.nodes shows them."""

from __future__ import annotations

DOCUMENTATION = """
name: rack
short_description: The nodes of one gpufleet rack file
description:
  - Reads C(inventory/<rack>.yaml), which declares a rack, and adds its nodes with the same groups and variables as
    P(gpufleet.fleet.nodes#inventory). So the order of files does not matter.
  - In a rehearsal of another stack the rack has no hosts.
options:
  plugin:
    description: Marks the file as this plugin's.
    required: true
    choices: [gpufleet.fleet.rack]
author: gpufleet contributors (@gpufleet)
"""

EXAMPLES = """
plugin: gpufleet.fleet.rack
name: blades-1
kind: blades
site: lab
machine: Compute Blade CM4 8GB
nodes: blade[01-20]
"""

from ansible.inventory.data import InventoryData  # noqa: E402
from ansible.parsing.dataloader import DataLoader  # noqa: E402
from ansible.plugins.inventory import BaseInventoryPlugin  # noqa: E402 - Ansible wants its documentation above the imports

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.inventory import (  # noqa: E402
    add_rack_hosts,
    fail_whole_inventory,
)


class InventoryModule(BaseInventoryPlugin):
    NAME = "gpufleet.fleet.rack"

    def verify_file(self, path: str) -> bool:
        return super().verify_file(path) and path.endswith((".yaml", ".yml"))

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        with fail_whole_inventory():
            add_rack_hosts(self, inventory, path)

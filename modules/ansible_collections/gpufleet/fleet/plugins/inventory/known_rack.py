# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Show the nodes of a rack file that this process has read already."""

from __future__ import annotations

DOCUMENTATION = """
name: known_rack
short_description: The nodes of a rack file that another plugin has read already
description:
  - P(gpufleet.fleet.nodes#inventory) and P(gpufleet.fleet.rack#inventory) read all rack files of a folder at once and
    enable this plugin, so that Ansible does not parse each of them again. Do not name it in a file.
options: {}
author: gpufleet contributors (@gpufleet)
"""

from pathlib import Path  # noqa: E402 - Ansible wants its documentation above the imports

from ansible.errors import AnsibleParserError  # noqa: E402
from ansible.inventory.data import InventoryData  # noqa: E402
from ansible.parsing.dataloader import DataLoader  # noqa: E402
from ansible.plugins.inventory import BaseInventoryPlugin  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.inventory import (  # noqa: E402
    add_rack_hosts,
    fail_whole_inventory,
    is_known_rack_file,
)


class InventoryModule(BaseInventoryPlugin):
    NAME = "gpufleet.fleet.known_rack"

    def verify_file(self, path: str) -> bool:
        return is_known_rack_file(path)

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:  # noqa: ARG002 - Ansible's signature
        with fail_whole_inventory():
            reading = add_rack_hosts(self, inventory, path)
        if Path(path).stem not in reading.model.racks:
            raise AnsibleParserError("this is no longer a rack file")  # the next plugin finds out what it is

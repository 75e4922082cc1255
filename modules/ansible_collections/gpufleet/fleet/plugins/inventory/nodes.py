# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Show every node that gpufleet knows or expects. A thin adapter: the model is gpufleet.nodes.inventory."""

from __future__ import annotations

DOCUMENTATION = """
name: nodes
short_description: Nodes of the gpufleet registry and declared rack slots
description:
  - Hosts are the live nodes of the registry (C(GPUFLEET_DATABASE_URL), or the project's registry), and the rack slots
    that C(inventory/*.yaml) declares and that have not answered yet (state C(expected)). Once a stack is synced, racks
    that only other stacks name are left out.
  - The whole model is built and validated first. If anything in it is invalid, the run stops with one line and no host
    is added, also without C(any_unparsed_is_failed).
  - Groups are named C(cloud_), C(region_), C(pool_), C(rack_), C(template_), C(machine_), C(gpu_vendor_),
    C(gpu_model_), C(state_) and C(kind_) with the value; C(new_blades) and C(new_nodes) have the on-premises nodes
    that are not C(ready) yet, and exist even if they are empty.
  - In a rehearsal (C(GPUFLEET_REHEARSAL)) only the racks of the rehearsed stack are shown.
extends_documentation_fragment: [constructed, inventory_cache]
options:
  plugin:
    description: Marks the file as this plugin's.
    required: true
    choices: [gpufleet.fleet.nodes]
  database_url:
    description: The registry's SQLAlchemy URL; by default the project's registry.
    env: [{name: GPUFLEET_DATABASE_URL}]
    type: str
  include_missing:
    description: Also show nodes that no source lists any more, in the group C(missing).
    type: bool
    default: false
author: gpufleet contributors (@gpufleet)
"""

EXAMPLES = """
# inventory/gpufleet.yaml
plugin: gpufleet.fleet.nodes
keyed_groups:
  - {prefix: site, key: gpufleet_rack}
"""

import hashlib  # noqa: E402 - Ansible wants its documentation above the imports
import json  # noqa: E402
import os  # noqa: E402
from collections.abc import Iterable  # noqa: E402
from dataclasses import asdict  # noqa: E402

from ansible.inventory.data import InventoryData  # noqa: E402
from ansible.parsing.dataloader import DataLoader  # noqa: E402
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.inventory import (  # noqa: E402
    InventorySnapshot,
    add_inventory_hosts,
    fail_whole_inventory,
    read_inventory,
)
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import defer_import_errors  # noqa: E402

with defer_import_errors():
    from gpufleet import nodes
    from gpufleet.boundary import make_printable

CACHE_FORMAT = 3


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "gpufleet.fleet.nodes"

    def verify_file(self, path: str) -> bool:
        return super().verify_file(path) and path.endswith((".yaml", ".yml"))

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        with fail_whole_inventory():
            self._read_config_data(path)
            reading = self._read(inventory, path, use=cache)
            for warning in reading.list_warnings():
                self.display.warning(make_printable(warning, None))
            add_inventory_hosts(inventory, reading)
            self._construct(reading.list_hosts())

    def get_cache_key(self, path: str) -> str:
        """Return a key from everything that the hosts depend on, so that another registry's cache is never used."""
        facts = [CACHE_FORMAT, path, self.get_option("database_url"), self.get_option("include_missing")]
        facts += [os.environ.get(name) for name in ("GPUFLEET_HOME", "GPUFLEET_REHEARSAL")]
        return f"gpufleet_{hashlib.sha256(json.dumps(facts).encode()).hexdigest()}"

    def _read(self, inventory: InventoryData, path: str, *, use: bool) -> InventorySnapshot:
        options = {
            "database_url": self.get_option("database_url"),
            "include_missing": self.get_option("include_missing"),
        }
        if not self.get_option("cache"):
            return read_inventory(inventory, path, **options)
        key = self.get_cache_key(path)
        if use and key in self._cache:
            return read_inventory(
                inventory, path, **options, cached_model=nodes.AnsibleInventory.from_json(self._cache[key])
            )
        reading = read_inventory(inventory, path, **options)
        self._cache[key] = asdict(reading.model)
        return reading

    def _construct(self, hosts: Iterable[nodes.InventoryHost]) -> None:
        constructed_options = {name: self.get_option(name) for name in ("compose", "groups", "keyed_groups")}
        if not any(constructed_options.values()):
            return
        strict = self.get_option("strict")
        for host in hosts:
            name = host.name
            variables = {**self.inventory.get_host(name).get_vars(), "inventory_hostname": name}
            self._set_composite_vars(constructed_options["compose"], variables, name, strict=strict)
            variables = {**variables, **self.inventory.get_host(name).get_vars()}
            self._add_host_to_composed_groups(constructed_options["groups"], variables, name, strict=strict)
            self._add_host_to_keyed_groups(
                constructed_options["keyed_groups"], variables, name, strict=strict
            )

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the two inventory plugins share: the complete model, or a failure that stops Ansible."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ansible import constants
from ansible.errors import AnsibleError, AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.plugins.inventory import BaseInventoryPlugin
from ansible.template import trust_as_template

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import (
    defer_import_errors,
    require_gpufleet,
)

with defer_import_errors():
    from gpufleet import nodes, paths
    from gpufleet.boundary import make_printable
    from gpufleet.errors import GpufleetError
    from gpufleet.nodes import Registry  # noqa: F401 - read below; its database is an extra, so it may be missing

# What one reading of the inventory has built and added, by the data that it fills. Each reading builds anew, so that
# nothing is stale; within one, 500 rack files ask for the same model.
_READINGS: WeakKeyDictionary[InventoryData, dict[tuple[Any, ...], InventorySnapshot]] = WeakKeyDictionary()
# (folder, rack) of every rack file that this process has read, and the plugin that takes such files at once.
_KNOWN_RACKS: set[tuple[str, str]] = set()
KNOWN_RACK_PLUGIN = "gpufleet.fleet.known_rack"
UNIQUE_VARIABLES = (
    "ansible_host",
    "gpufleet_id",
    "gpufleet_name",
    "gpufleet_serial",
)  # variables that no two hosts share


@contextmanager
def fail_whole_inventory() -> Iterator[None]:
    """Turn every error inside into one that stops Ansible: it must never continue with part of the inventory.

    By default Ansible only warns about a source that fails, and continues without its hosts.
    """
    try:
        require_gpufleet()
        yield
    except Exception as error:
        constants.INVENTORY_ANY_UNPARSED_IS_FAILED = True
        if isinstance(error, AnsibleError):
            raise
        advice = getattr(error, "hint", None)
        hint = f" ({make_printable(advice)})" if advice else ""
        name = "" if isinstance(error, GpufleetError) else f"{type(error).__name__}: "
        raise AnsibleParserError(f"{name}{make_printable(error, 1000)}{hint}") from None


def build_project_inventory(
    path: str, *, database_url: str | None = None, include_missing: bool = False, rack: str | None = None
) -> nodes.AnsibleInventory:
    """Return the inventory of the project that has ``path``."""
    root = paths.find_project_root(Path(path).parent)
    return nodes.build_ansible_inventory(
        root,
        database_url or paths.registry_database_url(root),
        rehearsal=os.environ.get("GPUFLEET_REHEARSAL") or None,
        include_missing=include_missing,
        rack=rack,
    )


class InventorySnapshot:
    """The model of one reading of the inventory: its hosts by rack, and the names of those that Ansible has already.

    ``tagged`` has values with Ansible's tags, by variable, trust and value.
    """

    def __init__(self, model: nodes.AnsibleInventory) -> None:
        self.model = model
        self.added: set[str] = set()
        self.tagged: dict[tuple[str, bool, Any], Any] = {}
        self._by_rack: dict[str | None, list[nodes.InventoryHost]] = {}
        for host in model.hosts:
            self._by_rack.setdefault(host.rack, []).append(host)
        self._excluded_lines: dict[str | None, list[str]] = {}
        for node in model.excluded:
            self._excluded_lines.setdefault(node.rack, []).append(node.line)

    def list_hosts(self, rack: str | None = None) -> Sequence[nodes.InventoryHost]:
        """Return all hosts, or one rack's."""
        return self.model.hosts if rack is None else self._by_rack.get(rack, [])

    def list_warnings(self, rack: str | None = None) -> list[str]:
        """Return the warnings for an operator about the whole model, or about one rack."""
        lines = (
            [node.line for node in self.model.excluded]
            if rack is None
            else self._excluded_lines.get(rack, [])
        )
        return [*(self.model.notes if rack is None else ()), *lines]


def read_inventory(
    ansible_inventory: InventoryData,
    path: str,
    *,
    database_url: str | None = None,
    include_missing: bool = False,
    cached_model: nodes.AnsibleInventory | None = None,
) -> InventorySnapshot:
    """Return the reading of the project that has ``path``; its first file builds it, and the others share it.

    ``model`` comes from the plugin's cache and replaces a new one.
    """
    data = getattr(ansible_inventory, "__wrapped__", ansible_inventory)
    key = (
        str(Path(path).parent),
        database_url,
        include_missing,
        *map(os.environ.get, ("GPUFLEET_REHEARSAL", "GPUFLEET_HOME")),
    )
    readings = _READINGS.setdefault(data, {})
    if key not in readings:
        readings[key] = InventorySnapshot(
            cached_model
            or build_project_inventory(path, database_url=database_url, include_missing=include_missing)
        )
        _register_known_racks(Path(path).parent, readings[key].model.racks)
    return readings[key]


def _register_known_racks(folder: Path, racks: Iterable[str]) -> None:
    """Make Ansible try our plugin first for the rack files that were just read.

    Otherwise it parses each of them with its tagging YAML reader, only to read which plugin the file names: with 500
    racks that takes as long as all our own work.
    """
    _KNOWN_RACKS.update((str(folder), rack) for rack in racks)
    if KNOWN_RACK_PLUGIN not in constants.INVENTORY_ENABLED:
        constants.INVENTORY_ENABLED = [KNOWN_RACK_PLUGIN, *constants.INVENTORY_ENABLED]


def is_known_rack_file(path: str) -> bool:
    """Return True for a rack file that this process has read, at this or an earlier reading of the inventory."""
    file = Path(path)
    return file.suffix in (".yaml", ".yml") and (str(file.parent), file.stem) in _KNOWN_RACKS


def add_rack_hosts(plugin: BaseInventoryPlugin, inventory: InventoryData, path: str) -> InventorySnapshot:
    """Add the hosts of one rack file; the plugin shows the warnings."""
    reading, rack = read_inventory(inventory, path), Path(path).stem
    for warning in reading.list_warnings(rack):
        plugin.display.warning(warning)
    add_inventory_hosts(inventory, reading, rack)
    return reading


def add_inventory_hosts(
    inventory: InventoryData, reading: InventorySnapshot, rack: str | None = None
) -> None:
    """Add all hosts, or one rack's, with their groups and variables, unless Ansible has them already.

    Ansible may trust only values from the operator's files. A host with the name of a group from another source raises
    AnsibleParserError: its variables would become the group's.
    """
    for group in reading.model.groups if rack is None else ("new_blades", "new_nodes"):
        inventory.add_group(group)
    for host in reading.list_hosts(rack):
        if host.name in reading.added:
            continue
        if host.name in inventory.groups:
            raise AnsibleParserError(f"{host.name} is a node and a group; give one of them another name")
        reading.added.add(host.name)
        inventory.add_host(host.name)
        for group in host.groups:
            if group not in inventory.groups:
                inventory.add_group(group)
            inventory.add_child(group, host.name)
        _set_variables(inventory, reading, host)


def _set_variables(inventory: InventoryData, reading: InventorySnapshot, host: nodes.InventoryHost) -> None:
    """Set a host's variables. Ansible tags each value with its origin; hosts share the tagged value."""
    for values, trusted in ((host.observed, False), (host.vars, True)):
        for key, value in values.items():
            mark = (key, trusted, id(value) if isinstance(value, dict | list) else value)
            if mark in reading.tagged:
                inventory.set_variable(host.name, key, reading.tagged[mark])
                continue
            inventory.set_variable(host.name, key, trust_non_template_text(value) if trusted else value)
            if key not in UNIQUE_VARIABLES:
                reading.tagged[mark] = inventory.get_host(host.name).vars[key]


def trust_non_template_text(value: Any) -> Any:
    """Return an operator's value with its texts trusted by Ansible, except those that look like a template.

    A stack is not a template: an application's own templates (``{{.Name}}``) are never evaluated. So those texts stay
    untrusted, like every observed value.
    """
    if isinstance(value, list | tuple):
        return [trust_non_template_text(item) for item in value]
    if isinstance(value, dict):
        return {key: trust_non_template_text(item) for key, item in value.items()}
    if not isinstance(value, str) or "{" in value or value.startswith("#"):
        return value
    return trust_as_template(value)

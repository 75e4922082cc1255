"""One host of the inventory: values of the operator's files, apart from observed ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpufleet import catalog
from gpufleet.boundary import is_identifier, make_printable
from gpufleet.errors import InputError
from gpufleet.nodes import expectation
from gpufleet.nodes.declaration import KINDS
from gpufleet.nodes.fabric import get_fabric_kind
from gpufleet.nodes.identifier_check import IDENTIFIER_KINDS
from gpufleet.nodes.model import Node
from gpufleet.nodes.states import BUSY_STATES, HOLDS, NEW_STATES, STATES

RESERVED = frozenset(("all", "ungrouped", "missing", "localhost", "127.0.0.1", "::1"))
"""Names that Ansible or the inventory gives a meaning: under ``localhost`` a play would reach the controller."""

_ID = re.compile(r"n-[0-9a-f]{12}")
_CHECKED_FIELDS = ("address", "serial", "cloud", "region", "pool", "rack", "stack", "template")
_GROUP_FIELDS = ("kind", "state", "cloud", "region", "pool", "rack", "template", "machine")
VARIABLE_FIELDS = (
    "name",
    "kind",
    "state",
    "cloud",
    "region",
    "pool",
    "rack",
    "template",
    "machine",
    "serial",
)


@dataclass(frozen=True, slots=True)
class InventoryHost:
    """A host with its groups.

    ``vars`` come from files of the operator (rack files, stacks) and from our own fixed lists (states, holds).
    ``observed`` is everything else: what nodes, clouds, the engine's state or the registry report. The inventory
    plugin must not let Ansible read it as a template.
    """

    name: str
    groups: tuple[str, ...]
    vars: dict[str, Any]
    observed: dict[str, Any]
    rack: str | None = None

    @property
    def all_variables(self) -> dict[str, Any]:
        return {**self.observed, **self.vars}


def make_inventory_host(
    name: str,
    node: Node,
    declared_node: Node | None = None,
    blueprint_variables: Mapping[str, Any] | None = None,
    bmc: Mapping[str, Any] | None = None,
    *,
    identifiers: Mapping[str, str] | None = None,
    is_spot: bool = False,
    volumes: Sequence[dict[str, Any]] = (),
    ssh_arguments: str | None = None,
) -> InventoryHost:
    """Return a node as a host; ``declared_node`` is the same slot as a rack file that was just read declares it.

    ``blueprint_variables`` are those that the node's template gives, from the operator's stack. Any other value is the
    operator's only if that file holds the very same one; that the registry has it is not enough. ``bmc`` comes only
    from that file: credentials are sent to its address. ``identifiers`` are what its BMC may know the node by, besides
    the serial, as the node reported it. ``volumes`` and ``ssh_arguments`` are built from the stack.
    """
    variables = build_node_variables(node)
    files = (
        variables if declared_node is node else build_node_variables(declared_node) if declared_node else {}
    )
    operator_values = {key: value for key, value in variables.items() if key in files and files[key] == value}
    if bmc:
        operator_values["gpufleet_bmc"] = bmc
    if ssh_arguments:
        operator_values["ansible_ssh_common_args"] = ssh_arguments
    if is_spot:  # so the stack declares a pool of that name with spot nodes
        operator_values["gpufleet_is_spot"] = True
    if volumes:
        operator_values["gpufleet_volumes"] = list(volumes)
    if blueprint_variables is not None:  # so the stack declares a template of that name
        operator_values["gpufleet_template"] = node.template
    expected = expectation.build_expected_hardware(node)  # numbers and names of the catalogue
    if mtu := (blueprint_variables or {}).get("gpufleet_hardware", {}).get("mtu"):
        expected["expect_mtu"] = mtu
    if expected:
        operator_values[expectation.VARIABLE] = expected
    if kind := get_fabric_kind(node):
        operator_values["gpufleet_fabric"] = kind
    vocabulary = {key: value for key, value in variables.items() if _is_own_vocabulary(key, value)}
    observed = {
        key: value for key, value in variables.items() if key not in operator_values and key not in vocabulary
    }
    if bmc and identifiers:
        observed["gpufleet_identifiers"] = {"serial": node.serial or "", **identifiers}
    return InventoryHost(
        name,
        tuple(list_ansible_groups(node)),
        {**operator_values, **vocabulary, **(blueprint_variables or {})},
        observed,
        node.rack,
    )


def build_node_variables(node: Node) -> dict[str, Any]:
    """Return a node's values under the names that Ansible knows them by; unknown ones are left out."""
    values = {
        "ansible_host": node.address,
        "gpufleet_id": node.id or None,
        "gpufleet_slot": node.slot_number,
        "gpufleet_holds": [hold.kind for hold in node.holds] or None,
        "gpufleet_is_new": node.state in NEW_STATES,
        "gpufleet_is_busy": node.state in BUSY_STATES,
        **{f"gpufleet_{field}": getattr(node, field) for field in VARIABLE_FIELDS},
    }
    return {key: value for key, value in values.items() if value is not None}


def _is_own_vocabulary(key: str, value: Any) -> bool:
    """Return True for a value from our own fixed lists, which no outside source can choose freely."""
    if key in ("gpufleet_is_new", "gpufleet_is_busy"):
        return True
    if key == "gpufleet_state":
        return value in STATES
    if key == "gpufleet_kind":
        return value in KINDS
    if key == "gpufleet_holds":
        return all(hold in HOLDS for hold in value)
    return key == "gpufleet_id" and _ID.fullmatch(value) is not None


def find_identity_problem(host_name: str, node: Node) -> str | None:
    """Return what is ill-formed about a node's identity, or None: such a node is not handed to Ansible.

    Reports are checked as they come in, and here again: the registry may be older than that check.
    """
    if host_name in RESERVED:
        return "its name is reserved in Ansible"
    checks: list[tuple[str, Any, str]] = [("name", host_name, "name")]
    checks += [(field, getattr(node, field), IDENTIFIER_KINDS[field]) for field in _CHECKED_FIELDS]
    checks += [("card", card.get("model"), "model") for card in node.accelerators]
    if not node.rack and node.kind != "workstation":  # a machine of the operator's own may be called anything
        checks.append(("machine", node.machine, "model"))
    for key, value, kind in checks:
        if value is not None and not is_identifier(value, kind):
            return f"its {key} {make_printable(repr(value), 80)} is not well-formed"
    return None


def list_ansible_groups(node: Node) -> Iterator[str]:
    """Yield the Ansible groups of a node: one per field of ``_GROUP_FIELDS``, GPU model and vendor, and its phase."""
    for prefix in _GROUP_FIELDS:
        if value := getattr(node, prefix):
            yield ansible_group_name(prefix, value)
    for card in node.accelerators:
        yield ansible_group_name("gpu_model", card["model"])
        if vendor := _vendor(card["model"]):
            yield ansible_group_name("gpu_vendor", vendor)
    if node.is_missing:
        yield "missing"
    elif node.state in NEW_STATES and node.rack:
        yield "new_nodes"
        if node.kind == "compute_blade":
            yield "new_blades"


@lru_cache(maxsize=1024)
def _vendor(model: str) -> str | None:
    try:
        return catalog.get_accelerator(model).vendor
    except InputError:
        return None


@lru_cache(maxsize=4096)
def ansible_group_name(prefix: str, value: str) -> str:
    """Return a name that Ansible accepts without warning: ``cloud_aws``, ``machine_p4d_24xlarge``."""
    return f"{prefix}_{re.sub(r'[^A-Za-z0-9]+', '_', value).strip('_').lower()}"

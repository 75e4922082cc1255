"""One host of the inventory: what the operator's files say of it apart from what was observed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpufleet import catalog
from gpufleet.boundary import is_identifier, printable
from gpufleet.errors import InputError
from gpufleet.nodes.declared import KINDS
from gpufleet.nodes.model import Node
from gpufleet.nodes.states import HOLDS, NEW_STATES, STATES

RESERVED = frozenset(("all", "ungrouped", "missing", "localhost", "127.0.0.1", "::1"))
"""Names that Ansible or the inventory gives a meaning: under ``localhost`` a play would reach the controller."""

_ID = re.compile(r"n-[0-9a-f]{12}")
_NAMES_OF_ALL = ("cloud", "region", "pool", "rack", "stack", "template")


@dataclass(frozen=True, slots=True)
class Host:
    """A host with its groups.

    ``vars`` come from files of the operator (rack files, stacks) and from words of our own (states, holds).
    ``observed`` is everything else: what nodes, clouds, the engine's state or the registry say. Whoever hands it to
    Ansible must not trust it as a template.
    """

    name: str
    groups: tuple[str, ...]
    vars: dict[str, Any]
    observed: dict[str, Any]
    rack: str | None = None

    @property
    def variables(self) -> dict[str, Any]:
        """Return all variables."""
        return {**self.observed, **self.vars}


def make_host(
    name: str, node: Node, declared: Node | None = None, planned: Mapping[str, Any] | None = None
) -> Host:
    """Return a node as a host; ``declared`` is the same slot as a rack file that was just read declares it.

    ``planned`` are the variables that the node's template gives, from the operator's stack. Any other value is the
    operator's only where that file holds the very same one; the registry's word for it is not enough.
    """
    said = facts(node)
    files = said if declared is node else facts(declared) if declared else {}
    theirs = {key: value for key, value in said.items() if key in files and files[key] == value}
    if planned is not None:  # so the stack declares a template of that name
        theirs["gpufleet_template"] = node.template
    words = {key: value for key, value in said.items() if _is_word(key, value)}
    observed = {key: value for key, value in said.items() if key not in theirs and key not in words}
    return Host(name, tuple(groups(node)), {**theirs, **words, **(planned or {})}, observed, node.rack)


def facts(node: Node) -> dict[str, Any]:
    """Return a node's values under the names that Ansible knows them by; unknown ones are left out."""
    values = {
        "ansible_host": node.address,
        "gpufleet_id": node.id or None,
        "gpufleet_name": node.name,
        "gpufleet_kind": node.kind,
        "gpufleet_state": node.state,
        "gpufleet_holds": [hold.kind for hold in node.holds] or None,
        "gpufleet_cloud": node.cloud,
        "gpufleet_region": node.region,
        "gpufleet_pool": node.pool,
        "gpufleet_rack": node.rack,
        "gpufleet_slot": node.slot_number,
        "gpufleet_template": node.template,
        "gpufleet_machine": node.machine,
        "gpufleet_serial": node.serial,
    }
    return {key: value for key, value in values.items() if value is not None}


def _is_word(key: str, value: Any) -> bool:
    """Return True for a word of our own vocabulary, which nobody outside can choose freely."""
    if key == "gpufleet_state":
        return value in STATES
    if key == "gpufleet_kind":
        return value in KINDS
    if key == "gpufleet_holds":
        return all(hold in HOLDS for hold in value)
    return key == "gpufleet_id" and _ID.fullmatch(value) is not None


def problem(name: str, node: Node) -> str | None:
    """Return what is ill-formed about a node's identity, or None: such a node is not handed to Ansible.

    Reports are checked as they come in, and here again: the registry may be older than that check.
    """
    if name in RESERVED:
        return "its name has a meaning of its own in Ansible"
    checks = [("name", name, "name"), ("address", node.address, "address"), ("serial", node.serial, "serial")]
    checks += [(key, getattr(node, key), "name") for key in _NAMES_OF_ALL]
    checks += [("card", card.get("model"), "model") for card in node.accelerators]
    if not node.rack and node.kind != "workstation":  # a machine of the operator's own may be called anything
        checks.append(("machine", node.machine, "model"))
    for key, value, kind in checks:
        if value is not None and not is_identifier(value, kind):
            return f"its {key} {printable(repr(value), 80)} is not well-formed"
    return None


def groups(node: Node) -> Iterator[str]:
    """Give the groups that a node belongs to."""
    for prefix in ("kind", "state", "cloud", "region", "pool", "rack", "template", "machine"):
        if value := getattr(node, prefix):
            yield group_name(prefix, value)
    for card in node.accelerators:
        yield group_name("gpu_model", card["model"])
        if vendor := _vendor(card["model"]):
            yield group_name("gpu_vendor", vendor)
    if node.missing:
        yield "missing"
    elif node.state in NEW_STATES and node.rack:
        yield "new_nodes"
        if node.kind == "compute_blade":
            yield "new_blades"


@lru_cache(maxsize=1024)
def _vendor(model: str) -> str | None:
    try:
        return catalog.accelerator(model).vendor
    except InputError:
        return None


@lru_cache(maxsize=4096)
def group_name(prefix: str, value: str) -> str:
    """Return a name that Ansible accepts without warning: ``cloud_aws``, ``machine_p4d_24xlarge``."""
    return f"{prefix}_{re.sub(r'[^A-Za-z0-9]+', '_', value).strip('_').lower()}"

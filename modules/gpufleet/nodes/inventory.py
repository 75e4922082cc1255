"""The model that Ansible's inventory shows: every live node of the registry and every declared rack slot.

The whole model is built and checked before anything is handed over: half an inventory is worse than none.
In a rehearsal only the racks of the rehearsed stack have hosts, so only those are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from gpufleet import catalog, fleet
from gpufleet.errors import InputError
from gpufleet.nodes.blueprint import host_vars
from gpufleet.nodes.declared import rack_report
from gpufleet.nodes.merge import merge
from gpufleet.nodes.model import Node, Value
from gpufleet.nodes.states import NEW_STATES

RACK_PLUGIN = "gpufleet.fleet.rack"
Plans = Callable[[Node], fleet.Blueprint | None]
TEST_RANGE = ip_network("198.18.0.0/15")  # RFC 2544


@dataclass(frozen=True)
class Host:
    name: str
    groups: tuple[str, ...]
    vars: dict[str, Any]


@dataclass(frozen=True)
class Inventory:
    """Hosts with their groups and variables; ``groups`` also lists those that stand empty."""

    hosts: tuple[Host, ...]
    groups: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())


def build(
    root: Path,
    url: str,
    *,
    rehearsal: str | None = None,
    include_missing: bool = False,
    rack: str | None = None,
) -> Inventory:
    """Return the inventory of a project; with ``rack`` only that rack's hosts."""
    racks = [one for one in _racks(root, rehearsal) if rack in (None, one.rack.name)]
    registered = [node for node in _registered(url) if rack in (None, node.rack)]
    whole = model(registered, _declared(racks), include_missing=include_missing, plans=stack_plans(root))
    return replace(whole, hosts=tuple(map(_nobody_there, whole.hosts))) if rehearsal else whole


def is_rehearsed(address: str | None) -> bool:
    """Say whether an address can be a rehearsed host's: those have theirs from the range kept for tests."""
    try:
        return ip_address(address or "") in TEST_RANGE
    except ValueError:
        return False


def _nobody_there(host: Host) -> Host:
    """Let a simulated instance, or a slot that was not booted, be unreachable: nothing goes out to its address."""
    if is_rehearsed(host.vars.get("ansible_host")):
        return host
    return replace(host, vars={**host.vars, "ansible_ssh_common_args": "-o ProxyCommand=false"})


def stack_plans(root: Path) -> Plans:
    """Return what looks a node's template up in its stack; each stack is read once, and only where asked for."""
    names = {
        _slug(file.name.split(".")[1]): file.name.split(".")[1] for file in root.glob("stacks/Pulumi.*.yaml")
    }
    read: dict[str, fleet.Fleet] = {}

    def plan(node: Node) -> fleet.Blueprint | None:
        stack = names.get(_slug(node.stack or ""))  # a cloud's label holds the stack's name as a slug
        if stack is None:
            return None
        if stack not in read:
            read[stack] = fleet.load(stack, root)
        return read[stack].blueprint(node.template) if node.template in read[stack].templates else None

    return plan


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def model(
    registered: Iterable[Node],
    declared: Iterable[Node],
    *,
    include_missing: bool = False,
    plans: Plans | None = None,
) -> Inventory:
    """Return the inventory of registered nodes and of the declared slots that the registry does not know yet."""
    live, declared = [node for node in registered if node.state != "retired"], list(declared)
    gone = [] if include_missing else [node for node in live if node.missing]
    shown = [node for node in live if node not in gone]
    places = {node.place for node in live if node.place}
    shown += [node for node in declared if node.place not in places]
    # Who a board must be is what the rack file says, not what some board in the slot once answered.
    told = {node.place: node.serial for node in declared if node.serial}
    shown = [replace(node, serial=told.get(node.place, node.serial)) for node in shown]
    planned = [(name, node, plans(node) if plans and node.template else None) for name, node in _named(shown)]
    hosts = tuple(_host(name, node, plan) for name, node, plan in planned)
    groups = sorted({group for host in hosts for group in host.groups} | {"new_blades", "new_nodes"})
    lost = [
        f"{name} ({node.template})" for name, node, plan in planned if plans and node.template and not plan
    ]
    return Inventory(hosts, tuple(groups), tuple(_notes(gone, lost)))


def _notes(gone: list[Node], lost: list[str]) -> Iterator[str]:
    if lost:
        yield f"templates that no stack here declares, so nothing follows from them: {', '.join(lost)}"
    if gone:
        names = ", ".join(node.name for node in gone)
        yield f"{len(gone)} nodes that every source has lost are left out (include_missing shows them): {names}"


def _named(nodes: list[Node]) -> Iterator[tuple[str, Node]]:
    """Give each node a host name of its own: nodes that share a name carry their id, so that none is lost."""
    count: dict[str, int] = {}
    for node in nodes:
        count[node.name] = count.get(node.name, 0) + 1
    for node in nodes:
        own = node.id or f"{node.rack}-{node.slot}"
        yield (node.name if count[node.name] == 1 else f"{node.name}-{own}"), node


def _host(name: str, node: Node, plan: fleet.Blueprint | None = None) -> Host:
    told = {
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
    own = {key: value for key, value in told.items() if value is not None}
    return Host(name, tuple(_groups(node)), own | (host_vars(plan) if plan else {}))


def _groups(node: Node) -> Iterator[str]:
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


def _vendor(model: str) -> str | None:
    try:
        return catalog.accelerator(model).vendor
    except InputError:
        return None


def _fabric(machine: str | None, cloud: str | None) -> str | None:
    """Return what a cloud's machine joins its like with: ``efa``, ``infiniband``. A rack's is its owner's to say."""
    if not (machine and cloud):
        return None
    try:
        return catalog.machine(machine, cloud).fabric
    except InputError:
        return None


def group_name(prefix: str, value: str) -> str:
    """Return a name that Ansible accepts without warning: ``cloud_aws``, ``machine_p4d_24xlarge``."""
    return f"{prefix}_{re.sub(r'[^A-Za-z0-9]+', '_', value).strip('_').lower()}"


def _registered(url: str) -> Iterable[Node]:
    from gpufleet.nodes.registry import Registry

    if not Registry.exists(url):
        return []
    with Registry(url) as registry:
        return registry.list()


@dataclass(frozen=True)
class _Used:
    rack: fleet.Rack
    stack: str | None = None
    template: str | None = None


def _racks(root: Path, rehearsal: str | None) -> list[_Used]:
    if rehearsal:
        return [_Used(use.rack, rehearsal, use.template) for use in fleet.load(rehearsal, root).racks]
    return [_Used(fleet.load_rack(path, root)) for path in rack_files(root / "inventory")]


def rack_files(folder: Path) -> list[Path]:
    """Return the rack files of an inventory folder; one that misses its ``plugin`` line is refused."""
    return [path for path in sorted(folder.glob("*.y*ml")) if _is_rack(path)]


def _is_rack(path: Path) -> bool:
    where = f"inventory/{path.name}"
    try:
        data = YAML(typ="safe").load(path)
    except (YAMLError, OSError, UnicodeDecodeError) as error:
        first = str(error).strip().splitlines()[-1].strip()
        raise InputError(f"is not YAML ({first})", where=where, remedy="correct the file") from None
    if not isinstance(data, dict):
        return False
    if "plugin" not in data and {"nodes", "machine"} <= data.keys():
        raise InputError("is missing", where=where, key="plugin", remedy=f"begin with plugin: {RACK_PLUGIN}")
    return data.get("plugin") == RACK_PLUGIN


_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def _declared(racks: Iterable[_Used]) -> list[Node]:
    """Return the declared slots as nodes that nobody has met: expected, without an id."""
    nodes = []
    for used in racks:
        report = rack_report(used.rack, _NEVER, used.stack, used.template)
        for seen in report.observations:
            place = {"rack": seen.identity.rack, "slot": seen.identity.slot, "name": seen.name}
            told = [
                Value(seen.source, f"declared.{k}", v, _NEVER) for k, v in {**seen.declared, **place}.items()
            ]
            fields = merge(told)
            fields["accelerators"] = tuple(fields["accelerators"])
            nodes.append(_expected(fields, seen.source))
    return nodes


def _expected(fields: dict[str, Any], source: str) -> Node:
    reason = f"declared by {source}"
    blank = Node("", fields["name"], fields["kind"], "expected", _NEVER, reason)
    return replace(blank, **fields)

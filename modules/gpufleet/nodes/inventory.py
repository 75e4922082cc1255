"""The model that Ansible's inventory shows: every live node of the registry and every declared rack slot.

The whole model is built and checked before anything is handed over: half an inventory is worse than none.
In a rehearsal only the racks of the rehearsed stack have hosts, so only those are shown. Elsewhere racks of other
stacks than those in the registry are left out: they are another fleet's, or examples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from gpufleet import fleet
from gpufleet.boundary import make_printable
from gpufleet.nodes.blueprint import build_blueprint_variables
from gpufleet.nodes.declaration import list_declared_nodes
from gpufleet.nodes.host import InventoryHost, find_identity_problem, make_inventory_host
from gpufleet.nodes.identity import Slot
from gpufleet.nodes.model import Node
from gpufleet.nodes.pool_storage import StorageLookup, make_storage_lookup
from gpufleet.nodes.private_access import SshArguments, make_private_access_lookup
from gpufleet.nodes.shared_serial import SHARED_SERIAL

BlueprintLookup = Callable[[Node], fleet.Blueprint | None]
StackLoader = Callable[[str], fleet.Fleet]
BMC_IDENTIFIERS = ("board_serial", "chassis_serial", SHARED_SERIAL, "uuid")
TEST_RANGE = ip_network("198.18.0.0/15")  # RFC 2544


@dataclass(frozen=True)
class ExcludedNode:
    """A node that is not passed to Ansible, and a line with the reason."""

    rack: str | None
    line: str


@dataclass(frozen=True)
class AnsibleInventory:
    """Hosts with their groups and variables; ``groups`` also lists empty ones, ``racks`` the racks read."""

    hosts: tuple[InventoryHost, ...]
    groups: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())
    excluded: tuple[ExcludedNode, ...] = field(default=())
    racks: tuple[str, ...] = field(default=())

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> AnsibleInventory:
        """Return what ``dataclasses.asdict`` made of an inventory, as it comes back from a cache."""
        hosts = tuple(InventoryHost(**{**host, "groups": tuple(host["groups"])}) for host in value["hosts"])
        excluded = tuple(ExcludedNode(**entry) for entry in value["excluded"])
        return cls(hosts, tuple(value["groups"]), tuple(value["notes"]), excluded, tuple(value["racks"]))

    def filter_by_rack(self, rack: str) -> AnsibleInventory:
        """Return the part that belongs to one rack."""
        hosts = tuple(host for host in self.hosts if host.rack == rack)
        return AnsibleInventory(
            hosts, _group_names(hosts), (), tuple(node for node in self.excluded if node.rack == rack)
        )


def build_ansible_inventory(
    project_root: Path,
    registry_url: str,
    *,
    rehearsal: str | None = None,
    include_missing: bool = False,
    rack: str | None = None,
) -> AnsibleInventory:
    """Return the inventory of a project; with ``rack`` only that rack's hosts."""
    uses = _rack_uses(project_root, rehearsal)
    registered = list(_registered_nodes(registry_url))
    read_racks = tuple(rack.name for rack, _, _ in uses)
    if not rehearsal:
        names = list_racks_in_use(read_racks, project_root, registered)
        uses = [use for use in uses if use[0].name in names]
    declared = [node for use in uses for node in list_declared_nodes(*use)]
    load_stack = cache(partial(fleet.load_fleet, root=project_root))  # once for both lookups
    inventory = assemble_ansible_inventory(
        registered,
        declared,
        include_missing=include_missing,
        blueprint_lookup=make_node_blueprint_lookup(project_root, load_stack),
        spot_lookup=make_spot_lookup(project_root, load_stack),
        storage_lookup=make_node_storage_lookup(project_root, load_stack),
        access_lookup=None if rehearsal else make_node_ssh_arguments(project_root, load_stack),
        bmcs=(bmcs := {key: bmc for use in uses for key, bmc in _list_bmcs(use[0])}),
        identifiers=list_bmc_identifiers(registry_url) if bmcs else None,
    )
    inventory = replace(inventory, racks=read_racks)
    if rehearsal:
        inventory = replace(inventory, hosts=tuple(map(_block_connections, inventory.hosts)))
    return inventory if rack is None else inventory.filter_by_rack(rack)


def is_rehearsal_address(address: str | None) -> bool:
    """Return True if an address is in the range kept for tests, from which rehearsed hosts get theirs."""
    try:
        return ip_address(address or "") in TEST_RANGE
    except ValueError:
        return False


def list_racks_in_use(racks: Iterable[str], root: Path, registered_nodes: Iterable[Node]) -> set[str]:
    """Return the racks without those that only stacks name of which the registry has no node.

    Before the first ``nodes sync`` it has none of any stack: then all are in use.
    """
    nodes = list(registered_nodes)
    synced = {_slug(node.stack) for node in nodes if node.stack}
    known = {node.rack for node in nodes}
    stacks = fleet.list_rack_stacks(root) if synced else {}
    return {
        rack
        for rack in racks
        if rack in known or rack not in stacks or not synced.isdisjoint(map(_slug, stacks[rack]))
    }


def _block_connections(host: InventoryHost) -> InventoryHost:
    """Make a simulated instance, or a slot that was not booted, unreachable: nothing connects to its address.

    A real BMC is left out likewise: a rehearsal must not switch real machines.
    """
    variables = {key: value for key, value in host.vars.items() if key != "gpufleet_bmc"}
    if is_rehearsal_address(host.vars.get("gpufleet_bmc", {}).get("address")):
        variables["gpufleet_bmc"] = host.vars["gpufleet_bmc"]
    if not is_rehearsal_address(host.all_variables.get("ansible_host")):
        variables["ansible_ssh_common_args"] = "-o ProxyCommand=false"
    return replace(host, vars=variables)


def make_node_blueprint_lookup(project_root: Path, load_stack: StackLoader | None = None) -> BlueprintLookup:
    """Return what looks a node's template up in its stack; each stack is read once, and only where asked for."""
    names = _stack_names(project_root)
    load = load_stack or cache(partial(fleet.load_fleet, root=project_root))

    @cache
    def resolve_stack_template(stack: str, template: str) -> fleet.Blueprint | None:
        return load(stack).resolve_blueprint(template) if template in load(stack).templates else None

    def resolve_node_template(node: Node) -> fleet.Blueprint | None:
        stack = names.get(_slug(node.stack or ""))  # a cloud's label holds the stack's name as a slug
        return resolve_stack_template(stack, node.template) if stack and node.template else None

    return resolve_node_template


def make_spot_lookup(project_root: Path, load: StackLoader) -> Callable[[Node], bool]:
    """Return what tells whether a node's pool is bought as spot, or may fall back to spot."""
    names = _stack_names(project_root)

    @cache
    def has_spot_rung(stack: str, pool_name: str) -> bool:
        pool = load(stack).find_pool(pool_name)
        return pool is not None and any(rung.kind == "spot" for rung in pool.purchase.rungs)

    def is_spot(node: Node) -> bool:
        stack = names.get(_slug(node.stack or ""))
        return bool(stack and node.cloud and node.pool) and has_spot_rung(str(stack), str(node.pool))

    return is_spot


def make_node_storage_lookup(project_root: Path, load: StackLoader) -> StorageLookup:
    """Return what gives the volumes of a cloud node, from its pool in its stack."""
    names = _stack_names(project_root)
    return make_storage_lookup(lambda node: names.get(_slug(node.stack or "")), load)


def make_node_ssh_arguments(project_root: Path, load: StackLoader | None = None) -> SshArguments:
    """Return what gives ssh's arguments for nodes without a public address."""
    names = _stack_names(project_root)
    load = load or cache(partial(fleet.load_fleet, root=project_root))
    return make_private_access_lookup(lambda node: names.get(_slug(node.stack or "")), load)


def _stack_names(project_root: Path) -> dict[str, str]:
    """Return the names of the project's stacks by their slugs, as a cloud's label holds them."""
    if not fleet.is_fleet_project(project_root):
        return {}
    names = [file.name.split(".")[1] for file in project_root.glob("stacks/Pulumi.*.yaml")]
    return {_slug(name): name for name in names}


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def assemble_ansible_inventory(
    registered_nodes: Iterable[Node],
    declared_nodes: Iterable[Node],
    *,
    include_missing: bool = False,
    blueprint_lookup: BlueprintLookup | None = None,
    spot_lookup: Callable[[Node], bool] | None = None,
    storage_lookup: StorageLookup | None = None,
    access_lookup: SshArguments | None = None,
    bmcs: Mapping[Slot, dict[str, Any]] | None = None,
    identifiers: Mapping[str, dict[str, str]] | None = None,
) -> AnsibleInventory:
    """Return the inventory of registered nodes and of the declared slots that the registry does not know yet."""
    live_nodes, declared_nodes = (
        [node for node in registered_nodes if node.state != "retired"],
        list(declared_nodes),
    )
    missing_nodes = [] if include_missing else [node for node in live_nodes if node.is_missing]
    listed_nodes = [node for node in live_nodes if include_missing or not node.is_missing]
    places = {node.rack_slot for node in live_nodes if node.rack_slot}
    listed_nodes += [node for node in declared_nodes if node.rack_slot not in places]
    slots = {node.rack_slot: node for node in declared_nodes}
    # Who a board must be is what the rack file says, not what some board in the slot once answered.
    listed_nodes = [_with_declared_serial(node, slots.get(node.rack_slot)) for node in listed_nodes]
    well_formed, left_out = _split_by_problem(list(_unique_names(listed_nodes)))
    planned = [
        (name, node, blueprint_lookup(node) if blueprint_lookup and node.template else None)
        for name, node in well_formed
    ]
    variables = _blueprint_variables(plan for _, _, plan in planned)
    hosts = [
        make_inventory_host(
            name,
            node,
            slots.get(node.rack_slot),
            variables.get(id(plan)),
            (bmcs or {}).get(node.rack_slot) if node.rack_slot else None,
            identifiers=(identifiers or {}).get(node.id),
            is_spot=spot_lookup is not None and spot_lookup(node),
            volumes=storage_lookup(node) if storage_lookup else (),
            ssh_arguments=access_lookup(node) if access_lookup else None,
        )
        for name, node, plan in planned
    ]
    accepted = _drop_group_names(hosts, left_out)
    unresolved = [
        f"{name} ({make_printable(node.template, 80)})"
        for name, node, plan in planned
        if blueprint_lookup and node.template and not plan
    ]
    return AnsibleInventory(
        tuple(accepted),
        _group_names(accepted),
        tuple(_summary_notes(missing_nodes, unresolved)),
        tuple(left_out),
    )


def _list_bmcs(rack: fleet.Rack) -> Iterator[tuple[Slot, dict[str, Any]]]:
    for node in rack.nodes if rack.bmc else ():
        if node.bmc:
            yield (rack.name, str(node.slot)), node.bmc.model_dump(exclude_none=True)


def _blueprint_variables(plans: Iterable[fleet.Blueprint | None]) -> dict[int, dict[str, Any]]:
    """Return the variables of each blueprint by its identity, worked out once: many nodes share one."""
    return {
        id(plan): build_blueprint_variables(plan)
        for plan in {id(plan): plan for plan in plans if plan}.values()
    }


def _drop_group_names(hosts: list[InventoryHost], left_out: list[ExcludedNode]) -> list[InventoryHost]:
    """Leave out hosts that are called as a group: Ansible would give the group their variables."""
    group_names = set(_group_names(hosts))
    for host in hosts:
        if host.name in group_names:
            remedy = "give the node another name at its source"
            left_out.append(
                ExcludedNode(host.rack, f"{host.name} is left out: a group has the same name; {remedy}")
            )
    return [host for host in hosts if host.name not in group_names]


def _with_declared_serial(node: Node, slot: Node | None) -> Node:
    if slot is None or slot is node or slot.serial is None:
        return node
    return replace(node, serial=slot.serial)


def _split_by_problem(
    named_nodes: list[tuple[str, Node]],
) -> tuple[list[tuple[str, Node]], list[ExcludedNode]]:
    """Part the nodes that Ansible may have from those with an ill-formed identity, which nothing may connect to."""
    well_formed: list[tuple[str, Node]] = []
    left_out: list[ExcludedNode] = []
    for name, node in named_nodes:
        if reason := find_identity_problem(name, node):
            reference = make_printable(node.id or f"{node.rack}/{node.slot}", 80)
            remedy = f"see gpufleet nodes show {reference}, correct its source, or retire it"
            left_out.append(
                ExcludedNode(node.rack, f"{make_printable(name, 80)} is left out: {reason}; {remedy}")
            )
        else:
            well_formed.append((name, node))
    return well_formed, left_out


def _group_names(hosts: Iterable[InventoryHost]) -> tuple[str, ...]:
    return tuple(sorted({group for host in hosts for group in host.groups} | {"new_blades", "new_nodes"}))


def _summary_notes(missing_nodes: list[Node], unresolved: list[str]) -> Iterator[str]:
    if unresolved:
        yield f"no stack of this project declares these templates: {', '.join(unresolved)}"
    if missing_nodes:
        names = ", ".join(make_printable(node.name, 80) for node in missing_nodes)
        count = len(missing_nodes)
        yield f"{count} nodes that every source has lost are left out (include_missing shows them): {names}"


def _unique_names(nodes: list[Node]) -> Iterator[tuple[str, Node]]:
    """Yield each node with a unique host name: nodes that share a name get their id appended."""
    count = Counter(node.name for node in nodes)
    for node in nodes:
        identifier = node.id or f"{node.rack}-{node.slot}"
        yield (node.name if count[node.name] == 1 else f"{node.name}-{identifier}"), node


def _registered_nodes(url: str) -> Iterable[Node]:
    from gpufleet.nodes.registry import Registry

    if not Registry.has_registry(url):
        return []
    with Registry(url) as registry:
        return registry.list_nodes()


def list_bmc_identifiers(url: str) -> dict[str, dict[str, str]]:
    """Return by node id what a BMC may know the node by, as it last reported it."""
    from gpufleet.nodes.registry import Registry

    if not Registry.has_registry(url):
        return {}
    identifiers: dict[str, dict[str, str]] = {}
    with Registry(url) as registry:
        for name in BMC_IDENTIFIERS:
            for node_id, value in registry.list_newest_values(f"observed.{name}").items():
                if isinstance(value, str):
                    identifiers.setdefault(node_id, {})[name] = value
    return identifiers


_Use = tuple[fleet.Rack, str | None, str | None]
"""A rack with the stack and the template that use it."""


def _rack_uses(root: Path, rehearsal: str | None) -> list[_Use]:
    if rehearsal:
        if not fleet.is_fleet_project(root):
            return []
        return [(use.rack, rehearsal, use.template) for use in fleet.load_fleet(rehearsal, root).racks]
    racks = fleet.load_racks(root / "inventory", root)
    fleet.check_unique_host_names(
        [*fleet.list_rack_host_declarations(racks, root), *fleet.list_stack_host_declarations(root)]
    )
    fleet.check_unique_node_addresses(racks, root)
    return [(rack, None, None) for rack in racks.values()]

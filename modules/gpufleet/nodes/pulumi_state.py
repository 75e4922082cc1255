"""The nodes in a stack's Pulumi state, as one report. Pure.

A node is an instance that carries our ``gpufleet-node`` tag: a resource per node, so that each has its own
identity. An elastic group's members are not in the state; its cloud's API names them (``cloudapi``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from gpufleet import catalog
from gpufleet.engine import StateResource
from gpufleet.errors import InputError
from gpufleet.nodes.declaration import list_machine_accelerators
from gpufleet.nodes.identity import NodeIdentity
from gpufleet.nodes.model import NodeObservation
from gpufleet.nodes.source_report import SourceReport

Facts = dict[str, Any]

CLOUD_BY_GROUP_TYPE = {
    type_: cloud.name for cloud in catalog.CLOUDS.values() for type_ in cloud.elastic_group_types
}


def build_pulumi_state_report(
    resources: Sequence[StateResource], stack: str, observed_at: datetime
) -> SourceReport:
    """Return every node of a state; resources that wait for their deletion are gone already.

    The output ``nodes`` of the stack or of a ``GpuPool`` has the address of each node, and names the members of
    groups that the program could look up.
    """
    source = f"pulumi:{stack}"
    live_resources = [r for r in resources if r.custom and not r.delete and r.pending != "creating"]
    by_id = {r.id: r for r in live_resources if r.id}
    output_nodes = _stack_output_nodes(resources)
    observations = [
        _observation(r, by_id, output_nodes, source, observed_at)
        for r in live_resources
        if r.type in _READERS
    ]
    nodes = [node for node in observations if node]
    instance_ids = {node.identity.instance_id for node in nodes}
    members = [
        _member(fact, stack, source, observed_at)
        for key, fact in output_nodes.items()
        if key not in instance_ids
    ]
    return SourceReport(source, observed_at, [*nodes, *members])


def _stack_output_nodes(resources: Sequence[StateResource]) -> dict[str, Facts]:
    """Return the outputs ``nodes`` by instance id."""
    return {
        get_nested_text(fact, "id"): fact
        for fact in list_pool_outputs(resources, "nodes")
        if get_nested_text(fact, "id") and get_nested_text(fact, "name")
    }


def list_pool_outputs(resources: Sequence[StateResource], name: str) -> list[Any]:
    """Return the entries of an output of the stack, and of each ``GpuPool`` in a program of somebody's own."""
    declaring = [r for r in resources if r.type in ("pulumi:pulumi:Stack", "gpufleet:cloud:GpuPool")]
    outputs = [get_nested_value(resource.outputs, name) for resource in declaring if not resource.delete]
    return [entry for listed in outputs if isinstance(listed, list) for entry in listed]


def _member(fact: Facts, stack: str, source: str, at: datetime) -> NodeObservation:
    """Return a group's member, of which the state has no resource."""
    names = ("cloud", "account", "pool", "template", "purchase", "machine", "region")
    declared: Facts = {name: get_nested_text(fact, name) for name in names} | {
        "kind": "cloud_vm",
        "stack": stack,
    }
    machine = get_nested_text(fact, "machine")
    declared["usd_per_hour"] = find_machine_usd_per_hour(
        get_nested_text(fact, "cloud"),
        get_nested_text(fact, "region"),
        machine,
        get_nested_text(fact, "purchase"),
    )
    observed: Facts = {name: get_nested_text(fact, name) for name in _ADDRESSES}
    observed |= {"accelerators": list_machine_accelerators(machine), "zone": get_nested_text(fact, "zone")}
    identity = NodeIdentity(instance_id=get_nested_text(fact, "id"), account=get_nested_text(fact, "account"))
    return NodeObservation(
        source, get_nested_text(fact, "name"), identity, _drop_unknown(declared), _drop_unknown(observed), at
    )


_ADDRESSES = ("address", "private_address", "public_address")


def list_elastic_groups(resources: Sequence[StateResource]) -> list[tuple[str, str]]:
    """Return (cloud, name) of the groups whose members only the cloud knows."""
    return [
        (CLOUD_BY_GROUP_TYPE[r.type], r.name)
        for r in resources
        if r.type in CLOUD_BY_GROUP_TYPE and not r.delete
    ]


def _observation(
    resource: StateResource,
    by_id: Mapping[str, StateResource],
    output_nodes: Mapping[str, Facts],
    source: str,
    at: datetime,
) -> NodeObservation | None:
    facts = _READERS[resource.type](resource, by_id)
    tags = facts.pop("tags")
    name = tags.get("gpufleet-node")
    if not isinstance(name, str):
        return None
    cloud = facts["cloud"]
    declared = {
        "kind": "cloud_vm",
        "cloud": cloud,
        "account": tags.get("gpufleet-account"),
        "pool": tags.get("gpufleet-pool"),
        "stack": tags.get("gpufleet-stack"),
        "template": tags.get("gpufleet-template"),
        "purchase": tags.get("gpufleet-purchase"),
        "machine": facts["machine"],
        "region": facts["region"],
    }
    declared["usd_per_hour"] = find_machine_usd_per_hour(
        cloud, facts["region"], facts["machine"], declared["purchase"], facts["cards"]
    )
    instance_id = facts["instance_id"] or resource.id or ""
    observed = {
        "address": get_nested_text(output_nodes.get(instance_id), "address")
        or facts["public"]
        or facts["private"],
        "private_address": facts["private"],
        "public_address": facts["public"],
        "zone": facts["zone"],
        "accelerators": _without_sku(facts["cards"]) or list_machine_accelerators(facts["machine"]),
        "urn": resource.urn,
    }
    identity = NodeIdentity(instance_id=instance_id, account=get_nested_text(tags, "gpufleet-account"))
    return NodeObservation(source, name, identity, _drop_unknown(declared), _drop_unknown(observed), at)


def _drop_unknown(values: Facts) -> Facts:
    """Drop what is absent, and the engine's markers for unknown and secret values."""
    return {
        key: value
        for key, value in values.items()
        if isinstance(value, str | int | float | list) and value != ""
    }


def _aws(resource: StateResource, _by_id: Mapping[str, StateResource]) -> Facts:
    out = {**resource.inputs, **resource.outputs}
    zone = get_nested_text(out, "availabilityZone")
    return {
        "cloud": "aws",
        "tags": get_nested_value(out, "tags") or get_nested_value(out, "tagsAll") or {},
        "machine": get_nested_text(out, "instanceType"),
        "region": get_nested_text(out, "region") or zone.rstrip("abcdef"),
        "zone": zone,
        "public": get_nested_text(out, "publicIp"),
        "private": get_nested_text(out, "privateIp"),
        "cards": [],
        "instance_id": resource.id,
    }


def _gcp(resource: StateResource, _by_id: Mapping[str, StateResource]) -> Facts:
    out = {**resource.inputs, **resource.outputs}
    zone = get_nested_text(out, "zone").rpartition("/")[2]
    return {
        "cloud": "gcp",
        "tags": get_nested_value(out, "labels") or get_nested_value(out, "effectiveLabels") or {},
        "machine": get_nested_text(out, "machineType").rpartition("/")[2],
        "region": zone.rpartition("-")[0],
        "zone": zone,
        "public": get_nested_text(out, "networkInterfaces", 0, "accessConfigs", 0, "natIp"),
        "private": get_nested_text(out, "networkInterfaces", 0, "networkIp"),
        "cards": _gcp_cards(get_nested_value(out, "guestAccelerators")),
        "instance_id": get_nested_text(out, "instanceId"),
    }


def _gcp_cards(attached: Any) -> list[Facts]:
    """Return attached cards by their catalogue names: ``nvidia-tesla-t4`` is a T4."""
    cards = []
    for item in attached if isinstance(attached, list) else []:
        sku = get_nested_text(item, "type").rpartition("/")[2]
        try:
            card = catalog.get_accelerator(sku.removeprefix("nvidia-").removeprefix("tesla-").upper())
        except InputError:
            continue  # a card that our catalogue does not know has no memory that we could state
        count = int(item.get("count") or 1)
        cards.append({"model": card.name, "memory_gib": card.memory_gib, "count": count, "sku": sku})
    return cards


def _without_sku(cards: Sequence[Facts]) -> list[Facts]:
    return [{key: value for key, value in card.items() if key != "sku"} for card in cards]


def _azure(resource: StateResource, by_id: Mapping[str, StateResource]) -> Facts:
    out = {**resource.inputs, **resource.outputs}
    card = by_id.get(get_nested_text(out, "networkProfile", "networkInterfaces", 0, "id"))
    nic = {**card.inputs, **card.outputs} if card else {}
    public = by_id.get(get_nested_text(nic, "ipConfigurations", 0, "publicIPAddress", "id"))
    return {
        "cloud": "azure",
        "tags": get_nested_value(out, "tags") or {},
        "machine": get_nested_text(out, "hardwareProfile", "vmSize"),
        "region": get_nested_text(out, "location").lower().replace(" ", ""),
        "zone": get_nested_text(out, "zones", 0),
        "public": get_nested_text(public.outputs, "ipAddress") if public else "",
        "private": get_nested_text(nic, "ipConfigurations", 0, "privateIPAddress"),
        "cards": [],
        "instance_id": get_nested_text(out, "vmId"),
    }


_READERS: dict[str, Callable[[StateResource, Mapping[str, StateResource]], Facts]] = {
    "aws:ec2/instance:Instance": _aws,
    "gcp:compute/instance:Instance": _gcp,
    "azure-native:compute:VirtualMachine": _azure,
}


def get_nested_value(value: Any, *path: str | int) -> Any:
    """Follow a path into nested outputs; None where it ends early."""
    for step in path:
        if isinstance(step, int) and isinstance(value, list) and len(value) > step:
            value = value[step]
        elif isinstance(step, str) and isinstance(value, Mapping):
            value = value.get(step)
        else:
            return None
    return value


def get_nested_text(value: Any, *path: str | int) -> str:
    """Return the text at a path, empty where there is none or it cannot be read."""
    value_at_path = get_nested_value(value, *path)
    return value_at_path if isinstance(value_at_path, str) else ""


_PRICED_AS: dict[str, catalog.Purchase] = {
    "spot": "spot",
    "reserved-1y": "reserved_1y",
    "reserved-3y": "reserved_3y",
    "committed-1y": "reserved_1y",
    "committed-3y": "reserved_3y",
    "capacity_block": "capacity_block",
    "flex_start": "dws_flex",
}


def find_machine_usd_per_hour(
    cloud: str, region: str, machine: str, purchase: str | None, cards: Sequence[Facts] = ()
) -> float | None:
    """Return the list price of the running machine with its attached cards, None when one is unknown.

    Disks and addresses are in ``gpufleet cost estimate``. A reservation without a term bills as on-demand.
    """
    purchase_kind = _PRICED_AS.get(purchase or "", "on_demand")
    machine_price = catalog.find_machine_price(cloud, region, machine, purchase_kind)
    parts = [_card_price(cloud, region, card, purchase_kind) for card in cards]
    if machine_price is None or None in parts:
        return None
    return round(machine_price.usd_per_hour + sum(part for part in parts if part is not None), 6)


def _card_price(cloud: str, region: str, card: Facts, purchase_kind: catalog.Purchase) -> float | None:
    part = catalog.find_cloud_part_price(cloud, region, f"accelerator:{card['sku']}", purchase_kind)
    return None if part is None else part.usd_per_hour * int(card["count"])

"""A stack's resources in one Azure subscription, each with how it is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from gpufleet.boundary import Json
from gpufleet.errors import EnvironmentFault
from gpufleet.nodes.cloud_api.account import STACK_TAG, parse_time
from gpufleet.nodes.cloud_api.azure import (
    AzureApi,
    list_azure_instances,
    read_tags,
    resource_group_of,
)
from gpufleet.nodes.pulumi_state import get_nested_text, get_nested_value
from gpufleet.operations.sweep import price
from gpufleet.operations.sweep.finding import CloudResource

DELETE_TIMEOUT_S = 120


def list_azure_resources(api: AzureApi) -> Iterator[CloudResource]:
    """Yield the resources of a subscription that have our tag."""
    yield from _list_instances(api)
    compute, network = api.compute, api.network
    listings = (
        (
            "group",
            "Microsoft.Compute/virtualMachineScaleSets",
            compute.virtual_machine_scale_sets,
            "list_all",
        ),
        ("volume", "Microsoft.Compute/disks", compute.disks, "list"),
        ("network_interface", "Microsoft.Network/networkInterfaces", network.network_interfaces, "list_all"),
        ("address", "Microsoft.Network/publicIPAddresses", network.public_ip_addresses, "list_all"),
    )
    for kind, type_, operations, listing in listings:
        for item in api.list_all(f"{type_}/read", getattr(operations, listing)):
            if STACK_TAG in read_tags(item):
                yield _resource(api, kind, f"{type_}/delete", operations, item)
    yield from _list_reservations(api)


def _list_instances(api: AzureApi) -> Iterator[CloudResource]:
    for instance in list_azure_instances(api):
        is_of_uniform_set = "/virtualmachinescalesets/" in instance.resource_id.lower()
        usd = price.machine_price("azure", instance.region, instance.machine, instance.purchase)
        operations = api.compute.virtual_machines
        reason = f"member of {instance.group.rpartition('/')[2]}, which is deleted as a whole"
        yield CloudResource(
            "azure", "instance", instance.resource_id, instance.name, instance.region, instance.tags,
            state=instance.state, machine=instance.machine, purchase=instance.purchase,
            created_at=instance.created_at, owner=instance.group, other_ids=(instance.instance_id,),
            usd_per_hour=0.0 if instance.state == "deallocated" else usd,
            delete=None if is_of_uniform_set else partial(
                delete_once, api, "Microsoft.Compute/virtualMachines/delete", operations, instance.resource_id
            ),
            keep_reason=reason if is_of_uniform_set else "",
        )  # fmt: skip


def _resource(api: AzureApi, kind: str, permission: str, operations: Any, item: Json) -> CloudResource:
    id_, region = get_nested_text(item, "id"), get_nested_text(item, "location").lower().replace(" ", "")
    usd, state, is_in_use = _describe(kind, region, item)
    return CloudResource(
        "azure", kind, id_, get_nested_text(item, "name"), region, read_tags(item),
        state=state, created_at=parse_time(get_nested_text(item, "properties", "timeCreated")),
        is_in_use=is_in_use, usd_per_hour=usd,
        delete=partial(delete_once, api, permission, operations, id_),
    )  # fmt: skip


def _describe(kind: str, region: str, item: Json) -> tuple[float | None, str, bool]:
    """Return price, state and whether something uses it."""
    if kind == "volume":
        sku, size = get_nested_text(item, "sku", "name"), get_nested_value(item, "properties", "diskSizeGB")
        gib = size if isinstance(size, int) else 0
        state = get_nested_text(item, "properties", "diskState")
        return price.azure_disk_price(region, sku, gib), f"{gib} GiB {sku} {state}", state != "Unattached"
    if kind == "address":
        used = get_nested_value(item, "properties", "ipConfiguration") is not None
        return price.address_price("azure", region), get_nested_text(item, "properties", "ipAddress"), used
    if kind == "network_interface":
        used = get_nested_value(item, "properties", "virtualMachine") is not None
        return 0.0, "attached" if used else "unattached", used
    return 0.0, get_nested_text(item, "properties", "provisioningState").lower(), False


def _list_reservations(api: AzureApi) -> Iterator[CloudResource]:
    """Yield the capacity reservations in groups with our tag, then the groups' own deletion is left to the stack."""
    operations = api.compute.capacity_reservations
    groups = api.list_all(
        "Microsoft.Compute/capacityReservationGroups/read",
        api.compute.capacity_reservation_groups.list_by_subscription,
    )
    permission = "Microsoft.Compute/capacityReservationGroups/capacityReservations"
    for group in groups:
        if STACK_TAG not in read_tags(group):
            continue
        names = resource_group_of(get_nested_text(group, "id")), get_nested_text(group, "name")
        for item in api.list_all(f"{permission}/read", operations.list_by_capacity_reservation_group, *names):
            id_, machine = get_nested_text(item, "id"), get_nested_text(item, "sku", "name")
            region = get_nested_text(item, "location").lower().replace(" ", "")
            capacity = get_nested_value(item, "sku", "capacity")
            used = get_nested_value(item, "properties", "virtualMachinesAssociated") or []
            free = max(0, (capacity if isinstance(capacity, int) else 0) - len(used))
            yield CloudResource(
                "azure", "reservation", id_, get_nested_text(item, "name"), region,
                {**read_tags(group), **read_tags(item)}, machine=machine,
                usd_per_hour=price.machine_price("azure", region, machine, None, free), is_in_use=bool(used),
                delete=partial(delete_once, api, f"{permission}/delete", operations, id_, parent=names[1]),
            )  # fmt: skip


def delete_once(
    api: AzureApi, permission: str, operations: Any, resource_id: str, parent: str | None = None
) -> None:
    """Delete a resource and wait a little for it; Azure answers for one that is gone as for one it deletes."""
    group, name = resource_group_of(resource_id), resource_id.rpartition("/")[2]
    names = (group, parent, name) if parent else (group, name)
    with api.translate_errors(permission):
        poller = operations.begin_delete(*names, polling_interval=2)
        poller.wait(DELETE_TIMEOUT_S)
        if not poller.done():
            raise EnvironmentFault(f"azure: {name} is still being deleted after {DELETE_TIMEOUT_S} s")
        poller.result()

"""A stack's resources in one Google Cloud project, each with how it is deleted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from gpufleet import fleet
from gpufleet.nodes.cloud_api.account import STACK_TAG, parse_time
from gpufleet.nodes.cloud_api.gcp import GcpApi, list_gcp_instances, read_labels, resource_path
from gpufleet.nodes.pulumi_state import get_nested_text, get_nested_value
from gpufleet.operations.sweep import price
from gpufleet.operations.sweep.finding import CloudResource

DELETE_TIMEOUT_S = 120
# What the components write into the description of a reservation, which cannot have labels.
_DESCRIPTION = re.compile(r"gpufleet pool (?P<pool>\S+) of stack (?P<stack>\S+)")


def list_gcp_resources(api: GcpApi) -> Iterator[CloudResource]:
    """Yield the resources of a project that have our label."""
    yield from _list_instances(api)
    for item in api.list_aggregated(
        "Reservations", "reservations", ""
    ):  # the listing takes no filter of labels
        yield from _reservation(api, item)
    for item in api.list_aggregated("Disks", "disks"):
        yield _disk(api, item)
    for item in api.list_aggregated("Addresses", "addresses"):
        yield _address(api, item)


def _list_instances(api: GcpApi) -> Iterator[CloudResource]:
    for instance in list_gcp_instances(api):
        usd = price.machine_price("gcp", instance.region, instance.machine, instance.purchase)
        delete = partial(
            delete_once, api, "Instances", "instance", zone=instance.zone, instance=instance.name
        )
        reason = f"member of {instance.group.rpartition('/')[2]}: delete that group" if instance.group else ""
        yield CloudResource(
            "gcp", "instance", instance.resource_id, instance.name, instance.region, instance.tags,
            state=instance.state, machine=instance.machine, purchase=instance.purchase,
            created_at=instance.created_at, owner=instance.group, other_ids=(instance.instance_id,),
            usd_per_hour=usd if instance.state == "running" else 0.0,
            delete=None if instance.group else delete, keep_reason=reason,
        )  # fmt: skip


def _reservation(api: GcpApi, item: dict[str, Any]) -> Iterator[CloudResource]:
    """Yield a reservation whose description names a stack of ours. It has no labels, so it is listed and kept."""
    described = _DESCRIPTION.fullmatch(get_nested_text(item, "description"))
    if described is None:
        return
    tags = {STACK_TAG: fleet.slugify(described["stack"]), "gpufleet-pool": described["pool"]}
    zone, name = _last(item, "zone"), get_nested_text(item, "name")
    specific = get_nested_value(item, "specific_reservation") or {}
    machine = get_nested_text(specific, "instance_properties", "machine_type")
    free = _number(specific, "count") - _number(specific, "in_use_count")
    region = zone.rpartition("-")[0]
    command = f"gcloud compute reservations delete {name} --zone {zone} --project {api.project}"
    yield CloudResource(
        "gcp",
        "reservation",
        _path(item),
        name,
        region,
        tags,
        state=get_nested_text(item, "status").lower(),
        machine=machine,
        other_ids=(str(item.get("id", "")),),
        created_at=parse_time(get_nested_text(item, "creation_timestamp")),
        usd_per_hour=price.machine_price("gcp", region, machine, None, max(free, 0)),
        keep_reason=f"a reservation has no labels, so you must delete it: {command}",
    )


def _disk(api: GcpApi, item: dict[str, Any]) -> CloudResource:
    zone, name, kind = _last(item, "zone"), get_nested_text(item, "name"), _last(item, "type")
    region = zone.rpartition("-")[0] or _last(item, "region")
    size = _number(item, "size_gb")
    delete = partial(delete_once, api, "Disks", "disk", zone=zone, disk=name)
    return CloudResource(
        "gcp", "volume", _path(item), name, region, read_labels(item),
        state=f"{size} GiB {kind}", other_ids=(str(item.get("id", "")),),
        created_at=parse_time(get_nested_text(item, "creation_timestamp")),
        is_in_use=bool(get_nested_value(item, "users")),
        usd_per_hour=price.part_price("gcp", region, kind, size),
        delete=delete if zone else None, keep_reason="" if zone else "a regional disk is not deleted by gpufleet",
    )  # fmt: skip


def _address(api: GcpApi, item: dict[str, Any]) -> CloudResource:
    region, name = _last(item, "region"), get_nested_text(item, "name")
    delete = partial(delete_once, api, "Addresses", "address", region=region, address=name)
    return CloudResource(
        "gcp", "address", _path(item), name, region or "global", read_labels(item),
        state=get_nested_text(item, "address"), other_ids=(str(item.get("id", "")),),
        created_at=parse_time(get_nested_text(item, "creation_timestamp")),
        is_in_use=get_nested_text(item, "status") == "IN_USE",
        usd_per_hour=price.address_price("gcp", region),
        delete=delete if region else None, keep_reason="" if region else "a global address is not deleted by gpufleet",
    )  # fmt: skip


def delete_once(api: GcpApi, service: str, kind: str, **names: str) -> None:
    """Delete a resource and wait a little for the operation; one that is gone already is deleted."""
    from google.api_core import exceptions

    client = api.client(service)
    with api.translate_errors(f"compute.{kind}s.delete"):
        try:
            operation = client.delete(request={"project": api.project, **names}, timeout=DELETE_TIMEOUT_S)
            operation.result(timeout=DELETE_TIMEOUT_S)
        except exceptions.NotFound:
            return


def _last(item: dict[str, Any], key: str) -> str:
    return get_nested_text(item, key).rpartition("/")[2]


def _path(item: dict[str, Any]) -> str:
    return resource_path(get_nested_text(item, "self_link")) or get_nested_text(item, "name")


def _number(item: Any, key: str) -> int:
    value = get_nested_value(item, key)  # 64-bit numbers are texts in Google's JSON
    text = str(value) if isinstance(value, int | str) else ""
    return int(text) if text.isdecimal() else 0

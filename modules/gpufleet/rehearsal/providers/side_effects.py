"""What a change does in a cloud beyond the resource itself: capacity, groups, alarms, spot requests, leaks."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from gpufleet.rehearsal.providers.alarms import ALARM, POLICY, run_alarms
from gpufleet.rehearsal.providers.faults import CloudError, find_capacity_error
from gpufleet.rehearsal.providers.groups import (
    AWS_FLEET,
    AWS_GROUP,
    AWS_INSTANCE,
    GCP_GROUP,
    GCP_REGION_GROUP,
    SCALE_SET,
    SIZE,
    count_machines,
    describe_single_machine,
    find_aws_template,
    find_missing_capacity,
    reconcile_groups,
)
from gpufleet.rehearsal.providers.property_values import PlainValues, unwrap_secrets
from gpufleet.rehearsal.providers.schema import CloudSchema
from gpufleet.rehearsal.providers.store import MemberRow, ResourceRow, ResourceStore

SPOT_REQUEST = "aws:ec2/spotInstanceRequest:SpotInstanceRequest"
CAPACITY_BLOCK = "aws:ec2/capacityBlockReservation:CapacityBlockReservation"
UNOWNED = "unowned"  # the URN of what no program knows
_GROUPS = {
    AWS_GROUP,
    AWS_FLEET,
    GCP_GROUP,
    GCP_REGION_GROUP,
    SCALE_SET,
    ALARM,
    POLICY,
    "aws:ec2/launchTemplate:LaunchTemplate",
    "gcp:compute/regionAutoscaler:RegionAutoscaler",
    "gcp:compute/autoscaler:Autoscaler",
    "gcp:compute/regionResizeRequest:RegionResizeRequest",
    "gcp:compute/resizeRequest:ResizeRequest",
    "azure-native:monitor:AutoscaleSetting",
}
# What a machine takes from its launch template if its own inputs do not have it.
_FROM_TEMPLATE = ("instanceType", "instanceMarketOptions", "capacityReservationSpecification", "placement")


def resolve_launch_inputs(store: ResourceStore, kind: str, inputs: PlainValues) -> PlainValues:
    """Return a machine's inputs with what its launch template adds."""
    plain: PlainValues = unwrap_secrets(inputs)
    if kind != AWS_INSTANCE or "launchTemplate" not in plain:
        return plain
    template = find_aws_template(store, plain["launchTemplate"])
    return {**{key: template[key] for key in _FROM_TEMPLATE if key in template}, **plain}


def check_capacity(schema: CloudSchema, store: ResourceStore, row: ResourceRow) -> None:
    """Raise CloudError if the cloud has no capacity or quota for a new single machine."""
    inputs = resolve_launch_inputs(store, row.type, row.inputs)
    request = describe_single_machine(row.type, inputs, str(row.outputs.get("availabilityZone") or ""))
    if request is None:
        return
    problem = find_capacity_error(store, schema.cloud, request, lambda: count_machines(store, request))
    if problem:
        raise CloudError(problem)


def find_resize_problem(
    schema: CloudSchema, store: ResourceStore, before: ResourceRow, after: ResourceRow
) -> str | None:
    """Return why a single machine cannot become another one: it needs new capacity, as a new machine does.

    Google, "Troubleshoot resource availability errors": to create, restart or update; Microsoft, allocation-failure.md:
    to create, start or resize; AWS, "Troubleshoot Amazon EC2 instance launch issues": when an instance starts again.
    """
    requests = [
        describe_single_machine(
            row.type,
            resolve_launch_inputs(store, row.type, row.inputs),
            str(row.outputs.get("availabilityZone") or ""),
        )
        for row in (before, after)
    ]
    request = requests[1]
    if request is None or requests[0] == request:
        return None
    return find_capacity_error(store, schema.cloud, request, lambda: count_machines(store, request))


def stop_unresized_machine(schema: CloudSchema, store: ResourceStore, row: ResourceRow) -> None:
    """Leave a machine as a failed resize does: AWS and Google stopped it first, Azure did not touch it."""
    state = {"aws": {"instanceState": "stopped"}, "gcp": {"currentStatus": "TERMINATED"}}.get(
        schema.cloud, {}
    )
    store.put_resource(replace(row, outputs={**row.outputs, **state}))


def check_scale_set_capacity(schema: CloudSchema, store: ResourceStore, row: ResourceRow) -> None:
    """Raise CloudError for a scale set that did not get its machines.

    Groups of AWS and Google accept their size and keep trying. Azure fails the request itself (Microsoft,
    SupportArticles-docs, allocation-failure.md: adding to a scale set is a VM's allocation). Here, nothing of it stays.
    """
    if row.type != SCALE_SET:
        return
    missing = find_missing_capacity(schema, store, row)
    if missing:
        raise CloudError(missing)


def finish_creation(schema: CloudSchema, store: ResourceStore, row: ResourceRow) -> None:
    """Start what a new resource brings with it."""
    options = _persistent_spot_options(store, row)
    if options is not None:
        identity = f"sir-{_digest(row.id)}"
        outputs = {"spotInstanceId": row.id, "spotRequestState": "active", **options}
        store.put_resource(ResourceRow(identity, SPOT_REQUEST, UNOWNED, {"instanceType": ""}, outputs, True))
    settle(schema, store, row.type)


def finish_update(schema: CloudSchema, store: ResourceStore, before: ResourceRow, after: ResourceRow) -> None:
    if before.inputs.get("desiredCapacity") != after.inputs.get("desiredCapacity"):
        store.delete_counters(after.id, SIZE)
    settle(schema, store, after.type)


def delete_in_cloud(schema: CloudSchema, store: ResourceStore, kind: str, identity: str) -> None:
    """Delete a resource as its provider does; what the real one leaves behind stays."""
    row = store.get_resource(kind, identity)
    if row is None:
        return
    if kind == CAPACITY_BLOCK:  # its Delete does nothing: a bought block runs until its end
        store.put_resource(replace(row, urn=UNOWNED, acknowledged=True))
        return
    if kind == AWS_FLEET and row.inputs.get("terminateInstances") not in (True, "true"):
        for member in store.find_members(identity):
            store.put_resource(_describe_leaked_machine(member))
    store.delete_resource(kind, identity)
    if kind == AWS_INSTANCE:
        _restart_from_spot_request(store, row)
    store.delete_counters(identity)
    settle(schema, store, kind)


def settle(schema: CloudSchema, store: ResourceStore, kind: str) -> None:
    """Bring the groups to what they want after a change of this type of resource."""
    if kind not in _GROUPS:
        return
    reconcile_groups(schema, store)
    if schema.cloud == "aws":
        run_alarms(schema, store)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:17]


def _persistent_spot_options(store: ResourceStore, row: ResourceRow) -> dict[str, Any] | None:
    if row.type != AWS_INSTANCE:
        return None
    options = resolve_launch_inputs(store, row.type, row.inputs).get("instanceMarketOptions") or {}
    spot = options.get("spotOptions") or {}
    if options.get("marketType") != "spot" or spot.get("spotInstanceType") != "persistent":
        return None
    return {"instanceInterruptionBehavior": spot.get("instanceInterruptionBehavior", "terminate")}


def _restart_from_spot_request(store: ResourceStore, deleted: ResourceRow) -> None:
    """Start the instance again that a persistent request asks for: the provider does not cancel it (#38142)."""
    for request in store.find_resources_by_type(SPOT_REQUEST):
        if request.outputs.get("spotInstanceId") == deleted.id:
            identity = f"i-{_digest(f'{request.id}/{deleted.id}')}"
            outputs = {**deleted.outputs, "instanceState": "running"}
            store.put_resource(ResourceRow(identity, AWS_INSTANCE, UNOWNED, deleted.inputs, outputs, True))
            store.put_resource(replace(request, outputs={**request.outputs, "spotInstanceId": identity}))


def _describe_leaked_machine(member: MemberRow) -> ResourceRow:
    outputs = {
        "availabilityZone": member.zone,
        "privateIp": member.private_address,
        "instanceState": "running",
    }
    return ResourceRow(member.id, AWS_INSTANCE, UNOWNED, {"instanceType": member.machine}, outputs, True)

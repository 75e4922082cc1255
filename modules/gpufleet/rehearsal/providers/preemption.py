"""Preempt a machine of a simulated cloud: what the cloud does to it, and what its group does then."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.errors import InputError
from gpufleet.rehearsal.providers.groups import (
    AWS_INSTANCE,
    GCP_INSTANCE,
    SINGLE_MACHINES,
    describe_single_machine,
)
from gpufleet.rehearsal.providers.property_values import PlainValues, unwrap_secrets
from gpufleet.rehearsal.providers.schema import CloudSchema
from gpufleet.rehearsal.providers.side_effects import resolve_launch_inputs, settle
from gpufleet.rehearsal.providers.store import MemberRow, ResourceRow, ResourceStore

_PREEMPTIBLE = ("spot", "flex_start")


def preempt_machine(schema: CloudSchema, store: ResourceStore, name: str) -> str:
    """Take the machine with this name or id back, as its cloud does; return what happened to it."""
    with store.transaction():
        for member in store.find_members():
            if name in (member.id, member.name):
                return _preempt_member(schema, store, member)
        for row in store.find_resources_by_type(*SINGLE_MACHINES):
            if name in (row.id, get_machine_name(row)):
                return _preempt_single(schema, store, row)
    known = [member.name for member in store.find_members()]
    known += [get_machine_name(row) for row in store.find_resources_by_type(*SINGLE_MACHINES)]
    raise InputError(
        f"no machine {name!r} in the simulated {schema.cloud}",
        where="--node",
        remedy=f"machines are {', '.join(sorted(known)[:5])} …" if known else "run `pulumi up` first",
    )


def get_machine_name(row: ResourceRow) -> str:
    """Return the name that a person sees: AWS has it in a tag."""
    inputs = unwrap_secrets(row.inputs)
    tags = inputs.get("tags") if isinstance(inputs.get("tags"), dict) else {}
    return str(
        inputs.get("name") or inputs.get("vmName") or tags.get("Name") or tags.get("gpufleet-node") or row.id
    )


def _refuse_unless_preemptible(schema: CloudSchema, name: str, purchase: str) -> None:
    if purchase not in _PREEMPTIBLE:
        problem = f"{name} is bought as {purchase}; the simulated {schema.cloud} preempts spot machines only"
        raise InputError(problem, where="--node", remedy="name a spot machine")


def _preempt_member(schema: CloudSchema, store: ResourceStore, member: MemberRow) -> str:
    _refuse_unless_preemptible(schema, member.name, member.purchase)
    store.delete_member(member)
    settle(schema, store, member.kind)
    now = {other.id for other in store.find_members(member.group_id)}
    return f"{member.name} is gone; its group has {len(now)} machines"


def _preempt_single(schema: CloudSchema, store: ResourceStore, row: ResourceRow) -> str:
    inputs = resolve_launch_inputs(store, row.type, row.inputs)
    request = describe_single_machine(row.type, inputs)
    name = get_machine_name(row)
    _refuse_unless_preemptible(schema, name, request.purchase if request else "")
    state = _choose_stopped_state(row.type, inputs)
    if state is None:
        store.delete_resource(row.type, row.id)
        return f"{name} is deleted; the next `pulumi up --refresh` creates it again"
    store.put_resource(replace(row, outputs={**row.outputs, **state}))
    return f"{name} is stopped and keeps its disks, as on_eviction: stop asks; `pulumi up` does not start it again"


def _choose_stopped_state(kind: str, inputs: PlainValues) -> PlainValues | None:
    """Return the outputs of a machine that its cloud stops; None if the cloud deletes it."""
    if kind == AWS_INSTANCE:
        options = (inputs.get("instanceMarketOptions") or {}).get("spotOptions") or {}
        stops = options.get("instanceInterruptionBehavior") in ("stop", "hibernate")
        return {"instanceState": "stopped"} if stops else None
    if kind == GCP_INSTANCE:
        deletes = (inputs.get("scheduling") or {}).get("instanceTerminationAction") == "DELETE"
        return None if deletes else {"currentStatus": "TERMINATED"}
    return None if inputs.get("evictionPolicy") == "Delete" else {"provisioningState": "Succeeded"}

"""Gives one member of a group back to its cloud such that the group keeps its size and starts another.

A member that is gone already is released: an interrupted replacement can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpufleet.errors import EnvironmentFault
from gpufleet.fleet import AwsAccount

AZURE_TIMEOUT_S = 600  # deleting a machine takes minutes; the set's size must be restored after it


def release_aws_member(
    region: str,
    instance_id: str,
    report: Callable[[str], None],
    account: AwsAccount | None = None,
    create: Any = None,
) -> None:
    """Terminate a member; its group starts another. One that is gone already is released.

    The group's size stays (``ShouldDecrementDesiredCapacity``): EC2's own TerminateInstances would do as well, but only
    after a health check has noticed.
    """
    from botocore.exceptions import ClientError

    from gpufleet.catalog.prices.refresh.aws import translate_boto_errors
    from gpufleet.nodes.cloud_api.aws import build_client_factory

    permission = "autoscaling:TerminateInstanceInAutoScalingGroup"
    with translate_boto_errors(permission, f"aws {region}"):
        client = (create or build_client_factory(account))("autoscaling", region)
        listed = client.describe_auto_scaling_instances(InstanceIds=[instance_id])["AutoScalingInstances"]
        if not listed:
            report(f"{instance_id} is in no group any more")
            return
        try:
            client.terminate_instance_in_auto_scaling_group(
                InstanceId=instance_id, ShouldDecrementDesiredCapacity=False
            )
        except ClientError as error:
            if "not found" not in str(error).lower():
                raise
    report(f"{instance_id} is being terminated; {listed[0]['AutoScalingGroupName']} starts another")


def release_gcp_member(  # noqa: PLR0917 - the parts of one address
    project: str,
    group: str,
    zone: str,
    name: str,
    region: str,
    report: Callable[[str], None],
    api: Any = None,
) -> None:
    """Have a managed group delete a member and create it again, under the same name."""
    from gpufleet.nodes.cloud_api.account import READ_TIMEOUT_S
    from gpufleet.nodes.cloud_api.gcp import GcpApi

    access = api or GcpApi(project)
    regional = "/regions/" in group
    place = {"region": region} if regional else {"zone": zone}
    member = f"projects/{project}/zones/{zone}/instances/{name}"
    kind = "region_" if regional else ""
    request = {
        "project": project,
        "instance_group_manager": group.rpartition("/")[2],
        f"{kind}instance_group_managers_recreate_{'' if regional else 'instances_'}request_resource": {
            "instances": [member]
        },
        **place,
    }
    client = access.client("RegionInstanceGroupManagers" if regional else "InstanceGroupManagers")
    with access.translate_errors("compute.instanceGroupManagers.update"):
        client.recreate_instances(request=request, timeout=READ_TIMEOUT_S).result(timeout=READ_TIMEOUT_S)
    report(f"{name} is being deleted and created again by {group.rpartition('/')[2]}")


def release_azure_member(
    subscription: str, group: str, vm_id: str, report: Callable[[str], None], api: Any = None
) -> None:
    """Delete a member of a scale set, then restore the size that the set had before."""
    from gpufleet.nodes.cloud_api.azure import AzureApi, resource_group_of

    access = api or AzureApi(subscription)
    sets = access.compute.virtual_machine_scale_sets
    names = resource_group_of(group), group.rpartition("/")[2]
    prefix = "Microsoft.Compute/virtualMachineScaleSets"
    members = access.list_all(
        f"{prefix}/virtualMachines/read", access.compute.virtual_machine_scale_set_vms.list, *names
    )
    numbers = [member["instanceId"] for member in members if member["properties"].get("vmId") == vm_id]
    if not numbers:
        report(f"{vm_id} is in no scale set any more")
        return
    with access.translate_errors(f"{prefix}/delete/action"):
        size = sets.get(*names).sku.capacity
        _wait(sets.begin_delete_instances(*names, {"instanceIds": numbers}, polling_interval=2), names[1])
    with access.translate_errors(f"{prefix}/write"):
        sku = sets.get(*names).sku
        if sku.capacity < size:
            sku.capacity = size
            _wait(sets.begin_update(*names, {"sku": sku.as_dict()}, polling_interval=2), names[1])
    report(f"{vm_id} is deleted; {names[1]} has {size} machines again")


def _wait(poller: Any, name: str) -> None:
    poller.wait(AZURE_TIMEOUT_S)
    if not poller.done():
        hint = (
            "the node was not retired: wait, compare the set's size with the spec, then run the command again"
        )
        raise EnvironmentFault(f"azure: {name} is not ready after {AZURE_TIMEOUT_S} s", hint=hint)
    poller.result()

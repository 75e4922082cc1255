"""Which cloud API lists a stack's instances: one source for each AWS region, GCP project and Azure subscription.

In a rehearsal the simulated clouds list them, and no real cloud is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from gpufleet import fleet
from gpufleet.nodes import SourceReport
from gpufleet.nodes.cloud_api.account import find_azure_subscription, find_gcp_project, list_aws_regions
from gpufleet.nodes.cloud_api.instance import CloudGroup, build_instance_report, read_simulated_members

SimulatedMembers = Callable[[str], Iterable[Mapping[str, Any]]]
"""The listing of a rehearsal: the members of a stack's groups in the simulated clouds."""

MemberSource = tuple[str, Callable[[], SourceReport]]


def list_cloud_sources(
    declared: fleet.Fleet, groups: Sequence[CloudGroup], environment: Mapping[str, str], at: datetime
) -> Iterator[MemberSource]:
    """Yield every account that the stack's pools use, with the function that lists its instances."""
    for part in declared.split_by_account():
        yield from _list_account_sources(
            part, [g for g in groups if g.account == part.account], environment, at
        )


def _list_account_sources(
    part: fleet.Fleet, groups: Sequence[CloudGroup], environment: Mapping[str, str], at: datetime
) -> Iterator[MemberSource]:
    clouds = part.clouds | {group.cloud for group in groups}
    stack_tag = fleet.slugify(part.stack)
    suffix = f":{part.account}" if part.account else ""
    options = {"account": part.account, "prefer_public": part.ssh.has_public_source}
    for region in list_aws_regions(part, (group.region for group in groups if group.cloud == "aws")):
        fetch = partial(_fetch_aws, part, stack_tag, region, at, groups, **options)
        yield f"aws:{stack_tag}:{region}{suffix}", fetch
    if "gcp" in clouds:
        yield (
            f"gcp:{stack_tag}{suffix}",
            partial(_fetch_gcp, part, environment, stack_tag, at, groups, **options),
        )
    if "azure" in clouds:
        yield (
            f"azure:{stack_tag}{suffix}",
            partial(_fetch_azure, part, environment, stack_tag, at, groups, **options),
        )


def _fetch_aws(declared: fleet.Fleet, *arguments: Any, **options: Any) -> SourceReport:
    from gpufleet.nodes.cloud_api.aws import build_client_factory, fetch_aws_instance_report

    stack_tag, region, at, groups = arguments
    create = build_client_factory(declared.aws)
    return fetch_aws_instance_report(stack_tag, region, at, groups, create, **options)


def _fetch_gcp(
    declared: fleet.Fleet, environment: Mapping[str, str], *arguments: Any, **options: Any
) -> SourceReport:
    from gpufleet.nodes.cloud_api import gcp

    stack_tag, at, groups = arguments
    api = gcp.GcpApi(find_gcp_project(declared, environment))
    return gcp.fetch_gcp_instance_report(stack_tag, api, at, groups, **options)


def _fetch_azure(
    declared: fleet.Fleet, environment: Mapping[str, str], *arguments: Any, **options: Any
) -> SourceReport:
    from gpufleet.nodes.cloud_api import azure

    stack_tag, at, groups = arguments
    api = azure.AzureApi(find_azure_subscription(declared, environment))
    return azure.fetch_azure_instance_report(stack_tag, api, at, groups, **options)


def list_simulated_sources(
    declared: fleet.Fleet, groups: Sequence[CloudGroup], list_members: SimulatedMembers, at: datetime
) -> Iterator[MemberSource]:
    """Yield each cloud with groups, with the function that lists their members in the rehearsal."""
    for cloud in sorted({group.cloud for group in groups}):
        yield (
            f"{cloud}:{fleet.slugify(declared.stack)}",
            partial(_read_simulated, declared, cloud, groups, list_members, at),
        )


def _read_simulated(
    declared: fleet.Fleet,
    cloud: str,
    groups: Sequence[CloudGroup],
    list_members: SimulatedMembers,
    at: datetime,
) -> SourceReport:
    cloud_groups = [group for group in groups if group.cloud == cloud]
    machines = {pool.name: pool.machine for pool in declared.pools}
    stack_tag = fleet.slugify(declared.stack)
    members = read_simulated_members(list_members(declared.stack), cloud_groups, stack_tag, machines)
    return build_instance_report(
        members, f"{cloud}:{stack_tag}", at, cloud_groups, prefer_public=declared.ssh.has_public_source
    )

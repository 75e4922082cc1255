"""Sweep a stack: list, compare, show, and delete what was confirmed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gpufleet import catalog, engine, fleet, paths
from gpufleet.errors import CheckFailed, EnvironmentFault, GpufleetError, InputError
from gpufleet.nodes import Registry
from gpufleet.nodes.cloud_api.account import find_azure_subscription, find_gcp_project, list_aws_regions
from gpufleet.nodes.cloud_api.gcp import resource_path
from gpufleet.nodes.cloud_api.instance import read_stack_groups
from gpufleet.nodes.model import OBSERVING_SOURCES
from gpufleet.nodes.pulumi_state import get_nested_text
from gpufleet.operations.stack_state import read_stack_resources
from gpufleet.operations.sweep.finding import CloudResource, SweepFinding, SweepReport, find_orphans

MAX_DELETIONS = 200  # in one run; more is a mistake of ours, or the wrong state
Lister = Callable[[], Iterable[CloudResource]]


@dataclass(frozen=True)
class SweepOptions:
    """What to sweep. ``regions`` are AWS regions to read besides those of the stack's pools."""

    stack: str
    regions: tuple[str, ...] = ()
    state_file: Path | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


@dataclass(frozen=True)
class DeletionResult:
    """What became of one finding; ``problem`` is empty if it is gone."""

    finding: SweepFinding
    problem: str = ""


class SweepRun:
    """One sweep. ``listers`` replaces the clouds' APIs, account by account."""

    def __init__(self, options: SweepOptions, listers: Mapping[str, Lister] | None = None) -> None:
        """Read the declared fleet, and what state and registry know; EnvironmentFault if one cannot be read."""
        if listers is None and options.environment.get("GPUFLEET_REHEARSAL"):
            hint = f"gpufleet rehearse down -s {options.stack}"
            raise EnvironmentFault("a rehearsal has no real cloud to sweep", hint=hint)
        root = paths.find_project_root()
        self.stack, self.options = options.stack, options
        self.declared = fleet.load_fleet(options.stack, root)
        resources = read_stack_resources(options.stack, root, options.environment, options.state_file)
        declared_ids, self.registered_states = read_registered_instances(root)
        self.known_ids = {*list_known_ids(resources), *declared_ids}
        self.is_state_empty = not any(resource.custom and resource.id for resource in resources)
        self.known_groups = {
            text for group in read_stack_groups(resources) for text in (group.id, group.name)
        }
        self.listers = dict(listers) if listers is not None else self._list_accounts()

    def list_findings(self) -> SweepReport:
        """Ask every account; one that does not answer has no findings, and is reported."""
        resources_of_accounts: list[CloudResource] = []
        listed: dict[str, int] = {}
        failures: dict[str, str] = {}
        stack_tag = fleet.slugify(self.stack)
        for account, list_resources in self.listers.items():
            try:
                resources = [
                    each for each in list_resources() if each.tags.get("gpufleet-stack") == stack_tag
                ]
            except GpufleetError as error:
                failures[account] = error.text_with_hint
                continue
            listed[account] = len(resources)
            resources_of_accounts += resources
        findings = find_orphans(
            resources_of_accounts,
            self.known_ids,
            self.known_groups,
            stack_tag,
            registered_states=self.registered_states,
        )
        return SweepReport(self.stack, tuple(findings), listed, failures, self.is_state_empty)

    def delete_confirmed(self, confirmed: SweepReport) -> Iterator[DeletionResult]:
        """Delete what was listed and confirmed, if a fresh listing still finds it; yield each result.

        An interrupted run is repeated: what is gone is no longer listed.
        """
        if len(confirmed.deletable) > MAX_DELETIONS:
            problem = f"{len(confirmed.deletable)} resources are more than the {MAX_DELETIONS} of one run"
            raise InputError(problem, where="--apply", remedy="is this the right state? read the dry run")
        fresh = {(row.resource.cloud, row.resource.id): row for row in self.list_findings().deletable}
        for row in confirmed.deletable:
            current = fresh.get((row.resource.cloud, row.resource.id))
            if current is None:
                yield DeletionResult(row, "changed since it was listed: kept")
                continue
            yield DeletionResult(current, _delete(current))

    def _list_accounts(self) -> dict[str, Lister]:
        accounts: dict[str, Lister] = {}
        for part in self.declared.split_by_account():
            suffix = f" {part.account}" if part.account else ""
            regions = self.options.regions if not part.account or "aws" in part.clouds else ()
            for region in list_aws_regions(part, regions):
                accounts[f"aws {region}{suffix}"] = partial(_list_aws, part, region)
            if "gcp" in part.clouds:
                accounts[f"gcp{suffix}"] = partial(_list_gcp, part, self.options.environment)
            if "azure" in part.clouds:
                accounts[f"azure{suffix}"] = partial(_list_azure, part, self.options.environment)
        return accounts


def _list_aws(declared: fleet.Fleet, region: str) -> Iterable[CloudResource]:
    from gpufleet.nodes.cloud_api.aws import build_client_factory
    from gpufleet.operations.sweep.aws import list_aws_resources

    create = build_client_factory(declared.aws)
    return list_aws_resources(fleet.slugify(declared.stack), region, create)


def _list_gcp(declared: fleet.Fleet, environment: Mapping[str, str]) -> Iterable[CloudResource]:
    from gpufleet.nodes.cloud_api.gcp import GcpApi
    from gpufleet.operations.sweep.gcp import list_gcp_resources

    return list_gcp_resources(GcpApi(find_gcp_project(declared, environment)))


def _list_azure(declared: fleet.Fleet, environment: Mapping[str, str]) -> Iterable[CloudResource]:
    from gpufleet.nodes.cloud_api.azure import AzureApi
    from gpufleet.operations.sweep.azure import list_azure_resources

    return list_azure_resources(AzureApi(find_azure_subscription(declared, environment)))


def _delete(finding: SweepFinding) -> str:
    try:
        if finding.resource.delete is not None:
            finding.resource.delete()
    except GpufleetError as error:
        return error.text_with_hint
    return ""


def list_known_ids(resources: Iterable[engine.StateResource]) -> Iterator[str]:
    """Yield every id of a state's resources, also ids of a cloud's own that the provider keeps as outputs."""
    for resource in resources:
        if not resource.custom or resource.id is None:
            continue
        yield resource.id
        for name in (
            "instanceId",
            "vmId",
            "arn",
            "selfLink",
            "allocationId",
            "spotInstanceRequestId",
            "numericId",
        ):
            yield get_nested_text(resource.outputs, name)
        yield resource_path(get_nested_text(resource.outputs, "selfLink"))


def read_registered_instances(root: Path) -> tuple[list[str], dict[str, str]]:
    """Return the instances that the registry has from a stack's own sources, and the state of those that it uses.

    A node that only a cloud's API reports does not count: that API lists orphans too. It counts once the node has come
    further than ``discovered``.
    """
    url = paths.registry_database_url(root)
    if not Registry.has_registry(url):
        return [], {}
    with Registry(url) as registry:
        nodes = [node for node in registry.list_nodes() if node.state != "retired" and node.instance_id]
    declared = [
        str(node.instance_id)
        for node in nodes
        if any(seen.source.partition(":")[0] not in _CLOUD_AND_OBSERVING for seen in node.sources)
    ]
    states = {
        str(node.instance_id): node.state for node in nodes if node.state not in ("discovered", "expected")
    }
    return declared, states


_CLOUD_AND_OBSERVING = frozenset((*catalog.CLOUDS, *OBSERVING_SOURCES))


def check_confirmation(report: SweepReport, code: str) -> None:
    """Raise InputError unless the code is that of exactly this list."""
    if code != report.fingerprint:
        problem = "is not the code of this list" if code else "a confirmation is missing"
        raise InputError(
            problem, where="--confirm", remedy="run without --apply, read the list, give its code"
        )


def format_result(result: DeletionResult) -> str:
    """Return one line for a deletion."""
    resource = result.finding.resource
    return f"{'left' if result.problem else 'deleted'}: {resource.kind} {resource.id}" + (
        f": {result.problem}" if result.problem else ""
    )


def raise_if_incomplete(report: SweepReport, results: Iterable[DeletionResult] = ()) -> None:
    """Raise CheckFailed if an account did not answer or a deletion failed."""
    if report.failures:
        raise CheckFailed(f"not swept: {', '.join(report.failures)}")
    failed = [result for result in results if result.problem]
    if failed:
        raise CheckFailed(f"{len(failed)} resources are left", hint="run the command again")

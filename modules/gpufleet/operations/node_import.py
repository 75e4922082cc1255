"""Nodes that are there already: instances of accounts, by the clouds' APIs, and machines of a CSV file.

Each account and region is a source of its own. One that fails changes nothing: its last good listing stays in force,
its nodes are not missing, and the failure is recorded and printed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from gpufleet import catalog, paths
from gpufleet.boundary import (
    CsvRow,
    check_identifier,
    decode_csv,
    is_identifier,
    read_text,
    validate_with_pydantic,
)
from gpufleet.errors import EnvironmentFault, GpufleetError, InputError
from gpufleet.fleet import AwsAccount
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, ReportOutcome, SourceReport
from gpufleet.nodes.cloud_api.account import STACK_TAG
from gpufleet.nodes.cloud_api.instance import CloudInstance, build_instance_report
from gpufleet.nodes.declaration import KINDS, list_machine_accelerators
from gpufleet.nodes.model import utc_now
from gpufleet.operations import source_outcome

MAX_PARALLEL = 8  # regions that are listed at the same time
TEXT_COLUMNS = ("cloud", "account", "region", "pool", "template", "machine", "address")
IGNORED_COLUMNS = ("id", "state", "holds", "reachable")
"""Columns of ``nodes export csv`` that a file does not decide."""
CARDS = re.compile(r"(\d{1,3})\s*x\s*(.+)")

Listing = tuple[str, Callable[[], Sequence[CloudInstance]]]
"""A source with what lists its instances."""


@dataclass
class ImportResult:
    """What came of an import, source by source."""

    outcomes: list[ReportOutcome] = field(default_factory=list)
    failures: dict[str, GpufleetError] = field(default_factory=dict)
    left_out: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "sources": [source_outcome.outcome_as_json(outcome) for outcome in self.outcomes],
            "without_accelerator": self.left_out,
            "failures": {source: str(error) for source, error in self.failures.items()},
        }

    def format_lines(self) -> Iterator[str]:
        """Yield a line for each source with nodes, and what was left out."""
        shown = [
            outcome for outcome in self.outcomes if outcome.node_count or outcome.missing or outcome.stale
        ]
        yield from map(source_outcome.format_outcome_line, shown)
        if empty := len(self.outcomes) - len(shown):
            yield f"{empty} {'sources have' if empty > 1 else 'source has'} no nodes"
        if self.left_out:
            yield f"{self.left_out} instances have no accelerator: --all-machines takes them too"

    def list_warnings(self) -> Iterator[str]:
        """Yield conflicts, values left out, and failures."""
        yield from source_outcome.list_outcome_warnings(self.outcomes)
        yield from source_outcome.list_failures(self.failures)

    def raise_if_incomplete(self) -> None:
        """Raise EnvironmentFault if no source answered, CheckFailed if some did not or contradict others."""
        if self.failures and not self.outcomes:
            raise EnvironmentFault("no source answered; the registry is as it was")
        has_conflicts = any(outcome.conflicts for outcome in self.outcomes)
        source_outcome.raise_for_failures(self.failures, has_conflicts=has_conflicts, done="imported")


def import_cloud_instances(
    listings: Iterable[Listing], *, all_machines: bool = False, prefer_public: bool = False
) -> ImportResult:
    """Import the instances of each listing into the project's registry; those of one cloud call are one report."""
    result, at = ImportResult(), utc_now()
    listed: dict[str, list[CloudInstance]] = {}
    with Registry(paths.registry_database_url()) as registry:
        number = registry.create_revision()  # before anything is read: what reads later is newer
        for source, answer in _list_at_once(listings):
            if isinstance(answer, GpufleetError):
                result.failures[source] = answer
            else:
                fit = [each for each in answer if all_machines or has_accelerator(each)]
                result.left_out += len(answer) - len(fit)
                listed[source] = fit
        nodes = registry.list_nodes()
        known = {node.instance_id: node.name for node in nodes if node.instance_id}
        taken = {node.name for node in nodes if node.state != "retired"}
        names = choose_names([each for instances in listed.values() for each in instances], known, taken)
        reports = [
            build_instance_report(
                [replace(each, name=names[each.instance_id]) for each in instances], source, at,
                prefer_public=prefer_public,
            )
            for source, instances in listed.items()
        ]  # fmt: skip
        _apply(registry, number, reports, result)
    return result


def _list_at_once(
    listings: Iterable[Listing],
) -> Iterator[tuple[str, Sequence[CloudInstance] | GpufleetError]]:
    tasks = list(listings)

    def run(task: Listing) -> Sequence[CloudInstance] | GpufleetError:
        try:
            return list(task[1]())
        except GpufleetError as error:
            return error

    with ThreadPoolExecutor(max_workers=MAX_PARALLEL) as pool:
        yield from zip((source for source, _ in tasks), pool.map(run, tasks), strict=True)


def has_accelerator(instance: CloudInstance) -> bool:
    """Return whether an instance has cards of its own or by its machine."""
    return bool(instance.accelerators or list_machine_accelerators(instance.machine))


def choose_names(
    instances: Iterable[CloudInstance], known: Mapping[str, str], taken: set[str]
) -> dict[str, str]:
    """Return a name for each instance, by its id: the one that it has here, else its own with a part of its id.

    An instance of a stack keeps the stack's name. A name that two instances would share gets the id's first characters.
    """
    wanted = {each.instance_id: _wanted_name(each) for each in instances}
    counts = Counter(wanted.values())
    names = {}
    for instance_id, name in wanted.items():
        is_shared = counts[name] > 1 or name in taken
        short_id = re.sub(r"[^A-Za-z0-9]", "", instance_id.rpartition("/")[2].removeprefix("i-"))[:12]
        names[instance_id] = known.get(instance_id) or (f"{name}-{short_id}" if is_shared else name)
    return names


def _wanted_name(instance: CloudInstance) -> str:
    tagged = instance.tags.get("Name", "")
    if STACK_TAG in instance.tags or not is_identifier(tagged, "name"):
        return instance.name
    return tagged


def list_aws_listings(profiles: Sequence[str], regions: Sequence[str]) -> Iterator[Listing]:
    """Yield a listing for each account of the profiles (the caller's own without one) and each enabled region.

    Two profiles of one account are one account. Credentials that fail are a listing that fails.
    """
    from gpufleet.nodes.cloud_api.aws import build_client_factory, list_aws_instances

    seen = set[str]()
    for profile in profiles or ("",):
        settings = validate_with_pydantic(AwsAccount, {"profile": profile}, "--profile") if profile else None
        create = build_client_factory(settings)
        try:
            account, enabled = _find_aws_account(create)
        except GpufleetError as error:
            yield f"aws-import:{profile or 'default'}", partial(_raise, error)
            continue
        if account in seen:
            continue
        seen.add(account)
        for region in _check_regions(regions, enabled, profile) or enabled:
            client = create("ec2", region)  # here: a session makes its clients in one thread
            listing = partial(_list_aws_region, list_aws_instances, region, client)
            yield f"aws-import:{account}:{region}", listing


def _list_aws_region(
    list_instances: Callable[..., Iterable[CloudInstance]], region: str, client: Any
) -> Sequence[CloudInstance]:
    return list(list_instances(region, {}, lambda *_: client))


def _raise(error: GpufleetError) -> Sequence[CloudInstance]:
    raise error


def _check_regions(regions: Sequence[str], enabled: Sequence[str], profile: str) -> Sequence[str]:
    if unknown := [region for region in regions if region not in enabled]:
        raise InputError(
            f"{', '.join(unknown)} is not a region that {profile or 'the account'} has enabled", where="--region",
            remedy=f"use {', '.join(enabled)}",
        )  # fmt: skip
    return regions


def _find_aws_account(create: Callable[[str, str], Any]) -> tuple[str, list[str]]:
    """Return the account's number and its enabled regions."""
    from gpufleet.catalog.prices.refresh.aws import translate_boto_errors

    with translate_boto_errors("sts:GetCallerIdentity", "aws"):
        account = str(create("sts", "us-east-1").get_caller_identity()["Account"])
    with translate_boto_errors("ec2:DescribeRegions", f"aws {account}"):
        answer = create("ec2", "us-east-1").describe_regions()
    return account, sorted(str(region["RegionName"]) for region in answer["Regions"])


def list_gcp_listings(projects: Sequence[str]) -> Iterator[Listing]:
    """Yield a listing for each project."""
    from gpufleet.nodes.cloud_api.gcp import GcpApi, list_gcp_instances

    for project in dict.fromkeys(projects):
        yield f"gcp-import:{project}", partial(list_gcp_instances, GcpApi(project), "")


def list_azure_listings(subscriptions: Sequence[str]) -> Iterator[Listing]:
    """Yield a listing for each subscription."""
    from gpufleet.nodes.cloud_api.azure import AzureApi, list_azure_instances

    for subscription in dict.fromkeys(subscriptions):
        yield f"azure-import:{subscription}", partial(list_azure_instances, AzureApi(subscription), "")


def import_csv_file(path: Path) -> ImportResult:
    """Import the machines of a CSV file, as ``nodes export csv`` writes it; an InputError changes nothing."""
    at = utc_now()
    observations = [
        _read_row(row, f"csv:{path.stem}", at) for row in decode_csv(read_text(path), str(path), ("name",))
    ]
    check_identifier(path.stem, "name", str(path))
    names = Counter(seen.name for seen in observations)
    if twice := [name for name, count in names.items() if count > 1]:
        raise InputError(f"{', '.join(twice)} stands there twice", where=str(path), key="name")
    result = ImportResult()
    with Registry(paths.registry_database_url()) as registry:
        report = SourceReport(f"csv:{path.stem}", at, observations)
        _apply(registry, registry.create_revision(), [report], result)
    return result


def _read_row(row: CsvRow, source: str, at: datetime) -> NodeObservation:
    texts = {key: value.strip() for key, value in row.items()}
    allowed = (
        "name",
        "kind",
        "rack",
        "slot",
        "serial",
        "instance_id",
        "accelerators",
        "usd_per_hour",
        *TEXT_COLUMNS,
    )
    if unknown := [key for key in texts if key not in (*allowed, *IGNORED_COLUMNS)]:
        raise InputError(
            f"unknown column {unknown[0]!r}", where=row.where, remedy=f"use {', '.join(allowed)}"
        )
    name = check_identifier(texts["name"], "name", row.where, "name")
    if (kind := texts.get("kind", "")) and kind not in KINDS:
        raise row.build_cell_error("kind", f"is not one of {', '.join(KINDS)}")
    kinds = {"address": "address", "machine": "model", "serial": "serial", "instance_id": "instance id"}
    for key in ("rack", "slot", "serial", "instance_id", *TEXT_COLUMNS):
        if value := texts.get(key):
            check_identifier(value, kinds.get(key, "name"), row.where, key)
    declared: dict[str, Any] = {key: texts[key] for key in TEXT_COLUMNS if texts.get(key)}
    declared["kind"] = kind or "gpu_server"
    if texts.get("accelerators"):
        declared["accelerators"] = _read_cards(row)
    if texts.get("usd_per_hour"):
        declared["usd_per_hour"] = row.get_number("usd_per_hour")
    identity = NodeIdentity(
        serial=texts.get("serial") or None,
        instance_id=texts.get("instance_id") or None,
        rack=texts.get("rack") or None,
        slot=texts.get("slot") or None,
        account=texts.get("account", ""),
    )
    return NodeObservation(source, name, identity, declared=declared, observed_at=at)


def _read_cards(row: CsvRow) -> list[dict[str, Any]]:
    """Return the cards of a cell such as ``8x H100 SXM5 80GB``."""
    cards = []
    for text in row["accelerators"].split(","):
        match = CARDS.fullmatch(text.strip())
        if match is None or not int(match[1]):
            raise row.build_cell_error("accelerators", "is not a number of cards such as 8x H100 SXM5 80GB")
        try:
            card = catalog.get_accelerator(match[2].strip())
        except InputError as error:
            raise row.build_cell_error("accelerators", f"names no card of the catalogue: {error}") from None
        cards.append({"model": card.name, "count": int(match[1]), "memory_gib": card.memory_gib})
    return cards


def _apply(registry: Registry, number: int, reports: Sequence[SourceReport], result: ImportResult) -> None:
    with registry.transaction(revision_number=number):
        result.outcomes += registry.apply_source_reports(reports)
        for source, error in result.failures.items():
            registry.record_source_failure(source, str(error))

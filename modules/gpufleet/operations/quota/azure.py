"""Azure: family and vCPUs of a size from the Resource SKUs API, limit and usage from Compute's usages, per region."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from gpufleet import fleet
from gpufleet.nodes.cloud_api.account import STACK_TAG, find_azure_subscription
from gpufleet.nodes.cloud_api.azure import AzureApi, list_azure_instances
from gpufleet.nodes.cloud_api.instance import CloudInstance
from gpufleet.nodes.pulumi_state import get_nested_text, get_nested_value
from gpufleet.operations.quota.increase import build_azure_request
from gpufleet.operations.quota.need import AZURE_SPOT_BUCKET, QuotaNeed
from gpufleet.operations.quota.usage import BucketUsage

MACHINES = "virtualMachines"


def read_azure_usage(
    needs: Sequence[QuotaNeed], declared: fleet.Fleet, api: AzureApi | None = None
) -> Mapping[QuotaNeed, BucketUsage | str]:
    """Return the usage of each bucket. Spot machines of all families share one bucket."""
    client = api or AzureApi(find_azure_subscription(declared, os.environ))
    stack_tag = fleet.slugify(declared.stack)
    stack_instances = [each for each in list_azure_instances(client) if each.tags.get(STACK_TAG) == stack_tag]
    answers: dict[QuotaNeed, BucketUsage | str] = {}
    for region in sorted({need.region for need in needs}):
        regional = [need for need in needs if need.region == region]
        sizes = _read_sizes(client, region)
        usages = _read_usages(client, region)
        here = [each for each in stack_instances if each.region == region]
        for need in regional:
            answers[need] = _find_usage(need, sizes, usages, here, client.subscription)
    return answers


def _find_usage(
    need: QuotaNeed,
    sizes: Mapping[str, tuple[str, int]],
    usages: Mapping[str, tuple[str, float, float]],
    stack_instances: Sequence[CloudInstance],
    subscription: str,
) -> BucketUsage | str:
    unknown = [name for name in need.machines if name.lower() not in sizes]
    if unknown:
        return f"Azure does not offer {', '.join(unknown)} in {need.region} to this subscription"
    family = sizes[need.machines[0].lower()][0]
    # The family of the API decides where Azure spells it otherwise than the facts table does.
    name = next((each for each in (need.bucket, family) if each and _plain(each) in usages), "")
    if not name or (need.purchase == "spot" and _plain(name) != _plain(AZURE_SPOT_BUCKET)):
        return f"Azure reports no usage of {need.bucket or family} in {need.region}"
    bucket, used, limit = usages[_plain(name)]
    is_spot = _plain(name) == _plain(AZURE_SPOT_BUCKET)
    counted = [
        each for each in stack_instances
        if (each.lifecycle == "spot") == is_spot
        and (is_spot or _plain(sizes.get(each.machine.lower(), ("", 0))[0]) == _plain(name))
    ]  # fmt: skip
    return BucketUsage(
        limit=limit,
        used=used,
        used_by_stack=sum(sizes.get(each.machine.lower(), ("", 0))[1] for each in counted),
        source="usages of Microsoft.Compute, Resource SKUs",
        request=partial(build_azure_request, subscription, need.region, bucket),
        bucket=bucket,
    )


def _read_sizes(api: AzureApi, region: str) -> dict[str, tuple[str, int]]:
    """Return (quota family, vCPUs) of each size in a region, by its name in lower case."""
    skus = api.list_all(
        "Microsoft.Compute/skus/read", api.compute.resource_skus.list, filter=f"location eq '{region}'"
    )
    machines = (sku for sku in skus if get_nested_text(sku, "resourceType") == MACHINES)
    return {
        get_nested_text(sku, "name").lower(): (get_nested_text(sku, "family"), _read_vcpus(sku))
        for sku in machines
    }


def _read_vcpus(sku: Mapping[str, Any]) -> int:
    capabilities = get_nested_value(sku, "capabilities")
    values = {get_nested_text(each, "name"): get_nested_text(each, "value") for each in capabilities or ()}
    return int(values["vCPUs"]) if values.get("vCPUs", "").isdecimal() else 0


def _read_usages(api: AzureApi, region: str) -> dict[str, tuple[str, float, float]]:
    """Return (name, used, limit) of each bucket, by its name without the spelling differences of Azure's APIs."""
    rows = api.list_all("Microsoft.Compute/locations/usages/read", api.compute.usage.list, region)
    usages = {}
    for row in rows:
        name, used, limit = get_nested_text(row, "name", "value"), row.get("currentValue"), row.get("limit")
        if name and isinstance(used, int) and isinstance(limit, int):
            usages[_plain(name)] = (name, float(used), float(limit))
    return usages


def _plain(name: str) -> str:
    return name.replace(" ", "").lower()

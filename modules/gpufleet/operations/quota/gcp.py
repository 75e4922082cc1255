"""Google Cloud: Compute Engine's quotas of region and project; Cloud Quotas where these lists have no such bucket.

The lists of regions and projects give limit and usage, but have no bucket for H100 and newer. Cloud Quotas has the
limits of all, without usage, which is then counted from the project's instances.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from gpufleet import catalog, fleet
from gpufleet.errors import InputError
from gpufleet.nodes.cloud_api.account import STACK_TAG, find_gcp_project, take_bounded
from gpufleet.nodes.cloud_api.gcp import GcpApi, list_gcp_instances, to_dict
from gpufleet.nodes.cloud_api.instance import CloudInstance
from gpufleet.nodes.pulumi_state import get_nested_text, get_nested_value
from gpufleet.operations.quota.increase import IncreaseRequest, build_gcp_request
from gpufleet.operations.quota.need import GLOBAL, QuotaNeed
from gpufleet.operations.quota.usage import BucketUsage

FAMILY_DIMENSION = "gpu_family"
SPOT_PREFIX, SPOT_MODELS = "PREEMPTIBLE_", ("spot", "flex_start")
MAX_QUOTAS = 5000


def read_gcp_usage(
    needs: Sequence[QuotaNeed], declared: fleet.Fleet, api: GcpApi | None = None
) -> Mapping[QuotaNeed, BucketUsage | str]:
    """Return the usage of each bucket."""
    client = api or GcpApi(find_gcp_project(declared, os.environ))
    project = _Project(client, fleet.slugify(declared.stack))
    answers: dict[QuotaNeed, BucketUsage | str] = {}
    for need in needs:
        if need.bucket is None:
            answers[need] = f"no source names the quota bucket of {', '.join(need.machines)}"
        else:
            answers[need] = project.find_usage(need, need.bucket)
    return answers


@dataclass
class _Project:
    """What one project's APIs report, each read once."""

    api: GcpApi
    stack_tag: str
    _regions: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)

    def find_usage(self, need: QuotaNeed, bucket: str) -> BucketUsage | str:
        counted = [each for each in self.instances if self._counts(each, need)]
        used_by_stack = sum(
            count_gpus(each) for each in counted if each.tags.get(STACK_TAG) == self.stack_tag
        )
        listed = self._list_quotas(need.region).get(bucket)
        if listed:
            limit, used = listed
            request = self._build_request(*quota_id_of_metric(need.region, bucket))
            return BucketUsage(limit, used, used_by_stack, "Compute Engine", request)
        quota = self._find_in_cloud_quotas(need.region, bucket)
        if quota is None:
            return f"neither Compute Engine nor Cloud Quotas reports a quota {bucket} in {need.region}"
        limit, quota_id, dimensions = quota
        used = sum(count_gpus(each) for each in counted)
        request = self._build_request(quota_id, dimensions)
        return BucketUsage(limit, used, used_by_stack, "Cloud Quotas; running instances", request)

    def _build_request(self, quota_id: str, dimensions: dict[str, str]) -> Callable[[int], IncreaseRequest]:
        return partial(build_gcp_request, self.api.project, quota_id, dimensions)

    def _counts(self, instance: CloudInstance, need: QuotaNeed) -> bool:
        """Return whether an instance takes of a bucket: its accelerators, in that region, bought in that way."""
        if instance.state not in ("running", "provisioning", "staging"):
            return False
        if need.region == GLOBAL:
            return True
        bucket = str(need.bucket)
        if instance.region != need.region:
            return False
        if (instance.lifecycle in SPOT_MODELS) != bucket.startswith(SPOT_PREFIX):
            return False
        if instance.accelerators:
            return any(is_of_bucket(type_, bucket) for type_ in instance.accelerators)
        model = accelerators_of(instance.machine)
        return bool(model) and model in {accelerators_of(name) for name in need.machines}

    @cached_property
    def instances(self) -> list[CloudInstance]:
        return list_gcp_instances(self.api, labels="")

    def _list_quotas(self, region: str) -> dict[str, tuple[float, float]]:
        if region not in self._regions:
            service, names = ("Projects", {}) if region == GLOBAL else ("Regions", {"region": region})
            permission = f"compute.{service.lower()}.get"
            client = self.api.client(service)
            with self.api.translate_errors(permission):
                request = {"project": self.api.project, **names}
                answer = to_dict(client.get(request=request, **self.api.call_options()))
            quotas = get_nested_value(answer, "quotas") or []
            self._regions[region] = {
                get_nested_text(quota, "metric"): (
                    float(quota.get("limit") or 0),
                    float(quota.get("usage") or 0),
                )
                for quota in quotas
                if isinstance(quota, dict)
            }
        return self._regions[region]

    @cached_property
    def _quota_infos(self) -> list[dict[str, Any]]:
        parent = f"projects/{self.api.project}/locations/global/services/compute.googleapis.com"
        client = self.api.quotas
        with self.api.translate_errors("cloudquotas.quotas.get"):
            infos = client.list_quota_infos(request={"parent": parent}, **self.api.call_options())
            return [to_dict(info) for info in take_bounded(infos, "gcp quotas", MAX_QUOTAS)]

    def _find_in_cloud_quotas(self, region: str, bucket: str) -> tuple[float, str, dict[str, str]] | None:
        """Return limit, quota id and dimensions of a bucket: a metric, or ``GPUS_PER_GPU_FAMILY:NVIDIA_H100``."""
        name, _, family = bucket.partition(":")
        dimensions = {FAMILY_DIMENSION: family} if family else {}
        for info in self._quota_infos:
            if get_nested_text(info, "metric").rpartition("/")[2].upper() != name.upper():
                continue
            limit = _find_limit(get_nested_value(info, "dimensions_infos") or [], region, dimensions)
            if limit is not None:
                return limit, get_nested_text(info, "quota_id"), {**dimensions, "region": region}
        return None


def _find_limit(rows: list[Any], region: str, dimensions: Mapping[str, str]) -> float | None:
    """Return the limit of the most specific row that applies to a region; a missing value is a limit of zero."""
    matching = []
    for row in rows:
        named = get_nested_value(row, "dimensions") or {}
        locations = get_nested_value(row, "applicable_locations") or []
        values = {**dimensions, "region": region}
        if any(values.get(name) != value for name, value in named.items()):
            continue
        if region in locations or named.get("region") == region:
            matching.append((len(named), row))
    if not matching:
        return None
    best = max(matching, key=lambda pair: pair[0])[1]
    return float(get_nested_value(best, "details", "value") or 0)


def quota_id_of_metric(region: str, metric: str) -> tuple[str, dict[str, str]]:
    """Return id and dimensions of a metric's quota: ``NVIDIA-A100-GPUS-per-project-region``."""
    name = metric.replace("_", "-")
    if region == GLOBAL:
        return f"{name}-per-project", {}
    return f"{name}-per-project-region", {"region": region}


def accelerators_of(machine: str) -> str:
    """Return the model of a machine's accelerators, empty if it has none or is unknown."""
    try:
        cards = catalog.get_machine(machine, "gcp").accelerators
    except InputError:
        return ""
    return cards[0].model if cards else ""


def is_of_bucket(accelerator_type: str, bucket: str) -> bool:
    """Return whether a type such as ``nvidia-h100-80gb`` counts in a bucket such as ``NVIDIA_H100_GPUS``.

    Only the A100 has a bucket for each size of memory.
    """
    family = bucket.removeprefix(SPOT_PREFIX).rpartition(":")[2].removesuffix("_GPUS").removeprefix("NVIDIA_")
    name = accelerator_type.removeprefix("nvidia-").removeprefix("tesla-").replace("-", "_").upper()
    without_memory = re.sub(r"_\d+GB$", "", name)
    return name == family or (without_memory == family != "A100")


def count_gpus(instance: CloudInstance) -> int:
    """Return how many GPUs an instance has: what Google lists, else by its machine type."""
    if instance.accelerators:
        return sum(instance.accelerators.values())
    try:
        return sum(card.count for card in catalog.get_machine(instance.machine, "gcp").accelerators)
    except InputError:
        return 0

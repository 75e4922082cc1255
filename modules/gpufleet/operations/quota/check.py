"""Compare what a stack needs with what each bucket has left."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Literal

from gpufleet import catalog, fleet, paths
from gpufleet.boundary import make_printable
from gpufleet.errors import CheckFailed, EnvironmentFault, GpufleetError
from gpufleet.operations.quota.increase import IncreaseRequest
from gpufleet.operations.quota.need import QuotaNeed, list_quota_needs
from gpufleet.operations.quota.usage import BucketUsage, UsageReader

Status = Literal["enough", "short", "not_checked"]


@dataclass(frozen=True)
class QuotaCheck:
    """One bucket: need against limit. ``missing`` is by how much the limit is too low."""

    need: QuotaNeed
    status: Status
    reason: str = ""
    limit: float | None = None
    used: float | None = None
    used_by_stack: float | None = None
    missing: int = 0
    source: str = ""
    request: IncreaseRequest | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the check for programs."""
        need = self.need
        names = ("cloud", "account", "region", "purchase", "bucket", "unit")
        row = {key: getattr(need, key) for key in names}
        row |= {"pools": list(need.pools), "machines": list(need.machines), "need": need.amount}
        own_names = ("status", "reason", "limit", "used", "used_by_stack", "missing", "source")
        row |= {key: getattr(self, key) for key in own_names}
        return {**row, "request": asdict(self.request) if self.request else None}


@dataclass(frozen=True)
class QuotaReport:
    """All buckets of a stack."""

    stack: str
    checks: tuple[QuotaCheck, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs."""
        return {"stack": self.stack, "buckets": [check.as_json() for check in self.checks]}

    def format_lines(self) -> Iterator[str]:
        """Yield a line for each bucket, and its increase request under it."""
        for check in self.checks:
            yield _format_check(check)
            if check.request:
                yield f"  {check.request.command}"
                if check.request.url:
                    yield f"  or: {check.request.method} {check.request.url}"
                    yield f"      {check.request.body}"
        if not self.checks:
            yield f"{self.stack}: no pool needs quota"

    def raise_if_not_enough(self) -> None:
        """Raise CheckFailed if a bucket is too small, EnvironmentFault if one could not be checked."""
        short = [check for check in self.checks if check.status == "short"]
        if short:
            raise CheckFailed(f"quota is too low in {len(short)} of {len(self.checks)} buckets")
        unknown = [check for check in self.checks if check.status == "not_checked"]
        if unknown:
            problem = f"{len(unknown)} of {len(self.checks)} buckets were not checked"
            raise EnvironmentFault(problem, hint="each line above has its reason")


def check_stack_quotas(
    stack: str, readers: Mapping[str, UsageReader] | None = None, root: Any = None
) -> QuotaReport:
    """Return the quota check of a stack; in a rehearsal nothing is checked, because simulated clouds have no quota."""
    declared = fleet.load_fleet(stack, root or paths.find_project_root())
    parts = [(part, list_quota_needs(part)) for part in declared.split_by_account()]
    if readers is None and os.environ.get("GPUFLEET_REHEARSAL"):
        reason = "a rehearsal has no quotas"
        checks = (QuotaCheck(need, "not_checked", reason) for _, needs in parts for need in needs)
        return QuotaReport(stack, tuple(checks))
    usage: dict[QuotaNeed, BucketUsage | str] = {}
    for part, cloud in product(parts, catalog.CLOUDS):
        cloud_needs = [need for need in part[1] if need.cloud == cloud]
        if not cloud_needs:
            continue
        try:
            usage |= (readers or default_readers())[cloud](cloud_needs, part[0])
        except GpufleetError as error:
            line = make_printable(error.message, 200)
            usage |= dict.fromkeys(cloud_needs, f"{line} ({error.hint})" if error.hint else line)
    checks = (_compare(need, usage.get(need, "no answer")) for _, needs in parts for need in needs)
    return QuotaReport(stack, tuple(checks))


def default_readers() -> dict[str, UsageReader]:
    """Return the readers of the three clouds; each imports its SDK when it is called."""
    from gpufleet.operations.quota import aws, azure, gcp

    return {"aws": aws.read_aws_usage, "azure": azure.read_azure_usage, "gcp": gcp.read_gcp_usage}


def _compare(need: QuotaNeed, usage: BucketUsage | str) -> QuotaCheck:
    if isinstance(usage, str):
        return QuotaCheck(need, "not_checked", usage)
    amount = need.amount if usage.amount is None else usage.amount
    described = QuotaNeed(**{**vars_of(need), "amount": amount, "bucket": usage.bucket or need.bucket})
    if amount is None:
        return QuotaCheck(described, "not_checked", "no source says how much one machine needs")
    total_need = usage.used - usage.used_by_stack + max(usage.used_by_stack, amount)
    missing = max(0, round(total_need - usage.limit))
    request = usage.request(round(total_need)) if missing else None
    return QuotaCheck(
        described,
        "short" if missing else "enough",
        limit=usage.limit,
        used=usage.used,
        used_by_stack=usage.used_by_stack,
        missing=missing,
        source=usage.source,
        request=request,
    )


def vars_of(need: QuotaNeed) -> dict[str, Any]:
    """Return the fields of a need."""
    return {name: getattr(need, name) for name in QuotaNeed.__dataclass_fields__}


def _format_check(check: QuotaCheck) -> str:
    need = check.need
    account = f"{need.account} " if need.account else ""
    place = f"{need.cloud} {account}{need.region} {need.bucket or ' '.join(need.machines)} ({need.purchase})"
    if check.status == "not_checked":
        return f"not checked  {place}: {check.reason}"
    unit = {"vcpus": "vCPUs", "gpus": "GPUs"}[need.unit or "vcpus"]
    share_text = f", {check.used_by_stack:g} of them by this stack" if check.used_by_stack else ""
    line = f"{place}: needs {need.amount} {unit}, limit {check.limit:g}, used {check.used:g}{share_text}"
    return f"{check.status:<12} {line}" + (f"; {check.missing} missing" if check.missing else "")
